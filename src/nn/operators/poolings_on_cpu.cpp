// SPDX-License-Identifier: Apache-2.0
#include "nn/operators/poolings_on_cpu.hpp"

#include <algorithm>

#include "nn/operators/launch_each.hpp"
#include "nn/operators/pooling_loops.hpp"
#include "nn/operators/reduce.hpp"

namespace sluice::nn::operators {
namespace {

struct pooled_lines {
    window_grid grid;
    const float* x;
    float* y;
    in_word<pooled> what;
    std::size_t together;  // windows of a line

    static constexpr std::size_t numbers_of_part = 32'768;
    std::size_t host_unit() const { return grid.output[2]; }
    void operator()(std::size_t) const {}  // a GPU has a kernel of its own

    void on_host(std::size_t first, std::size_t last) const {
        const std::size_t width = grid.output[2];
        const pooling_loops& loops = pooling_loops_of_this_processor();
        pooled_windows of{};
        of.x = x;
        of.y = y;
        std::ranges::copy(grid.input, of.input);
        std::ranges::copy(grid.window, of.window);
        std::ranges::copy(grid.output, of.output);
        std::ranges::copy(grid.stride, of.stride);
        std::ranges::copy(grid.dilation, of.dilation);
        std::ranges::copy(grid.before, of.before);
        std::ranges::copy(grid.after, of.after);
        of.first_row = first / width;
        of.last_row = last / width;
        of.counts_padding = what == pooled::mean_with_padding;
        for (of.begin = 0; of.begin < width; of.begin = of.end) {
            of.end = std::min(width, of.begin + together);
            what == pooled::largest ? loops.largest(of) : loops.means(of);
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
    if (reach > pooled_windows::most_columns) return false;
    const std::size_t together =
        std::min(pooled_windows::most_windows, (pooled_windows::most_columns - reach) / grid.stride[2] + 1);
    each(in, y.elements(), pooled_lines{grid, in.read<float>(x), in.write<float>(y), what, together}, {&x}, {&y});
    return true;
}

}  // namespace sluice::nn::operators
