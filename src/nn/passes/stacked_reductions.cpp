// SPDX-License-Identifier: Apache-2.0
// The largest or smallest of several tensors, as exporters write it: each gets a dimension of one element, they are put
// together along it, and it is reduced. The same without the tensor of all.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "nn/passes/passes.hpp"
#include "nn/passes/steps.hpp"
#include "sluice/nn/any_tensor.hpp"

namespace sluice::nn::detail {
namespace {

// The only axis of a step, of a constant input or of the attribute.
std::optional<std::int64_t> only_axis(const prepared_graph& in, const step& of) {
    if (of.inputs.size() > 1 && of.inputs[1] != no_slot) {
        const auto found = in.constants.find(of.inputs[1]);
        if (found == in.constants.end() || !found->second.is_on_host() || found->second.type() != io::dtype::i64 ||
            found->second.elements() != 1)
            return {};
        return found->second.values<std::int64_t>()[0];
    }
    const auto* const axes = of.from->find<std::vector<std::int64_t>>("axes");
    return axes != nullptr && axes->size() == 1 ? std::optional((*axes)[0]) : std::nullopt;
}

class stacks {
public:
    explicit stacks(prepared_graph& in) : in_(in), readers_(only_readers(in)), givers_(givers(in)) {}

    void reduce_all() {
        for (std::size_t i = 0; i < in_.steps.size(); ++i) reduce(i);
    }

private:
    // What the operator is of several tensors; null where there is none.
    static const operators::definition* of_several(const step& of) {
        if (of.is_on_host || of.stretch != nullptr || of.outputs.size() != 1 || integer(of, "keepdims", 1) != 0)
            return nullptr;
        const std::string_view name = is(of, "ReduceMax") ? "Max" : is(of, "ReduceMin") ? "Min" : "";
        const operators::definition* const found = operators::find("", name, of.opset);
        return name.empty() ? nullptr : found;
    }

    void reduce(std::size_t at) {
        step& of = in_.steps[at];
        const operators::definition* const what = of_several(of);
        const std::optional<std::int64_t> axis = what != nullptr ? only_axis(in_, of) : std::nullopt;
        if (!axis || of.inputs[0] == no_slot || readers_[of.inputs[0]] != at) return;
        const std::size_t joined = givers_[of.inputs[0]];
        if (joined == no_step) return;
        const step& join = in_.steps[joined];
        if (!is(join, "Concat") || join.is_on_host || join.stretch != nullptr || integer(join, "axis", 0) != *axis)
            return;
        std::vector<slot> parts;
        for (const slot each : join.inputs) {
            const std::size_t giver = each == no_slot ? no_step : givers_[each];
            if (giver == no_step || !is(in_.steps[giver], "Unsqueeze") ||
                only_axis(in_, in_.steps[giver]) !=
                    axis)  // of as many dimensions: the same axis, however it is counted
                return;
            parts.push_back(in_.steps[giver].inputs[0]);
        }
        of.what = what;
        of.inputs = std::move(parts);
        // Nothing reads what is put together: the step would still be carried out.
        in_.steps[joined].gives_shape_only = true;
    }

    prepared_graph& in_;
    const std::vector<std::size_t> readers_, givers_;
};

}  // namespace

void reduce_without_stacks(prepared_graph& in) {
    for (step& each : in.steps)
        for (const auto& [from, inner] : each.inner) reduce_without_stacks(*inner);
    stacks(in).reduce_all();
}

}  // namespace sluice::nn::detail
