// SPDX-License-Identifier: Apache-2.0
#include "kernels/channels_last/image_extents.hpp"

#include <algorithm>

namespace sluice::kernels {
namespace {

// Elements after the last one that the last window reads.
std::size_t beyond(std::size_t outputs, std::size_t stride, std::size_t taps, std::size_t dilation, std::size_t before,
                   std::size_t inputs) noexcept {
    const std::size_t end = (outputs - 1) * stride + (taps - 1) * dilation + 1;
    return end > before + inputs ? end - before - inputs : 0;
}

bool is_within(const std::vector<image_extent>& all, std::size_t floats) {
    return std::ranges::all_of(all, [&](const image_extent& each) {
        const std::size_t around = each.border.top * each.at.row + each.border.left * each.at.pixel;
        return around <= each.at.first && each.end() <= floats;
    });
}

// Of the value between a convolution and a pooling that are carried out band by band: memory for the rows of all bands.
image_extent bands_between(const image_step& convolution, const image_step& pooling) {
    const image_bands bands = bands_of(convolution, pooling, convolution.to.row);
    image_extent made{convolution.to, convolution.out, {0, convolution.border.left, 0, convolution.border.right}};
    made.size.height = bands.count * bands.rows;
    return made;
}

}  // namespace

image_border border_read_by(const image_window& window, const image_size& in, const image_size& out) noexcept {
    return {window.before.height, window.before.width,
            beyond(out.height, window.stride.height, window.size.height, window.dilation.height, window.before.height,
                   in.height),
            beyond(out.width, window.stride.width, window.size.width, window.dilation.width, window.before.width,
                   in.width)};
}

bool image_extent::is_all_of(const image_extent& read) const noexcept {
    return at.first == read.at.first && at.row == read.at.row && at.pixel == read.at.pixel &&
           size.channels >= read.size.channels && size.height >= read.size.height && size.width >= read.size.width &&
           border.top >= read.border.top && border.left >= read.border.left && border.bottom >= read.border.bottom &&
           border.right >= read.border.right;
}

std::vector<image_extent> extents_read_by(const image_step& step) {
    std::vector<image_extent> read;
    switch (step.what) {
        case image_work::enter: break;
        case image_work::convolve:
        case image_work::convolve_channels:
        case image_work::convolve_transposed:
        case image_work::resample:
            read.push_back({step.from, step.in, border_read_by(step.window, step.in, step.out)});
            break;
        case image_work::maximum:
        case image_work::average: read.push_back({step.from, step.in, {}}); break;
        case image_work::leave:
        case image_work::scale:
        case image_work::add:
        case image_work::multiply:
        case image_work::copy:
        case image_work::shuffle: read.push_back({step.from, step.out, {}}); break;
    }
    if (step.has_also) {
        image_extent also{step.also, step.out, {}};
        if (step.also_spread == image_spread::channels) also.size.channels = 1;
        read.push_back(also);
    }
    return read;
}

std::vector<image_extent> extents_written_by(const image_step& step) {
    if (step.what == image_work::leave) return {};
    return {{step.to, step.out, step.border}};
}

bool stays_within(const std::vector<image_step>& steps, const image_tail& tail, std::size_t floats) {
    for (std::size_t i = 0; i < steps.size(); ++i) {
        const bool begins_bands = steps[i].has_bands, ends_bands = i > 0 && steps[i - 1].has_bands;
        const auto read = ends_bands ? std::vector{bands_between(steps[i - 1], steps[i])} : extents_read_by(steps[i]);
        const auto written =
            begins_bands ? std::vector{bands_between(steps[i], steps[i + 1])} : extents_written_by(steps[i]);
        if (!is_within(read, floats) || !is_within(written, floats)) return false;
    }
    return tail.begin <= tail.end && tail.end <= floats;
}

}  // namespace sluice::kernels
