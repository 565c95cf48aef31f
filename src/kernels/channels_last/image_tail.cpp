// SPDX-License-Identifier: Apache-2.0
// tail_of: which steps several images take together.
#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>
#include <vector>

#include "kernels/channels_last/image_extents.hpp"
#include "kernels/channels_last/image_program.hpp"
#include "kernels/channels_last/image_step_run.hpp"

namespace sluice::kernels {
namespace {

// With fewer weights, reading them again for each image costs nothing.
constexpr std::size_t least_weights = std::size_t{256} << 10;
// What is copied for each image.
constexpr std::size_t most_copied_floats = std::size_t{512} << 10;

// Of the steps from `first` on: what they read and none of them writes before.
image_tail tail_from(const std::vector<image_step>& steps, std::size_t first) {
    image_tail made{first, std::numeric_limits<std::size_t>::max(), 0};
    std::vector<image_extent> written;
    for (std::size_t i = first; i < steps.size(); ++i) {
        for (const image_extent& each : extents_read_by(steps[i])) {
            if (std::ranges::any_of(written, [&](const image_extent& one) { return one.is_all_of(each); })) continue;
            made.begin = std::min(made.begin, each.begin());
            made.end = std::max(made.end, each.end());
        }
        std::ranges::copy(extents_written_by(steps[i]), std::back_inserter(written));
    }
    return made;
}

}  // namespace

image_tail tail_of(const std::vector<image_step>& steps) {
    const auto weights_of = [](const image_step& step) {
        return step.what == image_work::convolve ? products_of_filter(step) * step.out.channels : 0;
    };
    const image_tail none{steps.size(), 0, 0};
    std::size_t first = steps.size(), weights = 0;
    while (first > 0 && !steps[first - 1].has_bands &&
           (steps[first - 1].what != image_work::convolve || is_by_filters(steps[first - 1]))) {
        weights += weights_of(steps[--first]);
    }
    for (; first < steps.size() && weights >= least_weights; weights -= weights_of(steps[first++])) {
        // A phase is not divided.
        if (steps[first].is_side_by_side || (first > 0 && steps[first - 1].has_bands)) continue;
        const image_tail made = tail_from(steps, first);
        if (made.begin < made.end && made.end - made.begin <= most_copied_floats) return made;
    }
    return none;
}

}  // namespace sluice::kernels
