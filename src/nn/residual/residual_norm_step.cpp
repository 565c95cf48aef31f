// SPDX-License-Identifier: Apache-2.0
#include "nn/residual/residual_norm_step.hpp"

#include <algorithm>
#include <utility>

#include "nn/operators/residual_norm.hpp"
#include "nn/passes/steps.hpp"
#include "sluice/runtime/execution_context.hpp"

namespace sluice::nn::detail {
namespace {

using operators::lengths;

// Calls function(call) with a call of the last step, on the device.
template <typename Function>
void with_call(const prepared_graph& body, const std::filesystem::path& path, execution_context& context,
               std::span<const any_tensor> inputs, const Function& function) {
    const step& last = body.steps.back();
    const operators::run_environment environment{
        .path = &path, .command_name = "LayerNormalization", .context = &context, .run_graph = {}};
    std::vector<any_tensor> outputs(1);
    operators::node_call call(environment, *last.from, last.position, last.opset, operators::place::device, inputs,
                              outputs);
    function(call);
}

}  // namespace

residual_norm_step::residual_norm_step(prepared_graph steps, const residual_outputs& outputs,
                                       std::vector<bool> narrow_inputs)
    : joined_steps(std::move(steps), std::move(narrow_inputs)),
      outputs_(outputs),
      definition_{.name = "LayerNormalization",
                  .least_inputs = 2,
                  .most_inputs = 4,
                  .most_outputs = 3,
                  .attributes = {},
                  .run = nullptr} {}

bool residual_norm_step::is_addend(std::size_t input) const {
    return std::ranges::find(body().steps[0].inputs, body().inputs[input]) != body().steps[0].inputs.end();
}

std::optional<std::vector<any_tensor>> residual_norm_step::submit(const std::filesystem::path& path,
                                                                  execution_context& context,
                                                                  std::span<const any_tensor> inputs) const {
    const step &sum = body().steps[0], &norm = body().steps[1];
    const auto place = [&](slot one) {
        return static_cast<std::size_t>(std::ranges::find(body().inputs, one) - body().inputs.begin());
    };
    const auto value = [&](slot one) -> const any_tensor& { return inputs[place(one)]; };
    // The results are f32: an addend of a model in 16 bits is left to the steps.
    const auto is_f32_for_steps = [&](slot one) {
        const io::dtype type = value(one).type();
        return type == io::dtype::f32 ||
               (comes_narrow(place(one)) && (type == io::dtype::f16 || type == io::dtype::bf16));
    };
    const any_tensor &a = value(sum.inputs[0]), &b = value(sum.inputs[1]), &scale = value(norm.inputs[1]);
    const any_tensor bias = norm.inputs.size() > 2 ? value(norm.inputs[2]) : any_tensor();
    const bool fits = a.shape() == b.shape() && !a.shape().empty() && a.elements() != 0 &&
                      is_f32_for_steps(sum.inputs[0]) && is_f32_for_steps(sum.inputs[1]) && a.is_on_device() &&
                      b.is_on_device() && scale.is_on_device();
    if (!fits) return {};
    const lengths row{a.shape().back()};
    const bool is_scaled = scale.type() == io::dtype::f32 && scale.shape() == row &&
                           (!bias || (bias.type() == io::dtype::f32 && bias.shape() == row && bias.is_on_device()));
    if (!is_scaled) return {};
    std::vector<any_tensor> made;
    with_call(body(), path, context, inputs, [&](operators::node_call& in) {
        operators::residual_results to;
        if (outputs_.sum) made.push_back(to.sum = in.make(io::dtype::f32, a.shape()));
        if (outputs_.normalized) made.push_back(to.normalized = in.make(io::dtype::f32, a.shape()));
        if (outputs_.narrow) made.push_back(to.narrow = in.make(*outputs_.narrow, a.shape()));
        operators::add_and_normalize(in, a, b, scale, bias, in.real("epsilon", 1e-5f), to);
    });
    return made;
}

std::shared_ptr<const residual_norm_step> residual_norm_step::narrowed(std::vector<bool> inputs) const {
    return std::make_shared<const residual_norm_step>(body(), outputs_, std::move(inputs));
}

}  // namespace sluice::nn::detail
