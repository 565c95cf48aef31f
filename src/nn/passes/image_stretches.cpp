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
#include "nn/passes/stretch_fusion.hpp"
#include "nn/passes/stretch_values.hpp"
#include "sluice/runtime/device.hpp"
#include "sluice/runtime/execution_context.hpp"

namespace sluice::nn::detail {
namespace {

class stretch_search {
public:
    stretch_search(const prepared_graph& in, image_style style)
        : in_(in), style_(style), readers_(only_readers(in)), is_outside_shuffle_(in.steps.size(), true), values_(in) {
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
    using state = stretch_values::state;

    void take(std::size_t at) {
        const step& of = in_.steps[at];
        const image_role role = role_of(in_, readers_, at, style_);
        const bool can_begin = role == image_role::convolution || role == image_role::transposed_convolution;
        const bool has_role = role != image_role::none && (role != image_role::reshape || !is_outside_shuffle_[at]);
        const bool depends_on_others = values_.has_input(of, state::after);
        if (can_begin && depends_on_others) close();
        if (has_role && !values_.has_input(of, state::after) && (can_begin || values_.has_input(of, state::inside))) {
            open_.push_back(at);
            values_.mark(of, state::inside);
        } else if (depends_on_others || values_.has_input(of, state::inside)) {
            values_.mark(of, state::after);
        }
    }
    void close() {
        if (!open_.empty()) found_.push_back(std::exchange(open_, {}));
        values_.close();
    }

    const prepared_graph& in_;
    const image_style style_;
    const std::vector<std::size_t> readers_;
    std::vector<bool> is_outside_shuffle_;
    stretch_values values_;
    std::vector<std::size_t> open_;
    std::vector<std::vector<std::size_t>> found_;
};

}  // namespace

std::vector<prepared_graph> graphs_of_image_stretches(const prepared_graph& in, image_style style) {
    std::vector<prepared_graph> made;
    for (const std::vector<std::size_t>& each : stretch_search(in, style).find()) made.push_back(part_of(in, each));
    return made;
}

void fuse_image_stretches(prepared_graph& in, execution_context& context) {
    fuse_stretches(
        in, stretch_search(in, image_style::one_by_one).find(), kernels::most_outside_images,
        [&](prepared_graph body) {
            return std::make_shared<const cpu_image_stretch>(std::move(body), context.device());
        },
        [](const step&) {});
}

void fuse_short_image_stretches(prepared_graph& in, precision what, execution_context& context,
                                rounding_report& report) {
    // A network without convolutions does not open cuDNN.
    const auto is_one = [](const step& each) { return is(each, "Conv") || is(each, "ConvTranspose"); };
    if (std::ranges::none_of(in.steps, is_one)) return;
    if (!kernels::has_image_batches(context.device())) return;
    fuse_stretches(
        in, stretch_search(in, image_style::together).find(), kernels::most_outside_images,
        [&](prepared_graph body) -> std::shared_ptr<const image_stretch> {
            auto made = std::make_shared<const short_image_stretch>(std::move(body), what, context);
            return made->is_possible() ? made : nullptr;
        },
        [&](const step& whole) {
            report.rounded += static_cast<std::size_t>(std::ranges::count_if(whole.stretch->body().steps, is_one));
        });
}

}  // namespace sluice::nn::detail
