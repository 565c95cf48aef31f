// SPDX-License-Identifier: Apache-2.0
// tail_of: which steps several images take together.
#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

#include "kernels/channels_last/image_program.hpp"
#include "kernels/channels_last/image_step_run.hpp"

namespace sluice::kernels {
namespace {

// With fewer weights, reading them again for each image costs nothing.
constexpr std::size_t least_weights = std::size_t{256} << 10;
// What is copied for each image.
constexpr std::size_t most_copied_floats = std::size_t{512} << 10;

// A value as one step reads or writes it, with its border.
struct value {
    image_place at;
    image_size size;
    image_border border;

    std::size_t begin() const { return at.first - border.top * at.row - border.left * at.pixel; }
    std::size_t end() const {
        return at.first + (size.height - 1 + border.bottom) * at.row + (size.width - 1 + border.right) * at.pixel +
               size.channels;
    }
    bool is_all_of(const value& read) const {
        return at.first == read.at.first && at.row == read.at.row && at.pixel == read.at.pixel &&
               size.channels >= read.size.channels && size.height >= read.size.height &&
               size.width >= read.size.width && border.top >= read.border.top && border.left >= read.border.left &&
               border.bottom >= read.border.bottom && border.right >= read.border.right;
    }
};

std::vector<value> values_read_by(const image_step& step) {
    std::vector<value> read;
    switch (step.what) {
        case image_work::enter: break;
        case image_work::convolve:
        case image_work::convolve_channels:
            read.push_back({step.from,
                            step.in,
                            {step.window.before.height, step.window.before.width, step.window.after.height,
                             step.window.after.width}});
            break;
        case image_work::maximum:
        case image_work::average: read.push_back({step.from, step.in, {}}); break;
        case image_work::leave:
        case image_work::scale:
        case image_work::add:
        case image_work::copy:
        case image_work::shuffle: read.push_back({step.from, step.out, {}}); break;
    }
    if (step.has_also) read.push_back({step.also, step.out, {}});
    return read;
}

// Of the steps from `first` on: what they read and none of them writes before.
image_tail tail_from(const std::vector<image_step>& steps, std::size_t first) {
    image_tail made{first, std::numeric_limits<std::size_t>::max(), 0};
    std::vector<value> written;
    for (std::size_t i = first; i < steps.size(); ++i) {
        for (const value& each : values_read_by(steps[i])) {
            if (std::ranges::any_of(written, [&](const value& one) { return one.is_all_of(each); })) continue;
            made.begin = std::min(made.begin, each.begin());
            made.end = std::max(made.end, each.end());
        }
        if (steps[i].what != image_work::leave) written.push_back({steps[i].to, steps[i].out, steps[i].border});
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
