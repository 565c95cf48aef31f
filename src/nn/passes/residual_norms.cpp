// SPDX-License-Identifier: Apache-2.0
// On a GPU: an Add and the LayerNormalization of its sum are one step.
#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "nn/passes/dense_search.hpp"
#include "nn/passes/narrow_values.hpp"
#include "nn/passes/passes.hpp"
#include "nn/passes/steps.hpp"
#include "nn/residual/residual_norm_step.hpp"

namespace sluice::nn::detail {
namespace {

bool is_plain(const step& of) {
    return !of.is_on_host && of.stretch == nullptr && of.layers == nullptr && !of.gives_shape_only;
}

bool is_sum(const prepared_graph& in, const step& of) {
    return is(of, "Add") && of.opset >= 7 && is_plain(of) && of.inputs.size() == 2 &&
           std::ranges::none_of(of.inputs, [&](slot each) { return each == no_slot || in.constants.contains(each); });
}
// Over the last dimension, with constant factors, of what this value is.
bool is_norm_of(const prepared_graph& in, const step& of, slot value) {
    const bool is_last = integer(of, "axis", -1) == -1 && integer(of, "stash_type", 1) == 1;
    return is(of, "LayerNormalization") && is_plain(of) && is_last && of.outputs.size() == 1 && of.inputs[0] == value &&
           of.inputs.size() <= 3 && constant_input(in, of, 1) != nullptr &&
           (of.inputs.size() < 3 || constant_input(in, of, 2) != nullptr);
}

class residual_search {
public:
    residual_search(prepared_graph& in, std::optional<io::dtype> narrow)
        : in_(in), narrow_(narrow), readers_(in), is_left_(in.steps.size(), true) {}

    void run() {
        const std::size_t count = in_.steps.size();
        for (std::size_t i = 0; i < count; ++i) {
            if (!is_left_[i] || !is_sum(in_, in_.steps[i])) continue;
            const slot sum = in_.steps[i].outputs[0];
            if (in_.needed_on_host[sum]) continue;
            for (const std::size_t norm : readers_.of(sum)) {
                if (!is_left_[norm] || !is_norm_of(in_, in_.steps[norm], sum)) continue;
                join(i, norm);
                break;
            }
        }
        erase_steps(in_, is_left_);
    }

private:
    // The step comes in the place of the sum, before all that reads it.
    void join(std::size_t at_sum, std::size_t at_norm) {
        const slot sum = in_.steps[at_sum].outputs[0], normalized = in_.steps[at_norm].outputs[0];
        prepared_graph body = part_of(in_, {at_sum, at_norm});
        std::set<slot> constants;
        for (const auto& [at, value] : body.constants) constants.insert(at);
        body.inputs.insert(body.inputs.end(), constants.begin(), constants.end());
        body.constants.clear();
        step whole = in_.steps[at_sum];
        whole.label = in_.steps[at_norm].label;
        note_joined(in_.steps[at_norm], whole);
        whole.inputs = body.inputs;
        whole.outputs.clear();
        body.outputs.clear();
        residual_outputs wanted;
        if (readers_.is_read_outside(sum) || readers_.of(sum).size() > 1) {
            wanted.sum = true;
            whole.outputs.push_back(sum);
            body.outputs.push_back(sum);
        }
        const std::vector<std::size_t> rounding = readers_that_round(normalized);
        if (readers_.is_read_outside(normalized) || in_.needed_on_host[normalized] || rounding.empty() ||
            rounding.size() != readers_.of(normalized).size()) {
            wanted.normalized = true;
            whole.outputs.push_back(normalized);
            body.outputs.push_back(normalized);
        }
        if (!rounding.empty()) {
            wanted.narrow = narrow_;
            const slot made = static_cast<slot>(in_.slots++);
            in_.needed_on_host.push_back(false);
            for (const std::size_t each : rounding) std::ranges::replace(in_.steps[each].inputs, normalized, made);
            whole.outputs.push_back(made);
            body.outputs.push_back(normalized);
        }
        find_last_uses(body);
        const auto joined = std::make_shared<const residual_norm_step>(std::move(body), wanted);
        whole.what = &joined->definition();
        whole.stretch = joined;
        in_.steps[at_sum] = std::move(whole);
        is_left_[at_norm] = false;
    }

    std::vector<std::size_t> readers_that_round(slot value) const {
        std::vector<std::size_t> found;
        if (!narrow_) return found;
        for (const std::size_t reader : readers_.of(value)) {
            const auto& inputs = in_.steps[reader].inputs;
            bool is_rounded = true;
            for (std::size_t i = 0; i < inputs.size(); ++i)
                if (inputs[i] == value && !readers_.rounds(reader, i, false)) is_rounded = false;
            if (is_rounded) found.push_back(reader);
        }
        return found;
    }

    prepared_graph& in_;
    const std::optional<io::dtype> narrow_;
    const narrow_readers readers_;
    std::vector<bool> is_left_;
};

}  // namespace

void fuse_residual_norms(prepared_graph& in, precision what) {
    for (step& each : in.steps)
        for (const auto& [from, inner] : each.inner) fuse_residual_norms(*inner, what);
    residual_search(in, what == precision::f16    ? std::optional(io::dtype::f16)
                        : what == precision::bf16 ? std::optional(io::dtype::bf16)
                                                  : std::nullopt)
        .run();
}

}  // namespace sluice::nn::detail
