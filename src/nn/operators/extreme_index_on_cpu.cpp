// SPDX-License-Identifier: Apache-2.0
// Long rows one by one: the extreme, and then where it is. Of others the best element so far and its number, of up to
// 256 columns at a time; short rows are turned, some elements at a time.
#include "nn/operators/extreme_index_on_cpu.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "kernels/reduction/row_math.hpp"
#include "nn/operators/launch_each.hpp"

namespace sluice::nn::operators {
namespace {

using kernels::row_math;

struct extreme_index_kernel {
    const float* x;
    std::int64_t* to;
    std::size_t length, inner;
    in_word<bool> is_maximum, takes_last;

    // The numbers are elements, of which a result has `length`.
    static constexpr std::size_t numbers_of_part = 65'536;
    std::size_t host_unit() const { return length; }
    void operator()(std::size_t) const {}  // for a CPU only

    void on_host(std::size_t first, std::size_t last) const {
        if (inner == 1 && (length >= long_row || last - first < few_rows * length)) {
            for (std::size_t i = first / length; i < last / length; ++i)
                to[i] = static_cast<std::int64_t>(kernels::row_math_of_this_processor().extreme_place(
                    x + i * length, length, is_maximum, takes_last));
            return;
        }
        for (std::size_t i = first / length, end = last / length; i < end;) {
            std::size_t count = std::min(end - i, row_math::most_columns);
            if (inner != 1) count = std::min(count, inner - i % inner);
            const float* const begin = x + i / inner * length * inner + i % inner;
            float most[row_math::most_columns];
            std::int32_t at[row_math::most_columns] = {};
            inner == 1 ? rows(begin, count, {most, at}) : columns(begin, count, {most, at});
            std::copy_n(at, count, to + i);
            i += count;
        }
    }

private:
    // Rows that are faster one by one than side by side.
    static constexpr std::size_t long_row = 128, few_rows = 16;

    void take(const float* row, std::size_t number, const row_math::extreme_columns& of, std::size_t count) const {
        if (number == 0) {
            std::copy_n(row, count, of.most);
            std::fill_n(of.at, count, 0);
        } else {
            kernels::row_math_of_this_processor().extreme_index(row, static_cast<std::int32_t>(number), is_maximum,
                                                                takes_last, of, count);
        }
    }
    void columns(const float* begin, std::size_t count, const row_math::extreme_columns& of) const {
        for (std::size_t r = 0; r < length; ++r) take(begin + r * inner, r, of, count);
    }
    void rows(const float* begin, std::size_t count, const row_math::extreme_columns& of) const {
        float turned[row_math::short_row * row_math::most_columns];
        for (std::size_t r = 0; r < length; r += row_math::short_row) {
            const std::size_t some = std::min(length - r, row_math::short_row);
            kernels::row_math_of_this_processor().turn(begin + r, length, turned, row_math::most_columns, count, some);
            for (std::size_t k = 0; k < some; ++k) take(turned + k * row_math::most_columns, r + k, of, count);
        }
    }
};

}  // namespace

bool extreme_index_on_cpu(const node_call& in, const any_tensor& x, const axis_view& view, const extreme_index& what,
                          const any_tensor& to) {
    constexpr std::size_t most_length = std::numeric_limits<std::int32_t>::max();
    if (is_on_gpu(in) || x.type() != io::dtype::f32 || x.elements() == 0 || view.length > most_length) return false;
    each(in, x.elements(),
         extreme_index_kernel{in.read<float>(x), in.write<std::int64_t>(to), view.length, view.inner, what.is_maximum,
                              what.takes_last},
         {&x}, {&to});
    return true;
}

}  // namespace sluice::nn::operators
