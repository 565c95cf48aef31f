// SPDX-License-Identifier: Apache-2.0
#include "nn/images/shapes.hpp"

#include <cstddef>
#include <utility>

#include "nn/operators/convolutions.hpp"
#include "nn/operators/node_call.hpp"
#include "nn/operators/windows.hpp"
#include "nn/passes/steps.hpp"

namespace sluice::nn::detail {
namespace {

using operators::node_call;

// Calls function(call) with the step's node, nowhere; the outputs become values.
template <typename Function>
void with_node(const step& of, const std::filesystem::path& path, std::vector<any_tensor>& values,
               const Function& function) {
    const operators::run_environment environment{
        .path = &path, .command_name = of.what->name, .context = nullptr, .run_graph = {}, .layers = of.layers.get()};
    std::vector<any_tensor> inputs, outputs(of.outputs.size());
    for (const slot each : of.inputs) inputs.push_back(each == no_slot ? any_tensor() : values[each]);
    node_call call(environment, *of.from, of.position, of.opset, operators::place::nowhere, inputs, outputs);
    function(call);
    for (std::size_t i = 0; i < outputs.size(); ++i)
        if (of.outputs[i] != no_slot && outputs[i]) values[of.outputs[i]] = std::move(outputs[i]);
}

}  // namespace

std::vector<any_tensor> image_shapes(const prepared_graph& in, const std::filesystem::path& path,
                                     std::span<const any_tensor> inputs) {
    std::vector<any_tensor> values(in.slots);
    for (const auto& [at, each] : in.constants) values[at] = each;
    for (std::size_t i = 0; i < inputs.size(); ++i) values[in.inputs[i]] = inputs[i];
    for (const step& each : in.steps) with_node(each, path, values, [&](node_call& call) { each.what->run(call); });
    return values;
}

kernels::image_window image_window_of(const step& of, const kernels::image_size& from,
                                      const std::filesystem::path& path, std::vector<any_tensor>& shapes) {
    if (is(of, "GlobalAveragePool") || is(of, "GlobalMaxPool") || is(of, "ReduceMean"))
        return {.size = {from.height, from.width}};
    operators::window_grid grid;
    with_node(of, path, shapes, [&](node_call& in) {
        if (is(of, "Conv") || is(of, "QLinearConv")) {  // of the latter a pass has left images and filters
            grid = operators::convolution_of(in, in.input(0), in.input(1)).grid;
        } else if (is(of, "ConvTranspose")) {
            const std::size_t rank = operators::window_rank(in, in.input(0));
            const operators::lengths window = operators::filter_window(in, in.input(1)),
                                     pads = operators::window_numbers(in, "pads", 2 * rank, 0, 0);
            grid = operators::unpadded_grid(in, std::span(in.input(0).shape()).subspan(2), window);
            for (std::size_t d = 0; d < rank; ++d) {
                grid.before[3 - rank + d] = pads[d];
                grid.after[3 - rank + d] = pads[rank + d];
            }
        } else {
            const std::size_t rank = operators::window_rank(in, in.input(0));
            const auto size = operators::window_numbers(in, "kernel_shape", rank, 1, 1);
            grid = operators::windows_of(in, std::span(in.input(0).shape()).subspan(2), size, true);
        }
    });
    const auto both = [](const std::size_t(&of_three)[3]) { return size_2d{of_three[1], of_three[2]}; };
    return {.size = both(grid.window),
            .stride = both(grid.stride),
            .dilation = both(grid.dilation),
            .before = both(grid.before),
            .after = both(grid.after)};
}

}  // namespace sluice::nn::detail
