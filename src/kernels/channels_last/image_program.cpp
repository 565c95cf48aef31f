// SPDX-License-Identifier: Apache-2.0
#include "kernels/channels_last/image_program.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>

#include "kernels/channels_last/image_loops.hpp"
#include "runtime/parallel_parts.hpp"

namespace sluice::kernels {
namespace {

using sluice::detail::for_parts;
using sluice::detail::part_range;
using sluice::detail::parts_for;
using sluice::detail::range_of_part;

// Multiplications in a part that another worker may carry out: some 10 µs, since the workers that help with one step
// are still awake for the next. An element takes as long to move as this many.
constexpr std::size_t least_work = 500'000, work_of_element = 16;
// The rows that are read and written for one panel after the other stay in the second cache.
constexpr std::size_t floats_of_block = std::size_t{96} << 10;

class step_run {
public:
    step_run(const image_call& call, const image_step& step, const image_loops& loops)
        : call_(call), step_(step), loops_(loops) {}

    void operator()() const {
        switch (step_.what) {
            case image_work::convolve: return convolve();
            case image_work::leave: return leave();
            default: return by_rows();
        }
    }

private:
    float* at(const image_place& place, std::size_t row) const { return call_.scratch + place.first + row * place.row; }
    // Of the image in the outside tensor.
    float* outside() const { return call_.outside[step_.outside] + call_.first_image * step_.out.elements(); }
    element_end end_at(std::size_t row) const {
        return {.addend = step_.has_also ? at(step_.also, row) : nullptr,
                .addend_step = step_.also.pixel,
                .has_bounds = step_.has_bounds,
                .least = step_.least,
                .most = step_.most};
    }

    // --- borders ---

    void clear(float* pixel, std::size_t pixels, std::size_t first_channel, std::size_t channels) const {
        for (std::size_t i = 0; i < pixels; ++i, pixel += step_.to.pixel)
            std::fill_n(pixel + first_channel, channels, 0.0f);
    }
    // The border on both sides of a row; above the first one and below the last one too.
    void clear_around(std::size_t row, std::size_t first_channel, std::size_t channels) const {
        const image_border& border = step_.border;
        const std::size_t width = step_.out.width, wide = border.left + width + border.right;
        float* const begin = at(step_.to, row);
        float* const left = begin - border.left * step_.to.pixel;
        clear(left, border.left, first_channel, channels);
        clear(begin + width * step_.to.pixel, border.right, first_channel, channels);
        for (std::size_t i = 1; row == 0 && i <= border.top; ++i)
            clear(left - i * step_.to.row, wide, first_channel, channels);
        for (std::size_t i = 1; row + 1 == step_.out.height && i <= border.bottom; ++i)
            clear(left + i * step_.to.row, wide, first_channel, channels);
    }

    // --- steps whose parts are rows ---

    void by_rows() const {
        const std::size_t rows = step_.out.height;
        const bool has_window = step_.what == image_work::convolve_channels || step_.what == image_work::maximum ||
                                step_.what == image_work::average;
        const std::size_t of_element = has_window ? step_.window.size.height * step_.window.size.width : 1;
        const std::size_t parts = parts_for(step_.out.elements() * (of_element + work_of_element), least_work, rows);
        for_parts(parts, [&](std::size_t part) {
            const part_range range = range_of_part(rows, parts, part);
            for (std::size_t row = range.first; row < range.last; ++row) {
                run_row(row);
                clear_around(row, 0, step_.out.channels);
            }
        });
    }

    void run_row(std::size_t row) const {
        switch (step_.what) {
            case image_work::enter: return enter(row);
            case image_work::convolve_channels: return loops_.convolve_channels(channels_at(row));
            case image_work::maximum: return loops_.maximum(pooled_at(row));
            case image_work::average: return loops_.average(pooled_at(row));
            case image_work::scale: return loops_.scale(scaled_at(row, call_.numbers + step_.numbers));
            case image_work::add:
            case image_work::copy: return loops_.scale(scaled_at(row, nullptr));
            case image_work::shuffle: return loops_.shuffle(shuffled_at(row));
            case image_work::convolve:
            case image_work::leave: return;
        }
    }

    void enter(std::size_t row) const {
        const std::size_t channels = step_.out.channels, width = step_.out.width, plane = step_.out.height * width;
        const float* const from = outside() + row * width;
        float* const to = at(step_.to, row);
        for (std::size_t c = 0; c < channels; ++c)
            for (std::size_t x = 0; x < width; ++x) to[x * step_.to.pixel + c] = from[c * plane + x];
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
        return origin + row * window.stride.height * step_.from.row;
    }

    convolved_row channels_at(std::size_t row) const {
        const std::size_t columns = image_lanes(step_.out.channels) * image_lane;
        const float* const weights = call_.numbers + step_.numbers;
        window_runs runs = runs_of_window(0);
        runs.columns = step_.window.size.width;
        return {.x = window_at(row),
                .pixels = step_.out.width,
                .x_step = step_.window.stride.width * step_.from.pixel,
                .runs = runs,
                .weights = weights,
                .bias = weights + runs.rows * runs.columns * columns,
                .out = at(step_.to, row),
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
            last == 0 ? 0 : row * window.stride.height + first * window.dilation.height - window.before.height;
        return {.x = at(step_.from, top),
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
                .out = at(step_.to, row),
                .pixels = step_.out.width,
                .out_step = step_.to.pixel,
                .channels = step_.out.channels,
                .end = end_at(row)};
    }

    scaled_row scaled_at(std::size_t row, const float* factors) const {
        return {.x = at(step_.from, row),
                .pixels = step_.out.width,
                .x_step = step_.from.pixel,
                .factors = factors,
                .out = at(step_.to, row),
                .out_step = step_.to.pixel,
                .channels = step_.out.channels,
                .end = end_at(row)};
    }

    shuffled_row shuffled_at(std::size_t row) const {
        return {.x = at(step_.from, row),
                .pixels = step_.out.width,
                .x_step = step_.from.pixel,
                .out = at(step_.to, row),
                .out_step = step_.to.pixel,
                .channels = step_.out.channels,
                .groups = step_.groups};
    }

    // --- leave ---

    void leave() const {
        const std::size_t channels = step_.out.channels, height = step_.out.height, width = step_.out.width;
        const std::size_t parts =
            parts_for(step_.out.elements() * work_of_element, least_work, channels / image_lane + 1);
        for_parts(parts, [&](std::size_t part) {
            const part_range range = range_of_part(channels, parts, part, image_lane);
            for (std::size_t row = 0; row < height; ++row) {
                const float* const from = at(step_.from, row);
                for (std::size_t c = range.first; c < range.last; ++c) {
                    float* const to = outside() + (c * height + row) * width;
                    for (std::size_t x = 0; x < width; ++x) to[x] = from[x * step_.from.pixel + c];
                }
            }
        });
    }

    // --- convolve ---

    struct panel {
        const float* weights;
        const float* bias;
        std::size_t group, lanes, first, filters;  // filters within the group
    };

    std::size_t filters_of_group() const { return step_.out.channels / step_.groups; }
    std::size_t products_of_filter() const {
        return step_.window.size.height * step_.window.size.width * (step_.in.channels / step_.groups);
    }

    // Calls function(panel) for the panels [first, last) of all groups.
    template <typename Function>
    void for_panels(std::size_t first, std::size_t last, const Function& function) const {
        const std::size_t filters = filters_of_group(), products = products_of_filter();
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

    // Parts are rows where the inputs are larger than the weights, else filters.
    void convolve() const {
        const std::size_t rows = step_.out.height, panels = count_panels();
        const std::size_t work = step_.out.elements() * products_of_filter();
        const bool is_by_filters = step_.in.elements() < products_of_filter() * step_.out.channels;
        const std::size_t pieces = is_by_filters ? panels : rows;
        const std::size_t parts = parts_for(work, least_work, pieces);
        for_parts(parts, [&](std::size_t part) {
            const part_range range = range_of_part(pieces, parts, part);
            if (is_by_filters) {
                convolve_block({0, rows}, range);
            } else {
                convolve_rows(range, {0, panels});
            }
        });
    }

    // Blocks of rows that stay in the cache while one panel after the other reads them.
    void convolve_rows(const part_range& rows, const part_range& panels) const {
        const std::size_t of_row = step_.in.width * step_.in.channels * step_.window.stride.height +
                                   step_.out.width * step_.out.channels * (step_.has_also ? 2 : 1);
        const std::size_t block = std::max<std::size_t>(1, floats_of_block / std::max<std::size_t>(of_row, 1));
        for (std::size_t first = rows.first; first < rows.last; first += block)
            convolve_block({first, std::min(first + block, rows.last)}, panels);
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
                                               .pixels = step_.out.width,
                                               .x_step = step_.window.stride.width * step_.from.pixel,
                                               .runs = runs,
                                               .weights = by.weights,
                                               .bias = by.bias,
                                               .out = at(step_.to, row) + first,
                                               .out_step = step_.to.pixel,
                                               .filters = by.filters,
                                               .end = end});
                clear_around(row, first, by.filters);
            }
        });
    }

    const image_call& call_;
    const image_step& step_;
    const image_loops& loops_;
};

void run_steps(const image_call& call, const image_loops& with) {
    for (std::size_t i = 0; i < call.count; ++i) step_run(call, call.steps[i], with)();
}

// Places for images in scratch memory. The lowest free one is taken: it was used last, by one of few workers.
class places_in_use {
public:
    std::size_t take() noexcept {
        std::uint32_t used = used_.load(std::memory_order_relaxed);
        for (;;) {
            const auto place = static_cast<std::size_t>(std::countr_one(used));
            // Pairs with give_back: the previous user of the place has written to it.
            if (used_.compare_exchange_weak(used, used | std::uint32_t{1} << place, std::memory_order_acquire))
                return place;
        }
    }
    void give_back(std::size_t place) noexcept {
        used_.fetch_and(~(std::uint32_t{1} << place), std::memory_order_release);
    }

private:
    std::atomic<std::uint32_t> used_{0};
};

}  // namespace

std::vector<const image_loops*> known_image_loops() {
    std::vector<const image_loops*> known;
#if defined(SLUICE_X86_VARIANTS)
    if (__builtin_cpu_supports("avx512f")) known.push_back(&image_loops_avx512);
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) known.push_back(&image_loops_avx2);
#endif
    known.push_back(&image_loops_baseline);
    return known;
}

void run_image_program(const image_call& call) {
    static const image_loops& best = *known_image_loops().front();
    run_image_program(call, best);
}

void run_image_program(const image_call& call, const image_loops& with) {
    if (call.images == 1) return run_steps(call, with);
    const std::size_t parts = most_at_once(call.images);
    places_in_use places;
    for_parts(parts, [&](std::size_t part) {
        const std::size_t place = places.take();
        image_call one = call;
        one.scratch += place * call.scratch_floats;
        const part_range range = range_of_part(call.images, parts, part);
        for (std::size_t image = range.first; image < range.last; ++image) {
            one.first_image = call.first_image + image;
            run_steps(one, with);
        }
        places.give_back(place);
    });
}

}  // namespace sluice::kernels
