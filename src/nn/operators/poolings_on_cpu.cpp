// SPDX-License-Identifier: Apache-2.0
#include "nn/operators/poolings_on_cpu.hpp"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "nn/operators/launch_each.hpp"
#include "nn/operators/pooling_loops.hpp"
#include "nn/operators/reduce.hpp"

namespace sluice::nn::operators {
namespace {

constexpr std::size_t most_pooled_columns = 2048;  // of x, that one line of windows reads at a time
constexpr std::size_t windows_together = 256;

// The elements of a dimension that the windows [first, last) read: within the image.
window_grid::range columns_of(const window_grid& grid, std::size_t first, std::size_t last) {
    const std::size_t begin = first * grid.stride[2],
                      end = (last - 1) * grid.stride[2] + (grid.window[2] - 1) * grid.dilation[2] + 1;
    const auto within = [&](std::size_t at) {
        return std::min(at < grid.before[2] ? 0 : at - grid.before[2], grid.input[2]);
    };
    return {within(begin), within(end)};
}

struct pooled_lines {
    window_grid grid;
    const float* x;
    float* y;
    in_word<pooled> what;
    std::size_t together;  // windows of a line

    static constexpr std::size_t numbers_of_part = 16'384;
    std::size_t host_unit() const { return grid.output[2]; }
    void operator()(std::size_t) const {}  // a GPU has a kernel of its own

    void on_host(std::size_t first, std::size_t last) const {
        const std::size_t width = grid.output[2];
        for (std::size_t begin = 0; begin < width; begin += together) {
            const std::size_t end = std::min(width, begin + together);
            if (what == pooled::largest) {
                largest(first / width, last / width, begin, end);
            } else {
                means(first / width, last / width, begin, end);
            }
        }
    }

private:
    // Calls combine(line of x) for the lines of the windows in this row of windows.
    template <typename Combine>
    void for_lines(std::size_t row, const Combine& combine) const {
        const std::size_t o1 = row % grid.output[1], o0 = row / grid.output[1] % grid.output[0];
        const float* const plane = x + row / grid.output[1] / grid.output[0] * grid.input_size();
        const auto r0 = grid.in_image(o0, 0), r1 = grid.in_image(o1, 1);
        for (std::size_t w0 = r0.first; w0 < r0.last; ++w0)
            for (std::size_t w1 = r1.first; w1 < r1.last; ++w1)
                combine(plane + (grid.place(o0, w0, 0) * grid.input[1] + grid.place(o1, w1, 1)) * grid.input[2]);
    }
    // Calls combine(element of the line, of the first window that has it, number of windows) for each of a window's
    // elements.
    template <typename Combine>
    void for_columns(std::size_t begin, std::size_t end, const Combine& combine) const {
        for (std::size_t w2 = 0; w2 < grid.window[2]; ++w2) {
            const auto having = grid.windows_with(w2, 2);
            const std::size_t from = std::max(having.first, begin), to = std::min(having.last, end);
            if (from < to) combine(grid.place(from, w2, 2), from - begin, to - from);
        }
    }

    void largest(std::size_t first_row, std::size_t last_row, std::size_t begin, std::size_t end) const {
        constexpr float least = -std::numeric_limits<float>::infinity();
        const pooling_loops& loops = pooling_loops_of_this_processor();
        const auto columns = columns_of(grid, begin, end);
        float line[most_pooled_columns];
        for (std::size_t row = first_row; row < last_row; ++row) {
            std::fill_n(line, columns.last - columns.first, least);
            for_lines(row, [&](const float* from) {
                loops.take_larger(from + columns.first, 1, line, columns.last - columns.first);
            });
            float* const to = y + row * grid.output[2] + begin;
            std::fill_n(to, end - begin, least);
            for_columns(begin, end, [&](std::size_t at, std::size_t window, std::size_t count) {
                loops.take_larger(line + (at - columns.first), grid.stride[2], to + window, count);
            });
        }
    }

    double counted(std::size_t o, std::size_t d) const {
        const auto range = what == pooled::mean_with_padding
                               ? grid.within(o, d, 0, grid.before[d] + grid.input[d] + grid.after[d])
                               : grid.in_image(o, d);
        return range.last > range.first ? static_cast<double>(range.last - range.first) : 0.0;
    }
    void means(std::size_t first_row, std::size_t last_row, std::size_t begin, std::size_t end) const {
        const pooling_loops& loops = pooling_loops_of_this_processor();
        const auto columns = columns_of(grid, begin, end);
        double line[most_pooled_columns], sums[windows_together], counts[windows_together];
        for (std::size_t o = begin; o < end; ++o) counts[o - begin] = counted(o, 2);
        for (std::size_t row = first_row; row < last_row; ++row) {
            std::fill_n(line, columns.last - columns.first, 0.0);
            for_lines(row, [&](const float* from) {
                loops.add_line(from + columns.first, line, columns.last - columns.first);
            });
            std::fill_n(sums, end - begin, 0.0);
            for_columns(begin, end, [&](std::size_t at, std::size_t window, std::size_t count) {
                loops.add_apart(line + (at - columns.first), grid.stride[2], sums + window, count);
            });
            const std::size_t o1 = row % grid.output[1], o0 = row / grid.output[1] % grid.output[0];
            const double lines = counted(o0, 0) * counted(o1, 1);
            float* const to = y + row * grid.output[2] + begin;
            for (std::size_t i = 0; i < end - begin; ++i) {
                const double count = lines * counts[i];
                to[i] = static_cast<float>(count > 0 ? sums[i] / count : 0.0);
            }
        }
    }
};

bool is_whole_image(const window_grid& grid) {
    bool made = grid.output_size() == 1;
    for (std::size_t d = 0; d < 3; ++d)
        made = made && grid.window[d] == grid.input[d] && grid.dilation[d] == 1 && grid.before[d] == 0;
    return made;
}

}  // namespace

bool pool_on_cpu(const node_call& in, const window_grid& grid, pooled what, const any_tensor& x, const any_tensor& y) {
    if (is_on_gpu(in) || in.where() == place::nowhere || x.type() != io::dtype::f32 || x.elements() == 0) return false;
    const bool counts_more =
        what == pooled::mean_with_padding && std::ranges::any_of(grid.after, [](auto each) { return each != 0; });
    if (is_whole_image(grid) && !counts_more) {
        const any_tensor planes = x.with_shape({x.elements() / grid.input_size(), grid.input_size()});
        if (what == pooled::largest) {
            reduce(in, reduction::maximum, planes, {1}, y);
        } else {
            reduce(in, reduction::sum, planes, {1}, y, {.finish = reduction_finish::mean});
        }
        return true;
    }
    const std::size_t reach = (grid.window[2] - 1) * grid.dilation[2] + 1;
    if (reach > most_pooled_columns) return false;
    const std::size_t together = std::min(windows_together, (most_pooled_columns - reach) / grid.stride[2] + 1);
    each(in, y.elements(), pooled_lines{grid, in.read<float>(x), in.write<float>(y), what, together}, {&x}, {&y});
    return true;
}

}  // namespace sluice::nn::operators
