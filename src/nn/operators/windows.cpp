// SPDX-License-Identifier: Apache-2.0
#include "nn/operators/windows.hpp"

#include <algorithm>
#include <string>

namespace sluice::nn::operators {
namespace {

// Above this, numbers of windows are refused: products of two of them do not overflow.
constexpr std::size_t largest_window_number = (std::size_t{1} << 31) - 1;

void require_same_count(const node_call& in, std::string_view attribute, std::size_t found, std::size_t expected) {
    if (found == expected) return;
    in.refuse("has " + std::to_string(found) + " numbers as " + std::string(attribute) + "; " +
              std::to_string(expected) + " are needed");
}

}  // namespace

lengths window_numbers(const node_call& in, std::string_view attribute, std::size_t count, std::size_t otherwise,
                       std::size_t least) {
    if (!in.has(attribute)) return lengths(count, otherwise);
    const integers given = in.integer_list(attribute);
    require_same_count(in, attribute, given.size(), count);
    lengths made;
    for (const std::int64_t each : given) {
        if (each < static_cast<std::int64_t>(least) || each > static_cast<std::int64_t>(largest_window_number)) {
            const std::string why = "has " + std::to_string(each) + " in " + std::string(attribute) +
                                    "; Sluice takes numbers from " + std::to_string(least) + " to " +
                                    std::to_string(largest_window_number);
            if (each < 0 && attribute == "pads") in.refuse_unsupported(why);
            in.refuse(why);
        }
        made.push_back(static_cast<std::size_t>(each));
    }
    return made;
}

std::size_t window_rank(const node_call& in, const any_tensor& image) {
    const std::size_t rank = image.shape().size();
    if (rank < 3) {
        in.refuse_shapes("takes images of shape [images, channels, ...], and is given " +
                         to_string(std::span(image.shape())));
    }
    if (rank > 5)
        in.refuse_unsupported("takes images of one to three dimensions, and is given " +
                              to_string(std::span(image.shape())));
    return rank - 2;
}

auto_padding auto_padding_of(const node_call& in) {
    const std::string form = in.text("auto_pad", "NOTSET");
    if (form == "NOTSET" || form.empty()) return auto_padding::not_set;
    if (form == "SAME_UPPER") return auto_padding::same_upper;
    if (form == "SAME_LOWER") return auto_padding::same_lower;
    if (form == "VALID") return auto_padding::valid;
    in.refuse("has the auto_pad '" + form + "'; 'NOTSET', 'SAME_UPPER', 'SAME_LOWER' and 'VALID' are possible");
}

window_grid unpadded_grid(const node_call& in, std::span<const std::size_t> image,
                          std::span<const std::size_t> window) {
    const std::size_t rank = image.size(), skipped = 3 - rank;
    require_same_count(in, "kernel_shape", window.size(), rank);
    const lengths strides = window_numbers(in, "strides", rank, 1, 1);
    const lengths dilations = window_numbers(in, "dilations", rank, 1, 1);
    window_grid made;
    for (std::size_t d = 0; d < rank; ++d) {
        if (window[d] == 0 || window[d] > largest_window_number || image[d] > largest_window_number)
            in.refuse_shapes("has a window of " + to_string(window) + " over an image of " + to_string(image));
        made.input[skipped + d] = image[d];
        made.window[skipped + d] = window[d];
        made.stride[skipped + d] = strides[d];
        made.dilation[skipped + d] = dilations[d];
    }
    return made;
}

window_grid windows_of(const node_call& in, std::span<const std::size_t> image, std::span<const std::size_t> window,
                       bool may_round_up) {
    const std::size_t rank = image.size(), skipped = 3 - rank;
    window_grid made = unpadded_grid(in, image, window);
    const lengths pads = window_numbers(in, "pads", 2 * rank, 0, 0);
    const auto_padding automatic = auto_padding_of(in);
    if (automatic != auto_padding::not_set && std::ranges::any_of(pads, [](std::size_t each) { return each != 0; }))
        in.refuse("has both pads and auto_pad");
    const bool rounds_up = may_round_up && in.integer("ceil_mode", 0) != 0;
    for (std::size_t d = 0; d < rank; ++d) {
        const std::size_t at = skipped + d;
        const std::size_t size = made.input[at], stride = made.stride[at];
        const std::size_t reach = (made.window[at] - 1) * made.dilation[at] + 1;
        if (automatic == auto_padding::same_upper || automatic == auto_padding::same_lower) {
            const std::size_t outputs = (size + stride - 1) / stride;
            const std::size_t covered = outputs == 0 ? 0 : (outputs - 1) * stride + reach;
            const std::size_t padding = covered > size ? covered - size : 0;
            const std::size_t smaller = padding / 2;
            made.before[at] = automatic == auto_padding::same_upper ? smaller : padding - smaller;
            made.after[at] = padding - made.before[at];
            made.output[at] = outputs;
            continue;
        }
        made.before[at] = pads[d];
        made.after[at] = pads[rank + d];
        const std::size_t padded = size + made.before[at] + made.after[at];
        if (padded < reach) {
            in.refuse_shapes("has a window of " + to_string(window) + ", which does not fit into an image of " +
                             to_string(image));
        }
        const std::size_t rest = padded - reach;
        made.output[at] = rest / stride + 1;
        // One more, if it begins within the image or the padding before it.
        if (rounds_up && rest % stride != 0 && made.output[at] * stride < size + made.before[at]) ++made.output[at];
    }
    return made;
}

lengths window_output_shape(const window_grid& grid, std::size_t images, std::size_t channels, std::size_t rank) {
    lengths shape{images, channels};
    for (std::size_t d = 3 - rank; d < 3; ++d) shape.push_back(grid.output[d]);
    return shape;
}

}  // namespace sluice::nn::operators
