// SPDX-License-Identifier: Apache-2.0
// attention_step: nodes that compute attention, as one command (kernels/attention). Nodes that divide what the queries,
// keys and values come from into heads only say where the command reads, and one that joins the heads where it writes.
//
// What the nodes are is found when the network is made (passes/attention.cpp); what depends on types and shapes is
// looked at in each run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kernels/attention/attention.hpp"
#include "nn/attention/strided_value.hpp"
#include "nn/joined_steps.hpp"
#include "sluice/nn/precision.hpp"
#include "sluice/runtime/interpreter.hpp"

namespace sluice::nn::detail {

// Which steps of the body are what. The body's last step gives its only output.
struct attention_recipe {
    std::vector<std::size_t> views;    // before the products, in order; and Mul and Div by one number
    std::size_t product = 0;           // of queries and keys
    std::vector<std::size_t> changes;  // of the scores, in order: Mul and Div by one number, then Add and Where
    std::size_t softmax = 0;
    std::size_t sums = 0;                      // the product with the values
    bool gives_zeros = false;                  // IsNaN and Where make probabilities that are NaN 0
    std::vector<std::size_t> after = {};       // views of the result, in order: Reshape and what is alike, Transpose
    std::map<std::size_t, std::size_t> path;   // of Mul, Div, Add and Where: the input that the scores come in by
    std::map<std::size_t, view_place> places;  // of Gather and Slice
};

class attention_step : public joined_steps {
public:
    // `host_inputs`: bits of the body's inputs that are needed in host memory.
    // `narrow_inputs`: see joined_steps.
    attention_step(prepared_graph body, attention_recipe recipe, precision what, std::uint32_t host_inputs,
                   std::vector<bool> narrow_inputs = {}, bool gives_narrow = false);

    // Whether queries, keys and values of f32 are rounded to 16 bits.
    bool rounds() const noexcept { return what_ == precision::f16 || what_ == precision::bf16; }
    // Whether this input of the body is rounded, or nothing but moved and then rounded: it may come in 16 bits.
    bool rounds_input(std::size_t input) const;
    // The same with these inputs, and perhaps the output where the command can be used, in 16 bits.
    std::shared_ptr<const attention_step> narrowed(std::vector<bool> inputs, bool gives_narrow) const;

    // For the step that stands for the body.
    const operators::definition& definition() const noexcept { return definition_; }

    std::optional<std::vector<any_tensor>> submit(const std::filesystem::path& path, execution_context& context,
                                                  std::span<const any_tensor> inputs) const override;

private:
    struct seen;
    struct found_call;

    bool add_scale(seen& to, std::size_t at, const std::vector<any_tensor>& values) const;
    bool add_mask(seen& to, std::size_t at, const std::vector<any_tensor>& values) const;
    bool see_step(std::map<slot, seen>& known, std::size_t at, const std::vector<any_tensor>& values) const;
    std::optional<found_call> call_for(const std::vector<any_tensor>& values, device_kind on) const;

    const attention_recipe recipe_;
    const precision what_;
    const bool gives_narrow_;
    std::vector<bool> rounded_inputs_;  // of the body
    const operators::definition definition_;
};

}  // namespace sluice::nn::detail
