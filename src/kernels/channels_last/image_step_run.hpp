// SPDX-License-Identifier: Apache-2.0
// image_step_run: one step of an image program, for one image, in parts.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "kernels/channels_last/image_loops.hpp"
#include "kernels/channels_last/image_program.hpp"
#include "runtime/parallel_parts.hpp"

namespace sluice::kernels {

using sluice::detail::part_range;
using sluice::detail::parts_for;
using sluice::detail::range_of_part;

// Multiplications in a part that another worker may carry out: some 10 µs, since the workers that help with one step
// are still awake for the next. An element takes as long to move as this many.
inline constexpr std::size_t least_image_work = 500'000, work_of_image_element = 16;
// The rows that are read and written for one panel after the other stay in the second cache.
inline constexpr std::size_t floats_of_image_block = std::size_t{96} << 10;
// One row is divided into parts of neighbouring pixels. Networks of short rows are a chain of small commands: there
// helping with less costs more of the processors' time than it saves.
inline constexpr std::size_t pixels_of_piece = 28, least_row_work = 4 * least_image_work;
// Multiplications of one output of a convolution.
inline std::size_t products_of_filter(const image_step& step) {
    return step.window.size.height * step.window.size.width * (step.in.channels / step.groups);
}

// How many rows a pooling reads for this many neighbouring ones.
inline std::size_t rows_between(const image_step& pooling, std::size_t rows) {
    const image_window& window = pooling.window;
    return std::min((rows - 1) * window.stride.height + (window.size.height - 1) * window.dilation.height + 1,
                    pooling.in.height);
}
// Which rows a pooling reads for these.
inline part_range rows_for(const image_step& pooling, const part_range& rows) {
    const image_window& window = pooling.window;
    const auto exists = [&](std::size_t row) {
        return std::min(row - std::min(row, window.before.height), pooling.in.height);
    };
    return {exists(rows.first * window.stride.height),
            exists((rows.last - 1) * window.stride.height + (window.size.height - 1) * window.dilation.height + 1)};
}

// Whether the parts of a convolution are filters: where it has more weights than inputs. Else they are rows, or pixels
// of the only row.
inline bool is_by_filters(const image_step& convolution) {
    return convolution.in.elements() < products_of_filter(convolution) * convolution.out.channels;
}

class image_step_run {
public:
    image_step_run(const image_call& call, const image_step& step, const image_loops& loops)
        : call_(call),
          step_(step),
          loops_(loops),
          read_{0, call.scratch + step.from.first},
          written_{0, call.scratch + step.to.first},
          pixels_{0, step.out.width} {}

    // Into how many parts the step is divided.
    std::size_t parts() const {
        switch (step_.what) {
            case image_work::convolve: return convolve_parts();
            case image_work::leave: return leave_parts();
            default: return row_parts();
        }
    }
    // Carries out one of that many parts.
    void operator()(std::size_t part, std::size_t parts) const {
        switch (step_.what) {
            case image_work::convolve: return convolve(part, parts);
            case image_work::leave: return leave(part, parts);
            default: return by_rows(part, parts);
        }
    }
    // The same for one band of a convolution and the pooling after it.
    static void run_band(const image_call& call, const image_step& convolution, const image_step& pooling,
                         const image_loops& loops, std::size_t band) {
        const image_bands bands = bands_of(convolution, pooling, convolution.to.row);
        const part_range rows = range_of_part(pooling.out.height, bands.count, band);
        const part_range between = rows_for(pooling, rows);
        image_step_run first(call, convolution, loops), second(call, pooling, loops);
        first.written_ = second.read_ = {between.first,
                                         call.scratch + convolution.to.first + band * bands.rows * convolution.to.row};
        first.convolve_rows(between, {0, first.count_panels()});
        second.do_rows(rows);
    }

    // A part of a convolution by filters, of each of these images: a panel of filters stays in the cache while the
    // images are multiplied by it.
    static void convolve_together(std::span<const image_call> images, const image_step& step, const image_loops& loops,
                                  std::size_t part, std::size_t parts) {
        const part_range panels = range_of_part(image_step_run(images[0], step, loops).count_panels(), parts, part);
        for (std::size_t panel = panels.first; panel < panels.last; ++panel)
            for (const image_call& image : images)
                image_step_run(image, step, loops).convolve_block({0, step.out.height}, {panel, panel + 1});
    }

private:
    // A value whose rows from `row` on are at `begin`: all, or those of a band.
    struct value_rows {
        std::size_t row;
        float* begin;
    };
    float* read_at(std::size_t row) const { return read_.begin + (row - read_.row) * step_.from.row; }
    float* written_at(std::size_t row) const { return written_.begin + (row - written_.row) * step_.to.row; }
    float* also_at(std::size_t row) const { return call_.scratch + step_.also.first + row * step_.also.row; }
    std::size_t pixels() const { return pixels_.last - pixels_.first; }
    // The first pixel of the part.
    const float* reads_at(std::size_t row) const { return read_at(row) + pixels_.first * step_.from.pixel; }
    float* writes_at(std::size_t row) const { return written_at(row) + pixels_.first * step_.to.pixel; }
    float* adds_at(std::size_t row) const { return also_at(row) + pixels_.first * step_.also.pixel; }
    image_step_run with_pixels(const part_range& some) const {
        image_step_run made = *this;
        made.pixels_ = some;
        return made;
    }
    // Of the image in the outside tensor.
    float* outside() const { return call_.outside[step_.outside] + call_.first_image * step_.out.elements(); }
    element_end end_at(std::size_t row) const {
        return {.addend = step_.has_also ? adds_at(row) : nullptr,
                .addend_step = step_.also.pixel,
                .has_bounds = step_.has_bounds && !step_.curve,
                .least = step_.least,
                .most = step_.most};
    }
    // Some channels of a row that has just been written.
    void curve(std::size_t row, std::size_t first_channel, std::size_t channels) const {
        if (!step_.curve) return;
        loops_.curve({.x = writes_at(row) + first_channel,
                      .pixels = pixels(),
                      .step = step_.to.pixel,
                      .channels = channels,
                      .curve = step_.curve,
                      .has_bounds = step_.has_bounds,
                      .least = step_.least,
                      .most = step_.most});
    }

    // --- borders ---

    void clear(float* pixel, std::size_t pixels, std::size_t first_channel, std::size_t channels) const {
        for (std::size_t i = 0; i < pixels; ++i, pixel += step_.to.pixel)
            std::fill_n(pixel + first_channel, channels, 0.0f);
    }
    // The border on both sides of a row; above the first one and below the last one too. Of some pixels the border that
    // they are next to.
    void clear_around(std::size_t row, std::size_t first_channel, std::size_t channels) const {
        const image_border& border = step_.border;
        const std::size_t width = step_.out.width, wide = border.left + width + border.right;
        float* const begin = written_at(row);
        float* const left = begin - border.left * step_.to.pixel;
        if (pixels_.last == width) clear(begin + width * step_.to.pixel, border.right, first_channel, channels);
        if (pixels_.first != 0) return;
        clear(left, border.left, first_channel, channels);
        for (std::size_t i = 1; row == 0 && i <= border.top; ++i)
            clear(left - i * step_.to.row, wide, first_channel, channels);
        for (std::size_t i = 1; row + 1 == step_.out.height && i <= border.bottom; ++i)
            clear(left + i * step_.to.row, wide, first_channel, channels);
    }

    // --- steps whose parts are rows, or pixels of one row ---

    std::size_t row_parts() const {
        const bool has_window = step_.what == image_work::convolve_channels || step_.what == image_work::maximum ||
                                step_.what == image_work::average;
        const std::size_t of_element = has_window ? step_.window.size.height * step_.window.size.width : 1;
        return parts_for(step_.out.elements() * (of_element + work_of_image_element), least_work(), pieces());
    }
    bool is_one_row() const { return step_.out.height == 1; }
    // Of a part.
    std::size_t least_work() const { return is_one_row() ? least_row_work : least_image_work; }
    // Of which a part has some.
    std::size_t pieces() const {
        return is_one_row() ? (step_.out.width + pixels_of_piece - 1) / pixels_of_piece : step_.out.height;
    }
    void by_rows(std::size_t part, std::size_t parts) const {
        if (!is_one_row()) return do_rows(range_of_part(step_.out.height, parts, part));
        const part_range some = range_of_part(step_.out.width, parts, part, pixels_of_piece);
        if (some.first < some.last) with_pixels(some).do_rows({0, 1});
    }
    void do_rows(const part_range& rows) const {
        for (std::size_t row = rows.first; row < rows.last; ++row) {
            run_row(row);
            curve(row, 0, step_.out.channels);
            clear_around(row, 0, step_.out.channels);
        }
    }

    void run_row(std::size_t row) const {
        switch (step_.what) {
            case image_work::enter: return enter(row);
            case image_work::convolve_channels: return loops_.convolve_channels(channels_at(row));
            case image_work::maximum: return loops_.maximum(pooled_at(row));
            case image_work::average: return loops_.average(pooled_at(row));
            case image_work::scale: return loops_.scale(scaled_at(row, call_.numbers + step_.numbers));
            case image_work::copy: return loops_.scale(scaled_at(row, nullptr));
            case image_work::add:
            case image_work::multiply: return loops_.combine(combined_at(row));
            case image_work::shuffle: return loops_.shuffle(shuffled_at(row));
            case image_work::convolve:
            case image_work::convolve_transposed:
            case image_work::resample:
            case image_work::leave: return;
        }
    }

    void enter(std::size_t row) const {
        const std::size_t channels = step_.out.channels, width = step_.out.width, plane = step_.out.height * width;
        const float* const from = outside() + row * width + pixels_.first;
        float* const to = writes_at(row);
        if (channels == 3 && step_.to.pixel == 3) return loops_.join_three(from, plane, pixels(), to);
        loops_.transpose({from, channels, pixels(), plane, to, step_.to.pixel});
    }

    window_runs runs_of_window(std::size_t channels) const {
        const image_window& window = step_.window;
        window_runs made{.rows = window.size.height,
                         .row_step = window.dilation.height * step_.from.row,
                         .columns = window.size.width,
                         .column_step = window.dilation.width * step_.from.pixel,
                         .length = channels};
        if (made.column_step != channels) return made;
        made.length *= made.columns;  // one run for the window's row
        made.columns = 1;
        return made;
    }
    // The first element of the window, perhaps in the border.
    const float* window_at(std::size_t row) const {
        const image_window& window = step_.window;
        const float* const origin = call_.scratch + step_.from.first - window.before.height * step_.from.row -
                                    window.before.width * step_.from.pixel;
        return origin + row * window.stride.height * step_.from.row +
               pixels_.first * window.stride.width * step_.from.pixel;
    }

    convolved_row channels_at(std::size_t row) const {
        const std::size_t columns = image_lanes(step_.out.channels) * image_lane;
        const float* const weights = call_.numbers + step_.numbers;
        window_runs runs = runs_of_window(0);
        runs.columns = step_.window.size.width;
        return {.x = window_at(row),
                .pixels = pixels(),
                .x_step = step_.window.stride.width * step_.from.pixel,
                .runs = runs,
                .weights = weights,
                .bias = weights + runs.rows * runs.columns * columns,
                .out = writes_at(row),
                .out_step = step_.to.pixel,
                .filters = step_.out.channels,
                .end = end_at(row)};
    }

    pooled_row pooled_at(std::size_t row) const {
        const image_window& window = step_.window;
        std::size_t first = 0, last = 0, counted = 0;
        for (std::size_t k = window.size.height; k-- > 0;) {
            const std::size_t place = row * window.stride.height + k * window.dilation.height;
            if (place < window.before.height + step_.in.height + window.after.height) ++counted;
            if (place < window.before.height || place >= window.before.height + step_.in.height) continue;
            first = k;
            last = std::max(last, k + 1);
        }
        const std::size_t top =
            last == 0 ? read_.row : row * window.stride.height + first * window.dilation.height - window.before.height;
        return {.x = read_at(top),
                .x_pixel = step_.from.pixel,
                .width = step_.in.width,
                .rows = last - first,
                .row_step = window.dilation.height * step_.from.row,
                .columns = window.size.width,
                .stride = window.stride.width,
                .dilation = window.dilation.width,
                .before = window.before.width,
                .after = window.after.width,
                .counted_rows = counted,
                .counts_padding = step_.counts_padding,
                .out = writes_at(row),
                .first = pixels_.first,
                .pixels = pixels(),
                .out_step = step_.to.pixel,
                .channels = step_.out.channels,
                .end = end_at(row)};
    }

    scaled_row scaled_at(std::size_t row, const float* factors) const {
        return {.x = reads_at(row),
                .pixels = pixels(),
                .x_step = step_.from.pixel,
                .factors = factors,
                .out = writes_at(row),
                .out_step = step_.to.pixel,
                .channels = step_.out.channels,
                .end = end_at(row)};
    }

    combined_row combined_at(std::size_t row) const {
        return {.x = reads_at(row),
                .y = adds_at(row),
                .multiplies = step_.what == image_work::multiply,
                .y_is_channel = step_.also_spread == image_spread::channels,
                .pixels = pixels(),
                .x_step = step_.from.pixel,
                .y_step = step_.also.pixel,
                .out = writes_at(row),
                .out_step = step_.to.pixel,
                .channels = step_.out.channels,
                .end = end_at(row)};
    }

    shuffled_row shuffled_at(std::size_t row) const {
        return {.x = reads_at(row),
                .pixels = pixels(),
                .x_step = step_.from.pixel,
                .out = writes_at(row),
                .out_step = step_.to.pixel,
                .channels = step_.out.channels,
                .groups = step_.groups};
    }

    // --- leave ---

    std::size_t leave_parts() const {
        return parts_for(step_.out.elements() * work_of_image_element, least_image_work,
                         step_.out.channels / image_lane + 1);
    }
    void leave(std::size_t part, std::size_t parts) const {
        const std::size_t height = step_.out.height, width = step_.out.width;
        const part_range range = range_of_part(step_.out.channels, parts, part, image_lane);
        for (std::size_t row = 0; row < height; ++row) {
            float* const to = outside() + (range.first * height + row) * width;
            loops_.transpose(
                {read_at(row) + range.first, width, range.last - range.first, step_.from.pixel, to, height * width});
        }
    }

    // --- convolve ---

    struct panel {
        const float* weights;
        const float* bias;
        std::size_t group, lanes, first, filters;  // filters within the group
    };

    std::size_t filters_of_group() const { return step_.out.channels / step_.groups; }

    // Calls function(panel) for the panels [first, last) of all groups.
    template <typename Function>
    void for_panels(std::size_t first, std::size_t last, const Function& function) const {
        const std::size_t filters = filters_of_group(), products = products_of_filter(step_);
        std::size_t number = 0;
        const float* weights = call_.numbers + step_.numbers;
        for (std::size_t group = 0; group < step_.groups; ++group) {
            std::size_t begin = 0;
            for (std::size_t lanes = image_lanes(filters); lanes != 0; ++number) {
                const std::size_t some = panel_lanes(lanes), columns = some * image_lane;
                if (number >= first && number < last) {
                    function(panel{weights, weights + products * columns, group, some, begin,
                                   std::min(columns, filters - begin)});
                }
                weights += (products + 1) * columns;
                begin += columns;
                lanes -= some;
            }
        }
    }
    std::size_t count_panels() const {
        std::size_t count = 0;
        for (std::size_t lanes = image_lanes(filters_of_group()); lanes != 0; lanes -= panel_lanes(lanes)) ++count;
        return count * step_.groups;
    }

    std::size_t convolve_parts() const {
        return parts_for(step_.out.elements() * products_of_filter(step_), least_work(),
                         is_by_filters(step_) ? count_panels() : pieces());
    }
    void convolve(std::size_t part, std::size_t parts) const {
        const std::size_t rows = step_.out.height, panels = count_panels();
        if (is_by_filters(step_)) {
            convolve_block({0, rows}, range_of_part(panels, parts, part));
        } else if (is_one_row()) {
            convolve_pixels(range_of_part(step_.out.width, parts, part, pixels_of_piece));
        } else {
            convolve_rows(range_of_part(rows, parts, part), {0, panels});
        }
    }

    // Blocks of rows, or of pixels, that stay in the cache while one panel after the other reads them.
    std::size_t block_of(std::size_t pixels) const {
        const std::size_t floats =
            pixels * (step_.in.channels * step_.window.stride.height * step_.window.stride.width +
                      step_.out.channels * (step_.has_also ? 2 : 1));
        return std::max<std::size_t>(1, floats_of_image_block / std::max<std::size_t>(floats, 1));
    }
    void convolve_rows(const part_range& rows, const part_range& panels) const {
        const std::size_t block = block_of(step_.out.width);
        for (std::size_t first = rows.first; first < rows.last; first += block)
            convolve_block({first, std::min(first + block, rows.last)}, panels);
    }
    void convolve_pixels(const part_range& pixels) const {
        const std::size_t block = block_of(pixels_of_piece) * pixels_of_piece;
        for (std::size_t first = pixels.first; first < pixels.last; first += block)
            with_pixels({first, std::min(first + block, pixels.last)}).convolve_block({0, 1}, {0, count_panels()});
    }

    void convolve_block(const part_range& rows, const part_range& panels) const {
        const std::size_t channels = step_.in.channels / step_.groups, filters = filters_of_group();
        const window_runs runs = runs_of_window(channels);
        for_panels(panels.first, panels.last, [&](const panel& by) {
            const std::size_t first = by.group * filters + by.first;
            for (std::size_t row = rows.first; row < rows.last; ++row) {
                element_end end = end_at(row);
                if (end.addend != nullptr) end.addend += first;
                loops_.convolve[by.lanes - 1]({.x = window_at(row) + by.group * channels,
                                               .pixels = pixels(),
                                               .x_step = step_.window.stride.width * step_.from.pixel,
                                               .runs = runs,
                                               .weights = by.weights,
                                               .bias = by.bias,
                                               .out = writes_at(row) + first,
                                               .out_step = step_.to.pixel,
                                               .filters = by.filters,
                                               .end = end});
                curve(row, first, by.filters);
                clear_around(row, first, by.filters);
            }
        });
    }

    const image_call& call_;
    const image_step& step_;
    const image_loops& loops_;
    value_rows read_, written_;
    part_range pixels_;  // of a row: all, or, where there is one row, those of a part
};

}  // namespace sluice::kernels
