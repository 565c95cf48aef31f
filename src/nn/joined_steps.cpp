// SPDX-License-Identifier: Apache-2.0
#include "nn/joined_steps.hpp"

#include "nn/operators/expression.hpp"

namespace sluice::nn::detail {

void joined_steps::widen(const std::filesystem::path& path, execution_context* context,
                         std::vector<any_tensor>& inputs) const {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        if (!comes_narrow(i) || (inputs[i].type() != io::dtype::f16 && inputs[i].type() != io::dtype::bf16)) continue;
        if (context == nullptr) {
            inputs[i] = any_tensor::of_shape(io::dtype::f32, inputs[i].shape());
            continue;
        }
        const step& last = body_.steps.back();
        const operators::run_environment environment{
            .path = &path, .command_name = "widen", .context = context, .run_graph = {}};
        std::vector<any_tensor> outputs(1);
        operators::node_call call(environment, *last.from, last.position, last.opset, operators::place::device, inputs,
                                  outputs);
        const any_tensor wide = call.make(io::dtype::f32, inputs[i].shape());
        operators::expression e(call);
        e.give(wide, e.input(inputs[i]));
        e.run();
        inputs[i] = wide;
    }
}

}  // namespace sluice::nn::detail
