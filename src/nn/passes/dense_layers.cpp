// SPDX-License-Identifier: Apache-2.0
#include "nn/operators/dense_layers.hpp"

#include <utility>
#include <vector>

#include "nn/fused_sizes.hpp"
#include "nn/operators/table.hpp"
#include "nn/passes/dense_search.hpp"
#include "nn/passes/passes.hpp"
#include "sluice/runtime/device.hpp"
#include "sluice/runtime/execution_context.hpp"

namespace sluice::nn::detail {

void fuse_dense_layers(prepared_graph& in, execution_context& context) {
    const dense_search layers(in, {.most_layers = sluice::detail::most_fused_layers,
                                   .most_bytes = most_fused_bytes_on_cpu,
                                   .widest = sluice::detail::widest_fused_layer(device_kind::cpu)});
    std::vector<bool> is_left(in.steps.size(), true);
    for (std::size_t i = 0; i < in.steps.size(); ++i) {
        if (!is_left[i]) continue;
        std::vector<found_layer> found = layers.from(i);
        if (found.empty()) continue;
        step& whole = dense_search::join(in, found, is_left);
        bool takes_matrix = false;
        std::vector<mlp_layer> numbers;
        for (found_layer& each : found) {
            takes_matrix |= each.takes_matrix;
            numbers.push_back(std::move(each.numbers));
        }
        whole.what = &operators::fused_dense_layers();
        whole.layers = std::make_shared<const operators::dense_layers>(
            operators::dense_layers{takes_matrix, pack_mlp<float>(std::move(numbers)).submit(context)});
    }
    erase_steps(in, is_left);
}

}  // namespace sluice::nn::detail
