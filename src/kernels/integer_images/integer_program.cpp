// SPDX-License-Identifier: Apache-2.0
#include "kernels/integer_images/integer_program.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "kernels/integer_images/integer_loops.hpp"
#include "runtime/parallel_parts.hpp"
#include "runtime/parallel_phases.hpp"

namespace sluice::kernels {
namespace {

using sluice::detail::for_parts;
using sluice::detail::part_range;
using sluice::detail::parts_for;
using sluice::detail::range_of_part;

// Multiplications in a part that another worker may carry out, some 5 µs; and how many of them take as long as to
// compute with a byte on its own.
constexpr std::size_t work_of_part = std::size_t{1} << 20, work_of_move = 64;
constexpr std::size_t bytes_of_filter_block = std::size_t{256} << 10;
// From this many images on a part is all steps of some of them; of fewer, a part is some rows of one step.
constexpr std::size_t least_whole_images = 8;

std::size_t products_of(const integer_step& step) {
    const std::size_t window = step.window.size.height * step.window.size.width;
    switch (step.what) {
        case integer_work::convolve: return window * (step.in.channels / step.groups);
        case integer_work::convolve_channels: return window * work_of_move;
        case integer_work::maximum: return window;
        case integer_work::average: return window + work_of_move;
        default: return work_of_move;
    }
}
std::size_t rows_of(const integer_step& step) {
    const bool leaves = step.what == integer_work::leave || step.what == integer_work::dequantize;
    return leaves ? step.in.height : step.out.height;
}
std::size_t work_of(const integer_step& step) { return step.out.elements() * products_of(step); }
// Whether workers share the filters of a convolution, and not the rows: then each reads its own weights only.
bool is_by_filters(const integer_step& step) {
    return step.what == integer_work::convolve && step.groups == 1 &&
           products_of(step) * step.out.channels > step.in.elements();
}
std::size_t panels_of(const integer_step& step) { return (step.out.channels / step.groups + 15) / 16; }

// A step, of one image: some rows of all filters, or all rows of some filters.
class integer_step_run {
public:
    integer_step_run(const integer_call& call, const integer_step& step, const integer_loops& loops, std::size_t image,
                     std::uint8_t* values)
        : call_(call), step_(step), loops_(loops), image_(image), values_(values) {}

    void operator()(const part_range& rows) const { run(rows, {0, panels_of(step_)}); }
    void run(const part_range& rows, const part_range& panels) const {
        for (std::size_t row = rows.first; row < rows.last; ++row) {
            if (step_.what == integer_work::leave || step_.what == integer_work::dequantize) {
                leave(row);
                continue;
            }
            if (panels.first == 0) fill_around(row);
            switch (step_.what) {
                case integer_work::enter: enter_bytes(row); break;
                case integer_work::quantize: enter_numbers(row); break;
                case integer_work::convolve_channels: convolve_channels(row); break;
                case integer_work::maximum: take_largest(row); break;
                case integer_work::average: take_average(row); break;
                case integer_work::add:
                case integer_work::multiply: combine(row); break;
                case integer_work::map: map(row); break;
                default: break;
            }
        }
        if (step_.what == integer_work::convolve) convolve(rows, panels);
    }

private:
    std::uint8_t* written_at(std::size_t row) const { return values_ + step_.to.first + row * step_.to.row; }
    const std::uint8_t* read_at(std::size_t row) const { return values_ + step_.from.first + row * step_.from.row; }
    // Perhaps in the border.
    const std::uint8_t* window_at(std::size_t row) const {
        const image_window& window = step_.window;
        return values_ + step_.from.first + row * window.stride.height * step_.from.row -
               window.before.height * step_.from.row - window.before.width * step_.from.pixel;
    }
    byte_end end() const { return {step_.quantity, 1 / step_.quantity.scale, step_.has_relu}; }

    // The border on both sides of a row; above the first one and below the last one too.
    void fill_around(std::size_t row) const {
        const image_border& border = step_.border;
        const std::size_t pixel = step_.to.pixel, wide = (border.left + step_.out.width + border.right) * pixel;
        const int zero = step_.fill;
        std::uint8_t* const begin = written_at(row);
        std::uint8_t* const left = begin - border.left * pixel;
        std::memset(left, zero, border.left * pixel);
        std::memset(begin + step_.out.width * pixel, zero, border.right * pixel);
        for (std::size_t i = 1; row == 0 && i <= border.top; ++i) std::memset(left - i * step_.to.row, zero, wide);
        for (std::size_t i = 1; row + 1 == step_.out.height && i <= border.bottom; ++i)
            std::memset(left + i * step_.to.row, zero, wide);
    }

    // --- outside tensors, channels first ---

    std::size_t plane() const { return step_.in.height * step_.in.width; }
    std::byte* outside(std::size_t element_bytes) const {
        return call_.outside[step_.outside] + image_ * step_.in.elements() * element_bytes;
    }
    void enter_bytes(std::size_t row) const {
        const std::size_t channels = step_.in.channels, width = step_.in.width;
        const std::uint8_t flip = step_.is_signed ? 0x80 : 0;
        const auto* const from = reinterpret_cast<const std::uint8_t*>(outside(1)) + row * width;
        std::uint8_t* const to = written_at(row);
        for (std::size_t c = 0; c < channels; ++c)
            for (std::size_t x = 0; x < width; ++x) to[x * channels + c] = from[c * plane() + x] ^ flip;
    }
    void enter_numbers(std::size_t row) const {
        const std::size_t channels = step_.in.channels, width = step_.in.width;
        const float* const from = reinterpret_cast<const float*>(outside(sizeof(float))) + row * width;
        std::uint8_t* const to = written_at(row);
        if (channels == 1) return loops_.quantize(from, width, end(), to);
        constexpr std::size_t most = 256;
        std::array<std::uint8_t, most> some;
        for (std::size_t c = 0; c < channels; ++c) {
            for (std::size_t x = 0; x < width; x += most) {
                const std::size_t count = std::min(most, width - x);
                loops_.quantize(from + c * plane() + x, count, end(), some.data());
                for (std::size_t i = 0; i < count; ++i) to[(x + i) * channels + c] = some[i];
            }
        }
    }
    void leave(std::size_t row) const {
        const std::size_t channels = step_.in.channels, width = step_.in.width;
        const std::uint8_t* const from = read_at(row);
        if (step_.what == integer_work::leave) {
            const std::uint8_t flip = step_.is_signed ? 0x80 : 0;
            auto* const to = reinterpret_cast<std::uint8_t*>(outside(1)) + row * width;
            for (std::size_t c = 0; c < channels; ++c)
                for (std::size_t x = 0; x < width; ++x) to[c * plane() + x] = from[x * step_.from.pixel + c] ^ flip;
            return;
        }
        float* const to = reinterpret_cast<float*>(outside(sizeof(float))) + row * width;
        if (plane() == 1) return loops_.dequantize(from, channels, step_.quantity, to);
        const float scale = step_.quantity.scale;
        for (std::size_t c = 0; c < channels; ++c)
            for (std::size_t x = 0; x < width; ++x)
                to[c * plane() + x] =
                    static_cast<float>(int{from[x * step_.from.pixel + c]} - step_.quantity.zero) * scale;
    }

    // --- windows ---

    // `panels`: of each group. A few at a time, which stay in the second cache for all pixels.
    void convolve(const part_range& rows, const part_range& panels) const {
        const filter_runs runs = runs_of(step_.window, step_.in.channels / step_.groups, step_.groups);
        const std::size_t block =
            std::max(bytes_of_filter_block / std::max<std::size_t>(runs.panel_bytes(), 1) / 2 * 2, std::size_t{2});
        for (std::size_t group = 0; group < step_.groups; ++group)
            for (std::size_t first = panels.first; first < panels.last; first += block)
                convolve(rows, {first, std::min(first + block, panels.last)}, group, runs);
    }
    void convolve(const part_range& rows, const part_range& panels, std::size_t group, const filter_runs& runs) const {
        const std::size_t filters = step_.out.channels / step_.groups, channels = step_.in.channels / step_.groups,
                          width = step_.out.width;
        const filter_places places = places_of_filters(panels_of(step_) * runs.panel_bytes(), filters);
        const std::size_t first = panels.first * 16;  // filter
        const std::byte* const weights = call_.numbers + step_.numbers + group * places.end;
        std::array<const std::uint8_t*, most_tile_pixels> from;
        std::array<std::uint8_t*, most_tile_pixels> to;
        convolved_tile tile{.x = from.data(),
                            .pixels = 0,
                            .rows = runs.rows,
                            .row_step = step_.window.dilation.height * step_.from.row,
                            .columns = runs.columns,
                            .column_step = step_.window.dilation.width * step_.from.pixel,
                            .fours = runs.fours(),
                            .panel_bytes = runs.panel_bytes(),
                            .weights = weights + panels.first * runs.panel_bytes(),
                            .factors = reinterpret_cast<const float*>(weights + places.factors) + first,
                            .biases = reinterpret_cast<const float*>(weights + places.biases) + first,
                            .starts = reinterpret_cast<const std::int32_t*>(weights + places.starts) + first,
                            .out = to.data(),
                            .filters = std::min(panels.last * 16, filters) - first,
                            .end = end()};
        const std::size_t last = rows.last * width;
        std::size_t row = rows.first, column = 0;
        for (std::size_t pixel = rows.first * width; pixel < last; pixel += tile.pixels) {
            tile.pixels = std::min(most_tile_pixels, last - pixel);
            for (std::size_t i = 0; i < tile.pixels; ++i) {
                from[i] = window_at(row) + column * step_.window.stride.width * step_.from.pixel + group * channels;
                to[i] = written_at(row) + column * step_.to.pixel + group * filters + first;
                if (++column == width) {
                    column = 0;
                    ++row;
                }
            }
            loops_.convolve(tile);
        }
    }

    void convolve_channels(std::size_t row) const {
        const std::size_t channels = step_.out.channels;
        const image_window& window = step_.window;
        const filter_places places = places_of_filters(channel_filter_bytes(window, channels), channels);
        const std::byte* const weights = call_.numbers + step_.numbers;
        loops_.convolve_channels({.x = window_at(row),
                                  .pixels = step_.out.width,
                                  .x_step = window.stride.width * step_.from.pixel,
                                  .rows = window.size.height,
                                  .row_step = window.dilation.height * step_.from.row,
                                  .columns = window.size.width,
                                  .column_step = window.dilation.width * step_.from.pixel,
                                  .weights = weights,
                                  .factors = reinterpret_cast<const float*>(weights + places.factors),
                                  .biases = reinterpret_cast<const float*>(weights + places.biases),
                                  .starts = reinterpret_cast<const std::int32_t*>(weights + places.starts),
                                  .out = written_at(row),
                                  .out_step = step_.to.pixel,
                                  .channels = channels,
                                  .end = end()});
    }

    // Of a window without a pixel: the smallest byte.
    void take_largest(std::size_t row) const {
        const image_window& window = step_.window;
        const std::size_t channels = step_.out.channels;
        for (std::size_t x = 0; x < step_.out.width; ++x) {
            std::uint8_t* const to = written_at(row) + x * step_.to.pixel;
            std::memset(to, 0, channels);
            for (std::size_t r = 0; r < window.size.height; ++r) {
                const std::size_t y = row * window.stride.height + r * window.dilation.height - window.before.height;
                if (y >= step_.in.height) continue;  // also those before the first one
                for (std::size_t s = 0; s < window.size.width; ++s) {
                    const std::size_t at = x * window.stride.width + s * window.dilation.width - window.before.width;
                    if (at >= step_.in.width) continue;
                    loops_.take_larger(read_at(y) + at * step_.from.pixel, channels, to);
                }
            }
        }
    }

    // The pixels of a window along one axis that exist.
    struct window_span {
        std::size_t first = 0, count = 0;  // of the image
        std::size_t counted = 0;
    };
    static window_span span_of(std::size_t at, std::size_t size, std::size_t stride, std::size_t dilation,
                               std::size_t before, std::size_t length, std::size_t after) {
        window_span made;
        for (std::size_t k = 0; k < size; ++k) {
            const std::size_t place = at * stride + k * dilation;  // `before` too far
            if (place < before + length + after) ++made.counted;
            if (place < before || place >= before + length) continue;
            if (made.count++ == 0) made.first = place - before;
        }
        return made;
    }
    void take_average(std::size_t row) const {
        const image_window& window = step_.window;
        const window_span rows = span_of(row, window.size.height, window.stride.height, window.dilation.height,
                                         window.before.height, step_.in.height, window.after.height);
        for (std::size_t x = 0; x < step_.out.width; ++x) {
            const window_span columns = span_of(x, window.size.width, window.stride.width, window.dilation.width,
                                                window.before.width, step_.in.width, window.after.width);
            const std::size_t existing = rows.count * columns.count, all = rows.counted * columns.counted;
            loops_.average({.x = read_at(rows.first) + columns.first * step_.from.pixel,
                            .rows = rows.count,
                            .row_step = window.dilation.height * step_.from.row,
                            .columns = columns.count,
                            .column_step = window.dilation.width * step_.from.pixel,
                            .counted = step_.counts_padding ? all : existing,
                            .of_x = step_.read,
                            .channels = step_.out.channels,
                            .out = written_at(row) + x * step_.to.pixel,
                            .end = end()});
        }
    }

    // --- each byte ---

    void combine(std::size_t row) const {
        combined_bytes made{.x = read_at(row),
                            .y = values_ + step_.also.first,
                            .of_x = step_.read,
                            .of_y = step_.also_read,
                            .multiplies = step_.what == integer_work::multiply,
                            .y_is_one = step_.also_spread == image_spread::channels,
                            .count = step_.out.channels,
                            .out = written_at(row),
                            .end = end()};
        if (step_.also_spread == image_spread::none) {
            // The pixels of a row follow each other.
            made.y += row * step_.also.row;
            made.count *= step_.out.width;
            return loops_.combine(made);
        }
        const bool is_by_pixel = step_.also_spread == image_spread::channels;
        if (is_by_pixel) made.y += row * step_.also.row;
        for (std::size_t x = 0; x < step_.out.width; ++x) {
            loops_.combine(made);
            made.x += step_.from.pixel;
            made.out += step_.to.pixel;
            if (is_by_pixel) made.y += step_.also.pixel;
        }
    }
    void map(std::size_t row) const {
        const auto* const table = reinterpret_cast<const std::uint8_t*>(call_.numbers + step_.numbers);
        const std::uint8_t* from = read_at(row);
        std::uint8_t* to = written_at(row);
        const std::size_t channels = step_.out.channels, width = step_.out.width;
        if (step_.to.pixel == channels) return loops_.map(table, from, width * channels, to);
        for (std::size_t x = 0; x < width; ++x, from += step_.from.pixel, to += step_.to.pixel)
            loops_.map(table, from, channels, to);
    }

    const integer_call& call_;
    const integer_step& step_;
    const integer_loops& loops_;
    const std::size_t image_;
    std::uint8_t* const values_;
};

void run_images(const integer_call& call, const integer_loops& with, std::size_t parts) {
    for_parts(parts, [&](std::size_t part) {
        const part_range images = range_of_part(call.images, parts, part);
        for (std::size_t image = images.first; image < images.last; ++image) {
            for (std::size_t s = 0; s < call.count; ++s) {
                const integer_step& step = call.steps[s];
                integer_step_run(call, step, with, image, call.scratch + part * call.scratch_bytes)({0, rows_of(step)});
            }
        }
    });
}

// The steps of few images, each a phase. Workers share the filters of a step, or all rows of all images, which are in
// places of their own.
class integer_phases final : public sluice::detail::phased_work {
public:
    integer_phases(const integer_call& call, const integer_loops& with) : call_(call), with_(with) {}

    std::size_t after(std::size_t phase) const noexcept override { return phase + 1; }
    std::size_t parts(std::size_t phase) const noexcept override {
        const integer_step& step = call_.steps[phase];
        return parts_for(work_of(step) * call_.images, work_of_part,
                         is_by_filters(step) ? panels_of(step) : rows_of(step) * call_.images);
    }
    void run(std::size_t phase, std::size_t part) const noexcept override {
        const integer_step& step = call_.steps[phase];
        const std::size_t rows = rows_of(step);
        if (is_by_filters(step)) {
            const part_range its = range_of_part(panels_of(step), parts(phase), part);
            for (std::size_t image = 0; image < call_.images; ++image) step_of(step, image).run({0, rows}, its);
            return;
        }
        const part_range its = range_of_part(rows * call_.images, parts(phase), part);
        for (std::size_t at = its.first; at < its.last;) {
            const std::size_t image = at / rows, end = std::min(its.last, (image + 1) * rows);
            step_of(step, image)({at - image * rows, end - image * rows});
            at = end;
        }
    }

private:
    integer_step_run step_of(const integer_step& step, std::size_t image) const {
        return integer_step_run(call_, step, with_, image, call_.scratch + image * call_.scratch_bytes);
    }

    const integer_call& call_;
    const integer_loops& with_;
};

}  // namespace

void run_integer_program(const integer_call& call, const integer_loops& with) {
    if (call.images < least_whole_images) return sluice::detail::run_phases(integer_phases(call, with), 0, call.count);
    std::size_t work = 0;
    for (std::size_t s = 0; s < call.count; ++s) work += work_of(call.steps[s]);
    run_images(call, with, parts_for(work * call.images, work_of_part, images_at_once(call.images)));
}

void run_integer_program(const integer_call& call) {
    static const integer_loops& best = *known_integer_loops().front();
    run_integer_program(call, best);
}

std::vector<const integer_loops*> known_integer_loops() {
    std::vector<const integer_loops*> known;
#if defined(SLUICE_X86_VARIANTS)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl")) {
        if (__builtin_cpu_supports("avx512vnni")) {
            if (__builtin_cpu_supports("avx512vbmi")) known.push_back(&integer_loops_vbmi);
            known.push_back(&integer_loops_vnni);
        }
        known.push_back(&integer_loops_avx512);
    }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) known.push_back(&integer_loops_avx2);
#endif
    known.push_back(&integer_loops_baseline);
    return known;
}

}  // namespace sluice::kernels
