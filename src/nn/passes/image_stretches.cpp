// SPDX-License-Identifier: Apache-2.0
// Finds stretches of convolutions and of what is around them, and makes one step of each.
#include "nn/passes/image_stretches.hpp"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/image_batch/image_batch.hpp"
#include "nn/images/short_stretch.hpp"
#include "nn/images/stretch.hpp"
#include "nn/passes/passes.hpp"
#include "nn/passes/steps.hpp"
#include "sluice/runtime/device.hpp"
#include "sluice/runtime/execution_context.hpp"

namespace sluice::nn::detail {
namespace {

class stretch_search {
public:
    stretch_search(const prepared_graph& in, image_style style)
        : in_(in),
          style_(style),
          readers_(only_readers(in)),
          is_outside_shuffle_(in.steps.size(), true),
          states_(in.slots) {
        for (std::size_t i = 0; i < in.steps.size(); ++i) {
            if (role_of(in, readers_, i, style) != image_role::reshape) continue;
            for (const std::size_t each : shuffle_from(in, readers_, i)) is_outside_shuffle_[each] = false;
        }
    }

    // The steps of each stretch, in order. No step of another one is between two steps that depend on each other.
    std::vector<std::vector<std::size_t>> find() {
        for (std::size_t i = 0; i < in_.steps.size(); ++i) take(i);
        close();
        return std::move(found_);
    }

private:
    // Of a value: whether the open stretch gives it, or a step that is not of the stretch and depends on it.
    enum class state : unsigned char { before, inside, after };

    bool has_input(const step& of, state what) const {
        return std::ranges::any_of(of.inputs, [&](slot each) { return each != no_slot && states_[each] == what; }) ||
               std::ranges::any_of(of.inner, [&](const auto& inner) {
                   return std::ranges::any_of(inner.second->captures,
                                              [&](const auto& each) { return states_[each.outside] == what; });
               });
    }

    void take(std::size_t at) {
        const step& of = in_.steps[at];
        const image_role role = role_of(in_, readers_, at, style_);
        const bool can_begin = role == image_role::convolution || role == image_role::transposed_convolution;
        const bool has_role = role != image_role::none && (role != image_role::reshape || !is_outside_shuffle_[at]);
        const bool depends_on_others = has_input(of, state::after);
        if (can_begin && depends_on_others) close();
        if (has_role && !has_input(of, state::after) && (can_begin || has_input(of, state::inside))) {
            open_.push_back(at);
            mark(of, state::inside);
        } else if (depends_on_others || has_input(of, state::inside)) {
            mark(of, state::after);
        }
    }
    void mark(const step& of, state what) {
        for (const slot each : of.outputs)
            if (each != no_slot) states_[each] = what;
    }
    void close() {
        if (!open_.empty()) found_.push_back(std::exchange(open_, {}));
        std::ranges::fill(states_, state::before);
    }

    const prepared_graph& in_;
    const image_style style_;
    const std::vector<std::size_t> readers_;
    std::vector<bool> is_outside_shuffle_;
    std::vector<state> states_;
    std::vector<std::size_t> open_;
    std::vector<std::vector<std::size_t>> found_;
};

// Replaces each stretch for which make_stretch(body) makes one. Gives the steps of the body to `note`.
template <typename Make, typename Note>
void fuse_stretches(prepared_graph& in, image_style style, const Make& make_stretch, const Note& note) {
    std::vector<step> steps;
    std::size_t copied = 0;
    for (const std::vector<std::size_t>& found : stretch_search(in, style).find()) {
        prepared_graph body = part_of(in, found);
        if (body.inputs.size() + body.outputs.size() > kernels::most_outside_images) continue;
        step whole = in.steps[found.front()];
        for (std::size_t i = 1; i < found.size(); ++i) note_joined(in.steps[found[i]], whole);
        if (found.size() > 1) whole.label += " to " + in.steps[found.back()].label;
        whole.inputs = body.inputs;
        whole.outputs = body.outputs;
        whole.stretch = make_stretch(std::move(body));
        if (whole.stretch == nullptr) continue;
        note(whole.stretch->body());
        // Steps in between that depend on the stretch come after it, the others before.
        std::vector<bool> depends(in.slots, false);
        for (const slot each : whole.outputs) depends[each] = true;
        std::vector<step> after;
        std::size_t next = 0;
        for (; copied <= found.back(); ++copied) {
            if (next < found.size() && found[next] == copied) {
                ++next;
                continue;
            }
            step& each = in.steps[copied];
            bool is_after = std::ranges::any_of(each.inputs, [&](slot one) { return one != no_slot && depends[one]; });
            for (const auto& [from, inner] : each.inner)
                for (const auto& one : inner->captures) is_after = is_after || depends[one.outside];
            if (is_after)
                for (const slot one : each.outputs)
                    if (one != no_slot) depends[one] = true;
            (is_after ? after : steps).push_back(std::move(each));
        }
        steps.push_back(std::move(whole));
        std::ranges::move(after, std::back_inserter(steps));
    }
    std::move(in.steps.begin() + static_cast<std::ptrdiff_t>(copied), in.steps.end(), std::back_inserter(steps));
    in.steps = std::move(steps);
}

}  // namespace

std::vector<prepared_graph> graphs_of_image_stretches(const prepared_graph& in, image_style style) {
    std::vector<prepared_graph> made;
    for (const std::vector<std::size_t>& each : stretch_search(in, style).find()) made.push_back(part_of(in, each));
    return made;
}

void fuse_image_stretches(prepared_graph& in, execution_context& context) {
    if (context.device().kind() != device_kind::cpu) return;
    fuse_stretches(
        in, image_style::one_by_one,
        [&](prepared_graph body) {
            return std::make_shared<const cpu_image_stretch>(std::move(body), context.device());
        },
        [](const prepared_graph&) {});
}

void fuse_short_image_stretches(prepared_graph& in, precision what, execution_context& context,
                                rounding_report& report) {
    if (what != precision::f16 && what != precision::bf16) return;
    // A network without convolutions does not open cuDNN.
    const auto is_one = [](const step& each) { return is(each, "Conv") || is(each, "ConvTranspose"); };
    if (std::ranges::none_of(in.steps, is_one)) return;
    if (!kernels::has_image_batches(context.device())) return;
    fuse_stretches(
        in, image_style::together,
        [&](prepared_graph body) -> std::shared_ptr<const image_stretch> {
            auto made = std::make_shared<const short_image_stretch>(std::move(body), what, context);
            return made->is_possible() ? made : nullptr;
        },
        [&](const prepared_graph& body) {
            report.rounded += static_cast<std::size_t>(std::ranges::count_if(body.steps, is_one));
        });
}

}  // namespace sluice::nn::detail
