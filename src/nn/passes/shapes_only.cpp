// SPDX-License-Identifier: Apache-2.0
// Steps of whose outputs others only need the shapes: exporters ask a value for its shape that only then is turned or
// reshaped once more for a product.
#include <cstddef>
#include <vector>

#include "nn/passes/passes.hpp"
#include "nn/passes/steps.hpp"

namespace sluice::nn::detail {
namespace {

bool may_give_shapes_alone(const step& of) {
    return !of.is_on_host && of.inner.empty() && of.layers == nullptr && of.stretch == nullptr && !of.what->is_random &&
           of.what->own == nullptr;
}

}  // namespace

void find_shapes_only(prepared_graph& in) {
    // Who reads elements of a value, or anything: from the last step to the first one.
    std::vector<bool> has_readers = in.needed_on_host;
    for (const slot each : in.outputs) has_readers[each] = true;
    std::vector<bool> is_used = has_readers;
    for (std::size_t i = in.steps.size(); i-- > 0;) {
        step& each = in.steps[i];
        for (const auto& [from, inner] : each.inner) {
            find_shapes_only(*inner);
            for (const auto& one : inner->captures) has_readers[one.outside] = true;
        }
        bool is_read = false, has_use = false;
        for (const slot one : each.outputs) {
            if (one == no_slot) continue;
            is_read = is_read || has_readers[one];
            has_use = has_use || is_used[one];
        }
        // One that nothing uses refuses what it refuses.
        each.gives_shape_only |= !is_read && has_use && may_give_shapes_alone(each);
        for (std::size_t k = 0; k < each.inputs.size(); ++k) {
            if (each.inputs[k] == no_slot) continue;
            is_used[each.inputs[k]] = true;
            if (!takes_shape_only(each, k) && !each.gives_shape_only) has_readers[each.inputs[k]] = true;
        }
    }
}

}  // namespace sluice::nn::detail
