// SPDX-License-Identifier: Apache-2.0
// Products of quantized matrices: MatMulInteger and QLinearMatMul. Sums are 32-bit integers, which wrap.
#include <algorithm>
#include <cmath>
#include <type_traits>
#include <vector>

#include "kernels/gemm/integer_gemm.hpp"
#include "nn/operators/launch_each.hpp"
#include "nn/operators/products.hpp"
#include "nn/operators/typed_elements.hpp"

namespace sluice::nn::operators {
namespace {

constexpr std::size_t integer_max_rank = 8;

// A scale or zero point of a matrix: one number, or one for each row (or column), for each matrix of the batch.
struct matrix_quantity {
    number_list numbers;
    std::size_t batch[integer_max_rank] = {};
    std::size_t step = 0;

    SLUICE_KERNEL double operator()(const std::size_t* place, std::size_t rank, std::size_t i) const {
        std::size_t at = i * step;
        for (std::size_t d = 0; d < rank; ++d) at += place[d] * batch[d];
        return numbers[at];
    }
};

struct quantized_matrices {
    std::size_t rank = 0;
    std::size_t batch[integer_max_rank] = {}, a_batch[integer_max_rank] = {}, b_batch[integer_max_rank] = {};
    std::size_t rows = 0, inner = 0, columns = 0;
    matrix_quantity a_zero, b_zero, a_scale, b_scale;
    number_list y_scale, y_zero;
};

template <typename A, typename B>
struct integer_product {
    quantized_matrices of;
    const A* a;
    const B* b;
    void* y;
    in_word<io::dtype> y_type;  // i32: the sum itself

    struct matrix {
        std::size_t place[integer_max_rank] = {};  // in the batch
        const A* a;
        const B* b;
    };
    SLUICE_KERNEL matrix matrix_of(std::size_t number) const {
        matrix made{{}, a, b};
        for (std::size_t d = of.rank; d-- > 0;) {
            made.place[d] = number % of.batch[d];
            number /= of.batch[d];
            made.a += made.place[d] * of.a_batch[d];
            made.b += made.place[d] * of.b_batch[d];
        }
        return made;
    }

    SLUICE_KERNEL void operator()(std::size_t index) const {
        const std::size_t column = index % of.columns, row = index / of.columns % of.rows;
        const matrix at = matrix_of(index / of.columns / of.rows);
        const auto& place = at.place;
        const A* const left = at.a + row * of.inner;
        const B* const right = at.b + column;
        const auto a_zero = static_cast<std::int32_t>(of.a_zero(place, of.rank, row));
        const auto b_zero = static_cast<std::int32_t>(of.b_zero(place, of.rank, column));
        std::uint32_t sum = 0;
        for (std::size_t k = 0; k < of.inner; ++k) {
            const std::int32_t x = left[k] - a_zero, z = right[k * of.columns] - b_zero;
            sum += static_cast<std::uint32_t>(x * z);
        }
        give(index, place, row, column, static_cast<std::int32_t>(sum));
    }

    SLUICE_KERNEL void give(std::size_t index, const std::size_t* place, std::size_t row, std::size_t column,
                            std::int32_t made) const {
        if (y_type == io::dtype::i32) {
            static_cast<std::int32_t*>(y)[index] = made;
            return;
        }
        const double scale = of.a_scale(place, of.rank, row) * of.b_scale(place, of.rank, column) / of.y_scale[0];
        write_saturated(y, y_type, index, std::rint(made * scale) + of.y_zero[0]);
    }

    // Whole rows, as products of matrices. At least a million products at once; of unsigned b, which is copied for each
    // part, more rows.
    static constexpr std::size_t numbers_of_part = 8'192;
    static constexpr std::size_t most_rows = 64;  // of a product, whose sums stay in the cache
    std::size_t host_unit() const {
        constexpr std::size_t least_products = 1'000'000;
        const std::size_t of_row = std::max<std::size_t>(of.inner * of.columns, 1);
        return of.columns *
               std::max(std::is_signed_v<B> ? 1 : std::min(of.rows, most_rows), least_products / of_row + 1);
    }
    void on_host(std::size_t first, std::size_t last) const {
        for (std::size_t row = first / of.columns, end = last / of.columns; row < end;) {
            const std::size_t in_matrix = row % of.rows;
            const std::size_t count = std::min({end - row, of.rows - in_matrix, most_rows});
            if (!try_multiply_rows(row / of.rows, in_matrix, count)) {
                for (std::size_t i = row * of.columns; i < (row + count) * of.columns; ++i) (*this)(i);
            }
            row += count;
        }
    }
    // False too where there is no memory for it: the command cannot fail, and the slow way gives the same sums.
    bool try_multiply_rows(std::size_t number, std::size_t row, std::size_t count) const noexcept {
        try {
            return multiply_rows(number, row, count);
        } catch (...) {
            return false;
        }
    }
    bool multiply_rows(std::size_t number, std::size_t row, std::size_t count) const {
        if (of.inner == 0 || of.a_zero.step != 0) return false;
        const matrix at = matrix_of(number);
        const A* const left = at.a + row * of.inner;
        const std::size_t index = (number * of.rows + row) * of.columns;
        const bool is_sum = y_type == io::dtype::i32, is_one_zero = of.b_zero.step == 0;
        thread_local std::vector<std::int32_t> others;
        if (!is_sum && others.size() < count * of.columns) others.resize(count * of.columns);
        std::int32_t* const sums = is_sum ? static_cast<std::int32_t*>(y) + index : others.data();
        const auto a_zero = static_cast<std::int32_t>(of.a_zero(at.place, of.rank, 0));
        const auto b_zero = is_one_zero ? static_cast<std::int32_t>(of.b_zero(at.place, of.rank, 0)) : 0;
        const kernels::byte_matrix by_rows{left, std::is_signed_v<A>, a_zero},
            by_columns{at.b, std::is_signed_v<B>, b_zero};
        if (!kernels::multiply_bytes_on_cpu(by_rows, by_columns, count, of.inner, of.columns, sums)) return false;
        for (std::size_t r = 0; r < count; ++r) {
            std::int32_t* const made = sums + r * of.columns;
            if (!is_one_zero) {  // a zero point of each column: times what the row sums up to
                std::uint32_t sum = 0;
                for (std::size_t k = 0; k < of.inner; ++k)
                    sum += static_cast<std::uint32_t>(left[r * of.inner + k] - a_zero);
                for (std::size_t c = 0; c < of.columns; ++c) {
                    const auto zero =
                        static_cast<std::uint32_t>(static_cast<std::int32_t>(of.b_zero(at.place, of.rank, c)));
                    made[c] = static_cast<std::int32_t>(static_cast<std::uint32_t>(made[c]) - sum * zero);
                }
            }
            for (std::size_t c = 0; c < of.columns && !is_sum; ++c)
                give(index + r * of.columns + c, at.place, row + r, c, made[c]);
        }
        return true;
    }
};

bool is_byte_integer(const any_tensor& x) { return x.type() == io::dtype::i8 || x.type() == io::dtype::u8; }

// For rows of the left matrix, or columns of the right one.
matrix_quantity quantity_of(const node_call& in, std::size_t input, double otherwise, const matmul_shapes& shapes,
                            bool is_left) {
    matrix_quantity made{.numbers = numbers_from(in, input, otherwise)};
    if (!in.has_input(input) || made.numbers.is_one) return made;
    const any_tensor& x = in.input(input);
    const lengths& matrix = is_left ? shapes.a : shapes.b;
    const std::size_t count = is_left ? matrix[matrix.size() - 2] : matrix.back();
    lengths own = x.shape();
    if (own.size() == 1) own.insert(is_left ? own.end() : own.begin(), 1);
    const std::size_t rank = own.size();
    bool fits = rank >= 2 && rank <= matrix.size() && own[rank - (is_left ? 2 : 1)] == count &&
                own[rank - (is_left ? 1 : 2)] == 1;
    for (std::size_t d = 0; fits && d + 2 < rank; ++d) fits = own[d] == 1 || own[d] == matrix[matrix.size() - rank + d];
    if (!fits) {
        in.refuse_shapes("has the scale or zero point " + to_string(x) + " for a matrix " +
                         to_string(std::span(matrix)));
    }
    made.step = 1;
    for (std::size_t d = 0; d < shapes.batch.size(); ++d) made.batch[d] = batch_stride(own, shapes.batch.size(), d);
    return made;
}

void require_integer_factors(const node_call& in, std::size_t a, std::size_t b) {
    if (!is_byte_integer(in.input(a))) in.refuse_type(in.input(a));
    if (!is_byte_integer(in.input(b))) in.refuse_type(in.input(b));
}

quantized_matrices matrices_of(const node_call& in, const matmul_shapes& shapes) {
    quantized_matrices made;
    made.rows = shapes.a[shapes.a.size() - 2];
    made.inner = shapes.a.back();
    made.columns = shapes.b.back();
    made.rank = shapes.batch.size();
    if (made.rank > integer_max_rank) in.refuse_unsupported("has a batch of more than eight dimensions");
    for (std::size_t d = 0; d < made.rank; ++d) {
        made.batch[d] = shapes.batch[d];
        made.a_batch[d] = batch_stride(shapes.a, made.rank, d);
        made.b_batch[d] = batch_stride(shapes.b, made.rank, d);
    }
    return made;
}

void run_integer_product(const node_call& in, const any_tensor& a, const any_tensor& b, const any_tensor& y,
                         const quantized_matrices& of, std::initializer_list<const any_tensor*> reads) {
    const auto run = [&]<typename A, typename B>() {
        each(in, y.elements(), integer_product<A, B>{of, in.read<A>(a), in.read<B>(b), in.write<void>(y), y.type()},
             reads, {&y});
    };
    const bool is_a_signed = a.type() == io::dtype::i8, is_b_signed = b.type() == io::dtype::i8;
    if (is_a_signed) {
        is_b_signed ? run.operator()<std::int8_t, std::int8_t>() : run.operator()<std::int8_t, std::uint8_t>();
    } else {
        is_b_signed ? run.operator()<std::uint8_t, std::int8_t>() : run.operator()<std::uint8_t, std::uint8_t>();
    }
}

}  // namespace

void integer_matmul(node_call& in) {
    require_integer_factors(in, 0, 1);
    const any_tensor &a = in.input(0), &b = in.input(1);
    for (std::size_t i = 2; i < 4; ++i) {
        if (in.has_input(i) && in.input(i).type() != in.input(i - 2).type())
            in.refuse("has a zero point of another type than its matrix");
    }
    const matmul_shapes shapes = shapes_of_matmul(in, a, b);
    quantized_matrices of = matrices_of(in, shapes);
    of.a_zero = quantity_of(in, 2, 0, shapes, true);
    of.b_zero = quantity_of(in, 3, 0, shapes, false);
    const any_tensor& y = in.make_output(0, io::dtype::i32, shapes.output);
    run_integer_product(in, a, b, y, of,
                        {&a, &b, in.has_input(2) ? &in.input(2) : &a, in.has_input(3) ? &in.input(3) : &b});
}

void quantized_matmul(node_call& in) {
    require_integer_factors(in, 0, 3);
    const any_tensor &a = in.input(0), &b = in.input(3);
    for (std::size_t i = 0; i < 8; ++i)
        if (!in.has_input(i)) in.refuse("has a scale or zero point left out");
    for (const std::size_t i : {1, 4, 6})
        if (!is_float(in.input(i).type())) in.refuse_type(in.input(i));
    if (in.input(2).type() != a.type() || in.input(5).type() != b.type())
        in.refuse("has a zero point of another type than its matrix");
    if (!is_byte_integer(in.input(7))) in.refuse_type(in.input(7));
    if (in.input(6).elements() != 1 || in.input(7).elements() != 1)
        in.refuse_unsupported("has more than one scale or zero point for its output");
    const matmul_shapes shapes = shapes_of_matmul(in, a, b);
    quantized_matrices of = matrices_of(in, shapes);
    of.a_scale = quantity_of(in, 1, 1, shapes, true);
    of.a_zero = quantity_of(in, 2, 0, shapes, true);
    of.b_scale = quantity_of(in, 4, 1, shapes, false);
    of.b_zero = quantity_of(in, 5, 0, shapes, false);
    of.y_scale = numbers_from(in, 6, 1);
    of.y_zero = numbers_from(in, 7, 0);
    const any_tensor& y = in.make_output(0, in.input(7).type(), shapes.output);
    run_integer_product(in, a, b, y, of,
                        {&a, &b, &in.input(1), &in.input(2), &in.input(4), &in.input(5), &in.input(6), &in.input(7)});
}

}  // namespace sluice::nn::operators
