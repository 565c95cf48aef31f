// SPDX-License-Identifier: Apache-2.0
// written_model: what a model_builder has been given so far. Values have places: 0, 1, ...
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nn/operators/own.hpp"
#include "nn/tried_shapes.hpp"
#include "sluice/base/error.hpp"
#include "sluice/base/source_location.hpp"
#include "sluice/nn/any_tensor.hpp"
#include "sluice/nn/model.hpp"
#include "sluice/nn/model_builder.hpp"

namespace sluice::nn::detail {

// In place of an input's place.
inline constexpr std::size_t left_out = ~std::size_t{0};

class written_model {
public:
    using places = std::vector<std::size_t>;

    written_model(std::string name, model_builder_options options);

    // Throws error with the model's name and the line.
    [[noreturn]] void refuse(const source_location& location, const std::string& why,
                             errc code = errc::invalid_argument) const;

    std::size_t size() const noexcept { return values_.size(); }
    const tried_value& tried(std::size_t place) const { return values_[place].tried; }
    const tried_lengths& lengths() const noexcept { return lengths_; }

    // Each throws error with the line, and adds nothing then.
    std::size_t add_input(value_info info, const source_location& location);
    std::size_t add_constant(std::string name, any_tensor contents, const source_location& location);
    places add_node(std::size_t output_count, std::string_view op, places inputs,
                    const std::vector<named_attribute>& with, const source_location& location);
    void add_output(std::string name, std::size_t place, io::dtype type, const source_location& location);

    // Takes back what was added since there were that many.
    struct sizes {
        std::size_t values, constants, nodes;
    };
    sizes now() const noexcept { return {values_.size(), constants_.size(), nodes_.size()}; }
    void undo(const sizes& since);

    model finished() const;
    bool has_outputs() const noexcept { return !outputs_.empty(); }

private:
    struct written_value {
        std::string name;  // empty: it gets one at the end
        tried_value tried;
        bool is_of_node;
    };
    struct written_node {
        node what;  // its inputs and outputs are named by place
        places inputs, outputs;
    };
    struct written_output {
        std::size_t place;
        value_info info;
    };

    void require_free(const std::string& name, const char* what, const source_location& location) const;
    std::int64_t version_of(std::string_view domain) const;
    const operators::definition& find(std::string_view domain, std::string_view op,
                                      const source_location& location) const;
    std::vector<tried_value> try_all(const node& which, const operators::definition& what, const places& inputs,
                                     const source_location& location) const;
    std::vector<std::string> final_names(std::vector<const written_output*>& copies) const;

    model_builder_options options_;
    operators::known_to_network known_;
    model network_;  // path and versions
    tried_lengths lengths_;
    std::set<std::string, std::less<>> names_;  // that the caller has given
    std::vector<written_value> values_;
    std::vector<value_info> inputs_;
    std::vector<std::pair<std::size_t, constant>> constants_;
    std::vector<written_node> nodes_;
    std::vector<written_output> outputs_;
};

}  // namespace sluice::nn::detail
