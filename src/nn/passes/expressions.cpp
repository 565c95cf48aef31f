// SPDX-License-Identifier: Apache-2.0
// Elementwise operators that may become one kernel.
#include <algorithm>
#include <vector>

#include "nn/operators/table.hpp"
#include "nn/passes/passes.hpp"
#include "nn/passes/steps.hpp"

namespace sluice::nn::detail {
namespace {

// Since operator set 7, operands are broadcast as expressions do it.
bool is_fusible(const step& each) {
    return each.what->fused_inputs != operators::none && each.opset >= 7 && !each.is_on_host && each.inner.empty() &&
           !each.gives_shape_only && each.stretch == nullptr;
}

}  // namespace

void join_expressions(prepared_graph& in) {
    const std::vector<std::size_t> readers = only_readers(in);
    const auto takes = [&](std::size_t at, slot value) {
        const step& reader = in.steps[at];
        const auto input = std::ranges::find(reader.inputs, value) - reader.inputs.begin();
        return is_fusible(reader) &&
               (reader.what->fused_inputs & operators::input_bit(static_cast<std::size_t>(input))) != 0;
    };
    for (step& each : in.steps) {
        for (const auto& [from, inner] : each.inner) join_expressions(*inner);
        if (!is_fusible(each) || each.outputs.empty() || each.outputs[0] == no_slot) continue;
        const slot made = each.outputs[0];
        const std::size_t by = readers[made];
        each.leaves_to_next = by < several_steps && !in.needed_on_host[made] && takes(by, made);
    }
}

}  // namespace sluice::nn::detail
