// SPDX-License-Identifier: Apache-2.0
// Batches of products of small matrices: panels of columns of the right one, each with all rows of the left one.
#include "nn/operators/products_on_cpu.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "kernels/reduction/row_math.hpp"
#include "nn/operators/launch_each.hpp"
#include "nn/operators/product_loops.hpp"
#include "nn/operators/reduce.hpp"

namespace sluice::nn::operators {
namespace {

// A matrix on the right that stays in the second cache.
constexpr std::size_t most_numbers = std::size_t{64} << 10;
// Fewer are faster one by one.
constexpr std::size_t least_columns = 4;

struct products_kernel {
    product_layout at;
    const float* a;
    const float* b;
    float* y;

    // Rows of a matrix that are computed together; the numbers are products.
    static constexpr std::size_t most_rows = 48;
    static constexpr std::size_t numbers_of_part = 1'500'000;
    std::size_t blocks() const { return (at.rows + most_rows - 1) / most_rows; }
    std::size_t host_unit() const { return std::min(most_rows, at.rows) * at.inner * at.columns; }
    void operator()(std::size_t) const {}  // for a CPU only

    void on_host(std::size_t first, std::size_t last) const {
        for (std::size_t unit = first / host_unit(); unit < last / host_unit(); ++unit) {
            std::size_t rest = unit / blocks(), of_a = 0, of_b = 0, of_y = 0;
            for (std::size_t d = at.rank; d-- > 0;) {
                const std::size_t i = rest % at.batch[d];
                rest /= at.batch[d];
                of_a += i * at.a_batch[d];
                of_b += i * at.b_batch[d];
                of_y += i * at.y_batch[d];
            }
            const std::size_t row = unit % blocks() * most_rows;
            multiply(a + of_a + row * at.a_row, b + of_b, y + of_y + row * at.y_row,
                     std::min(most_rows, at.rows - row));
        }
    }

private:
    void multiply(const float* left, const float* right, float* to, std::size_t rows) const {
        const product_loops& loops = product_loops_of_this_processor();
        constexpr std::size_t most_depth = 256;
        float packed[most_depth * product_loops::most_width];
        for (std::size_t column = 0; column < at.columns; column += loops.width) {
            const std::size_t columns = std::min(loops.width, at.columns - column);
            const float* const of_columns = right + column * at.b_column;
            product_panel made{.a = left,
                               .b = of_columns,
                               .y = to + column * at.y_column,
                               .rows = rows,
                               .depth = at.inner,
                               .columns = columns,
                               .a_row = at.a_row,
                               .a_inner = at.a_inner,
                               .b_inner = at.b_inner,
                               .y_row = at.y_row,
                               .y_column = at.y_column,
                               .adds = false};
            if (at.b_column == 1 && columns == loops.width) {
                loops.multiply(made);
                continue;
            }
            if (columns != loops.width) std::fill_n(packed, std::min(most_depth, at.inner) * loops.width, 0.0f);
            for (std::size_t k = 0; k == 0 || k < at.inner; k += most_depth) {
                made.depth = std::min(most_depth, at.inner - k);
                pack(of_columns + k * at.b_inner, columns, made.depth, packed, loops.width);
                made.a = left + k * at.a_inner;
                made.b = packed;
                made.b_inner = loops.width;
                made.adds = k != 0;
                loops.multiply(made);
            }
        }
    }
    void pack(const float* from, std::size_t columns, std::size_t depth, float* to, std::size_t width) const {
        if (at.b_inner == 1) {
            kernels::row_math_of_this_processor().turn(from, at.b_column, to, width, columns, depth);
        } else {
            for (std::size_t k = 0; k < depth; ++k)
                for (std::size_t c = 0; c < columns; ++c) to[k * width + c] = from[k * at.b_inner + c * at.b_column];
        }
    }
};

// (a b)' = b' a'. Panels are wide: the longer side is that of the columns.
product_layout turned(product_layout at) {
    std::swap(at.rows, at.columns);
    std::swap(at.a_row, at.b_column);
    std::swap(at.a_inner, at.b_inner);
    std::swap(at.y_row, at.y_column);
    for (std::size_t d = 0; d < at.rank; ++d) std::swap(at.a_batch[d], at.b_batch[d]);
    return at;
}

}  // namespace

bool multiply_on_cpu(const node_call& in, const any_tensor& a, const any_tensor& b, const any_tensor& y,
                     const product_layout& at) {
    if (is_on_gpu(in) || a.type() != io::dtype::f32 || at.inner == 0 || at.inner * at.columns > most_numbers ||
        at.inner * at.rows > most_numbers)
        return false;
    const bool is_turned = at.columns < product_loops_of_this_processor().width && at.rows > at.columns;
    products_kernel kernel{is_turned ? turned(at) : at, in.read<float>(is_turned ? b : a),
                           in.read<float>(is_turned ? a : b), in.write<float>(y)};
    if (kernel.at.columns < least_columns) return false;
    std::size_t count = kernel.blocks() * kernel.host_unit();
    for (std::size_t d = 0; d < at.rank; ++d) count *= at.batch[d];
    each(in, count, kernel, {&a, &b}, {&y});
    return true;
}

}  // namespace sluice::nn::operators
