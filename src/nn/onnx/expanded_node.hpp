// SPDX-License-Identifier: Apache-2.0
// expanded_node: a node that becomes several others. For known_functions.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "new_names.hpp"
#include "sluice/nn/model.hpp"

namespace sluice::nn::detail {

using named_attributes = std::map<std::string, attribute, std::less<>>;

class expanded_node {
public:
    // What is made goes to `to`. `scopes`: the graph and those around it, the innermost last.
    expanded_node(const model& of, node what, std::size_t position, std::span<graph* const> scopes, new_names& names,
                  std::vector<node>& to);

    [[noreturn]] void refuse(std::string_view why) const;              // errc::bad_file
    [[noreturn]] void refuse_unsupported(std::string_view why) const;  // errc::unsupported

    // --- the node ---
    const node& what() const noexcept { return node_; }
    std::int64_t opset() const noexcept { return opset_; }  // of ONNX's own operators
    bool has(std::size_t input) const { return input < node_.inputs.size() && !node_.inputs[input].empty(); }
    std::string input(std::size_t i) const { return has(i) ? node_.inputs[i] : std::string(); }
    bool wants(std::size_t output) const { return output < node_.outputs.size() && !node_.outputs[output].empty(); }
    std::int64_t integer(std::string_view name, std::int64_t otherwise) const;
    float real(std::string_view name, float otherwise) const;
    std::string text(std::string_view name, std::string_view otherwise) const;
    // Those of the node that have these names.
    named_attributes some(std::initializer_list<std::string_view> names) const;
    // Refuses other numbers of inputs and outputs, an input that is left out, and other attributes.
    void require(std::size_t least_inputs, std::size_t most_inputs, std::size_t outputs,
                 std::initializer_list<std::string_view> attributes) const;
    // The constant that a value is, or null.
    const constant* constant_of(std::string_view value) const;
    // Whether a node of the same graph before this one, with that operator, gives the value.
    bool is_given_by(std::string_view value, std::string_view op) const;

    // --- what becomes of it ---
    std::string add_constant(constant value);
    std::string number(float value);
    std::string integers(const std::vector<std::int64_t>& values);
    // A value of its own; or the node's output of this number.
    std::string apply(std::string_view op, std::vector<std::string> inputs, named_attributes with = {});
    std::string give(std::size_t output, std::string_view op, std::vector<std::string> inputs,
                     named_attributes with = {});
    // The same for an operator with several outputs; and for all of the node's.
    std::vector<std::string> apply_to_several(std::size_t outputs, std::string_view op,
                                              std::vector<std::string> inputs);
    void give_all(std::string_view op, std::vector<std::string> inputs, named_attributes with);

private:
    std::string new_name();

    const model& model_;
    const node node_;
    const std::size_t position_;
    const std::span<graph* const> scopes_;
    new_names& names_;
    std::vector<node>& to_;
    const std::int64_t opset_;
    std::size_t made_ = 0;
};

}  // namespace sluice::nn::detail
