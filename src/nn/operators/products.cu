// SPDX-License-Identifier: Apache-2.0
// Matrix products: MatMul and Gemm, and what Einsum is made of.
#include "nn/operators/products.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>
#include <optional>
#include <type_traits>

#include "nn/operators/expression.hpp"
#include "nn/operators/launch_each.hpp"
#include "nn/operators/products_on_cpu.hpp"
#include "nn/operators/reduce.hpp"
#include "nn/operators/table.hpp"
#include "sluice/kernels/gemm.hpp"
#include "sluice/runtime/device.hpp"

namespace sluice::nn::operators {
namespace {

// --- the kernel --------------------------------------------------------------------------------------------------

// Sums of 16-bit floating point are float. Integers are unsigned here: they wrap, as numpy's do.
template <typename T>
struct product_tile {
    static constexpr std::size_t side = 4;

    product_layout at;
    std::size_t tiles_down, tiles_across;
    const T* a;
    const T* b;
    T* y;

    // A tile of 4 by 4 elements. Rows and columns beyond the end repeat the last one, and are not written.
    SLUICE_KERNEL void operator()(std::size_t index) const {
        using number = computed<T>;
        const std::size_t column = index % tiles_across * side;
        index /= tiles_across;
        const std::size_t row = index % tiles_down * side;
        index /= tiles_down;
        const T* from_a = a;
        const T* from_b = b;
        T* to = y;
        for (std::size_t d = at.rank; d-- > 0;) {
            const std::size_t i = index % at.batch[d];
            index /= at.batch[d];
            from_a += i * at.a_batch[d];
            from_b += i * at.b_batch[d];
            to += i * at.y_batch[d];
        }
        const T* of_row[side];
        const T* of_column[side];
        for (std::size_t i = 0; i < side; ++i) {
            of_row[i] = from_a + (row + i < at.rows ? row + i : at.rows - 1) * at.a_row;
            of_column[i] = from_b + (column + i < at.columns ? column + i : at.columns - 1) * at.b_column;
        }
        number sums[side][side] = {};
        for (std::size_t k = 0; k < at.inner; ++k) {
            number left[side], right[side];
            for (std::size_t i = 0; i < side; ++i) {
                left[i] = static_cast<number>(of_row[i][k * at.a_inner]);
                right[i] = static_cast<number>(of_column[i][k * at.b_inner]);
            }
            for (std::size_t i = 0; i < side; ++i)
                for (std::size_t j = 0; j < side; ++j) sums[i][j] += left[i] * right[j];
        }
        for (std::size_t i = 0; i < side && row + i < at.rows; ++i) {
            for (std::size_t j = 0; j < side && column + j < at.columns; ++j)
                to[(row + i) * at.y_row + (column + j) * at.y_column] = static_cast<T>(sums[i][j]);
        }
    }
};

#if defined(__CUDACC__)
constexpr unsigned product_side = 64, product_depth = 16, product_threads = 256;

// A block makes 64 by 64 elements of one product, a thread 4 by 4 of them. The parts of both matrices that it is at are
// in shared memory, read in the order in which they lie. Each sum goes over the inner dimension in its order.
template <typename T>
__global__ void __launch_bounds__(product_threads)
    multiply_on_device(const __grid_constant__ each_closure<product_tile<T>> all) {
    constexpr unsigned pitch = product_side + 4, of_thread = product_side * product_depth / product_threads;
    __shared__ __align__(16) float left[product_depth][pitch];
    __shared__ __align__(16) float right[product_depth][pitch];
    const product_tile<T>& of = all.kernel;
    const product_layout& at = of.at;
    const std::size_t across = (at.columns + product_side - 1) / product_side;
    const std::size_t down = (at.rows + product_side - 1) / product_side;
    const unsigned of_rows = threadIdx.x / 16 * 4, of_columns = threadIdx.x % 16 * 4;
    for (std::size_t block = blockIdx.x; block < all.count; block += gridDim.x) {
        std::size_t rest = block;
        const std::size_t column = rest % across * product_side;
        rest /= across;
        const std::size_t row = rest % down * product_side;
        rest /= down;
        const T* a = of.a;
        const T* b = of.b;
        T* y = of.y;
        for (std::size_t d = at.rank; d-- > 0;) {
            const std::size_t i = rest % at.batch[d];
            rest /= at.batch[d];
            a += i * at.a_batch[d];
            b += i * at.b_batch[d];
            y += i * at.y_batch[d];
        }
        float sums[4][4] = {};
        for (std::size_t first = 0; first < at.inner; first += product_depth) {
            for (unsigned e = 0; e < of_thread; ++e) {
                const unsigned id = threadIdx.x + e * product_threads;
                const unsigned of_inner[2] = {id % product_depth, id / product_side};
                const unsigned of_side[2] = {id / product_depth, id % product_side};
                const bool a_across = at.a_inner != 1, b_across = at.b_inner != 1;
                const std::size_t ka = first + of_inner[a_across], r = row + of_side[a_across];
                const std::size_t kb = first + of_inner[b_across], c = column + of_side[b_across];
                left[of_inner[a_across]][of_side[a_across]] =
                    ka < at.inner && r < at.rows ? static_cast<float>(a[r * at.a_row + ka * at.a_inner]) : 0.0f;
                right[of_inner[b_across]][of_side[b_across]] =
                    kb < at.inner && c < at.columns ? static_cast<float>(b[c * at.b_column + kb * at.b_inner]) : 0.0f;
            }
            __syncthreads();
            for (unsigned k = 0; k < product_depth; ++k) {
                const float4 x = *reinterpret_cast<const float4*>(&left[k][of_rows]);
                const float4 w = *reinterpret_cast<const float4*>(&right[k][of_columns]);
                const float of_x[4] = {x.x, x.y, x.z, x.w}, of_w[4] = {w.x, w.y, w.z, w.w};
                for (unsigned i = 0; i < 4; ++i)
                    for (unsigned j = 0; j < 4; ++j) sums[i][j] += of_x[i] * of_w[j];
            }
            __syncthreads();
        }
        for (unsigned i = 0; i < 4 && row + of_rows + i < at.rows; ++i) {
            for (unsigned j = 0; j < 4 && column + of_columns + j < at.columns; ++j)
                y[(row + of_rows + i) * at.y_row + (column + of_columns + j) * at.y_column] =
                    static_cast<T>(sums[i][j]);
        }
    }
}
#endif

// By the tiles of single threads: the closure counts the blocks of a GPU.
template <typename T>
void multiply_on_host(const void* erased) {
    auto all = *static_cast<const each_closure<product_tile<T>>*>(erased);
    all.count = all.kernel.tiles_down * all.kernel.tiles_across;
    for (std::size_t d = 0; d < all.kernel.at.rank; ++d) all.count *= all.kernel.at.batch[d];
    each_on_host<product_tile<T>>(&all);
}

// One command for all products of a batch. Small matrices are made by single threads.
template <typename T>
void multiply_in_blocks(const node_call& in, const product_tile<T>& kernel, const any_tensor& a, const any_tensor& b,
                        const any_tensor& y) {
    launch_command command;
    each_closure<product_tile<T>> closure{0, kernel};
#if defined(__CUDACC__)
    const product_layout& at = kernel.at;
    closure.count = (at.rows + product_side - 1) / product_side * ((at.columns + product_side - 1) / product_side);
    for (std::size_t d = 0; d < at.rank; ++d) closure.count *= at.batch[d];
    command.device_function = reinterpret_cast<const void*>(&multiply_on_device<T>);
    command.block = {product_threads, 1, 1};
    command.grid.x = static_cast<unsigned>(std::min<std::size_t>(closure.count, 1u << 20));
#endif
    command.host_function = &multiply_on_host<T>;
    sluice::detail::set_closure(command, closure);
    detail::submit(in, command, {&a, &b}, {&y});
}

// y[i, j] = x[j, i]
template <typename T>
struct product_transposed {
    const T* x;
    T* y;
    std::size_t rows, columns;  // of y

    SLUICE_KERNEL void operator()(std::size_t i) const { y[i] = x[i % columns * rows + i / columns]; }
};

any_tensor transposed_matrix(const node_call& in, const any_tensor& x, std::size_t rows, std::size_t columns) {
    any_tensor y = in.make(x.type(), {rows, columns});
    with_word(x.type(), [&]<typename T>() {
        each(in, y.elements(), product_transposed<T>{in.read<T>(x), in.write<T>(y), rows, columns}, {&x}, {&y});
    });
    return y;
}

// --- gemm --------------------------------------------------------------------------------------------------------

enum class matrix_form : unsigned char { plain, transposed };

// How a matrix lies in memory; empty for neither.
std::optional<matrix_form> form_of(std::size_t rows, std::size_t columns, std::size_t row_stride,
                                   std::size_t column_stride) {
    if ((column_stride == 1 || columns == 1) && (row_stride == columns || rows == 1)) return matrix_form::plain;
    if ((row_stride == 1 || rows == 1) && (column_stride == rows || columns == 1)) return matrix_form::transposed;
    return {};
}

template <typename T>
tensor<T> matrix_of(const any_tensor& x, std::size_t rows, std::size_t columns) {
    return tensor<T>(buffer<T>(x.shared_memory(), x.elements()), shape{rows, columns});
}

template <typename T>
void multiply_by_gemm(const node_call& in, const any_tensor& a, const any_tensor& b, const any_tensor* bias,
                      const any_tensor& y, const product_layout& at) {
    const bool is_b_transposed = *form_of(at.inner, at.columns, at.b_inner, at.b_column) == matrix_form::transposed;
    const any_tensor plain = form_of(at.rows, at.inner, at.a_row, at.a_inner) == matrix_form::plain
                                 ? a
                                 : transposed_matrix(in, a, at.rows, at.inner);
    const auto left = matrix_of<T>(plain, at.rows, at.inner);
    const auto right = is_b_transposed ? matrix_of<T>(b, at.columns, at.inner) : matrix_of<T>(b, at.inner, at.columns);
    auto out = matrix_of<T>(y, at.rows, at.columns);
    std::optional<tensor<T>> added;
    if (bias != nullptr) added.emplace(buffer<T>(bias->shared_memory(), at.columns), shape{at.columns});
    gemm(in.context().stream(), left, right, added ? &*added : nullptr, out, {.transpose_b = is_b_transposed});
}

void multiply_by_gemm(const node_call& in, const any_tensor& a, const any_tensor& b, const any_tensor* bias,
                      const any_tensor& y, const product_layout& at) {
    switch (a.type()) {
        case io::dtype::f16: return multiply_by_gemm<half>(in, a, b, bias, y, at);
        case io::dtype::bf16: return multiply_by_gemm<bfloat16>(in, a, b, bias, y, at);
        default: return multiply_by_gemm<float>(in, a, b, bias, y, at);
    }
}

// --- batches of large matrices -----------------------------------------------------------------------------------

bool is_gemm_type(io::dtype type) {
    return type == io::dtype::f32 || type == io::dtype::f16 || type == io::dtype::bf16;
}

// Whether the matrices of a batch are few, and so large that copies of them, for gemm, are cheap. A GPU multiplies
// small ones sooner than it starts the commands for them.
bool is_worth_copies(const node_call& in, const any_tensor& a, const product_layout& at) {
    if (in.where() != place::device || !is_gemm_type(a.type()) || at.rank == 0) return false;
    if (form_of(at.rows, at.inner, at.a_row, at.a_inner) != matrix_form::plain ||
        form_of(at.rows, at.columns, at.y_row, at.y_column) != matrix_form::plain ||
        !form_of(at.inner, at.columns, at.b_inner, at.b_column)) {
        return false;
    }
    const bool is_gpu = in.context().device().kind() == device_kind::cuda;
    std::size_t count = 1;
    for (std::size_t d = 0; d < at.rank; ++d) count *= at.batch[d];
    const double work = static_cast<double>(at.rows) * static_cast<double>(at.inner) * static_cast<double>(at.columns);
    return is_gpu ? count <= 16 && work >= 16e6 : count <= 1024 && work >= 0.25e6;
}

void copy_matrix(const node_call& in, const any_tensor& from, std::size_t from_element, const any_tensor& to,
                 std::size_t to_element, std::size_t elements) {
    const std::size_t size = io::size_of(from.type());
    const std::array accesses{memory_access{from.memory(), access_mode::read},
                              memory_access{to.memory(), access_mode::write}};
    in.context().stream().copy({in.name(), accesses},
                               {.destination = static_cast<std::byte*>(to.memory()->data()) + to_element * size,
                                .source = static_cast<const std::byte*>(from.memory()->data()) + from_element * size,
                                .bytes = elements * size,
                                .direction = copy_direction::device_to_device});
}

void multiply_copies(const node_call& in, const any_tensor& a, const any_tensor& b, const any_tensor& y,
                     const product_layout& at) {
    product_layout one = at;
    one.rank = 0;
    std::size_t count = 1;
    for (std::size_t d = 0; d < at.rank; ++d) count *= at.batch[d];
    for (std::size_t i = 0; i < count; ++i) {
        std::size_t rest = i, of_a = 0, of_b = 0, of_y = 0;
        for (std::size_t d = at.rank; d-- > 0;) {
            const std::size_t place = rest % at.batch[d];
            rest /= at.batch[d];
            of_a += place * at.a_batch[d];
            of_b += place * at.b_batch[d];
            of_y += place * at.y_batch[d];
        }
        const any_tensor left = in.make(a.type(), {at.rows, at.inner}),
                         right = in.make(b.type(), {at.inner, at.columns}),
                         made = in.make(y.type(), {at.rows, at.columns});
        copy_matrix(in, a, of_a, left, 0, left.elements());
        copy_matrix(in, b, of_b, right, 0, right.elements());
        multiply_by_gemm(in, left, right, nullptr, made, one);
        copy_matrix(in, made, 0, y, of_y, made.elements());
    }
}

}  // namespace

// --- multiply ----------------------------------------------------------------------------------------------------

void add_batch(const node_call& in, product_layout& to, std::size_t length, std::size_t a, std::size_t b,
               std::size_t y) {
    if (length == 1) return;
    if (to.rank == product_layout::max_rank) in.refuse_unsupported("has a batch of more than eight dimensions");
    to.batch[to.rank] = length;
    to.a_batch[to.rank] = a;
    to.b_batch[to.rank] = b;
    to.y_batch[to.rank] = y;
    ++to.rank;
}

bool can_multiply(io::dtype type) {
    using enum io::dtype;
    return is_float(type) || type == i32 || type == u32 || type == i64 || type == u64;
}

bool uses_gemm(const node_call& in, const any_tensor& a, const any_tensor& b, const product_layout& at) {
    if (in.where() != place::device || at.rank != 0) return false;
    if (!is_gemm_type(a.type())) return false;
    return a.elements() == at.rows * at.inner && b.elements() == at.inner * at.columns &&
           form_of(at.rows, at.inner, at.a_row, at.a_inner) && form_of(at.inner, at.columns, at.b_inner, at.b_column) &&
           form_of(at.rows, at.columns, at.y_row, at.y_column) == matrix_form::plain;
}

void multiply(const node_call& in, const any_tensor& a, const any_tensor& b, const any_tensor* bias,
              const any_tensor& y, const product_layout& at) {
    if (y.elements() == 0 || in.where() == place::nowhere) return;
    if (uses_gemm(in, a, b, at)) return multiply_by_gemm(in, a, b, bias, y, at);
    if (multiply_on_cpu(in, a, b, y, at)) return;
    if (is_worth_copies(in, a, at)) return multiply_copies(in, a, b, y, at);
    const auto run = [&]<typename T>() {
        constexpr std::size_t side = product_tile<T>::side;
        std::size_t count = (at.rows + side - 1) / side * ((at.columns + side - 1) / side);
        for (std::size_t d = 0; d < at.rank; ++d) count *= at.batch[d];
        const product_tile<T> kernel{at,
                                     (at.rows + side - 1) / side,
                                     (at.columns + side - 1) / side,
                                     in.read<T>(a),
                                     in.read<T>(b),
                                     in.write<T>(y)};
        if constexpr (std::is_same_v<computed<T>, float>) {
            constexpr std::size_t least_rows = 8, least_columns = 16;
            if (is_on_gpu(in) && at.rows >= least_rows && at.columns >= least_columns)
                return multiply_in_blocks(in, kernel, a, b, y);
        }
        each(in, count, kernel, {&a, &b}, {&y});
    };
    switch (a.type()) {
        case io::dtype::f16: return run.operator()<half>();
        case io::dtype::bf16: return run.operator()<bfloat16>();
        case io::dtype::f32: return run.operator()<float>();
        case io::dtype::f64: return run.operator()<double>();
        case io::dtype::i32:
        case io::dtype::u32: return run.operator()<std::uint32_t>();
        case io::dtype::i64:
        case io::dtype::u64: return run.operator()<std::uint64_t>();
        default: in.refuse_type(a);
    }
}

// --- shapes of matmul --------------------------------------------------------------------------------------------

matmul_shapes shapes_of_matmul(const node_call& in, const any_tensor& a, const any_tensor& b) {
    matmul_shapes made{a.shape(), b.shape(), {}, {}};
    if (made.a.empty() || made.b.empty()) in.refuse_shapes("multiplies a tensor without dimensions");
    if (made.a.size() == 1) made.a.insert(made.a.begin(), 1);
    if (made.b.size() == 1) made.b.push_back(1);
    const std::size_t rank_a = made.a.size(), rank_b = made.b.size();
    if (made.a[rank_a - 1] != made.b[rank_b - 2])
        in.refuse_shapes("multiplies " + to_string(a) + " by " + to_string(b) + ", which do not fit");
    made.batch = broadcast(in, std::span(made.a).first(rank_a - 2), std::span(made.b).first(rank_b - 2));
    made.output = made.batch;
    if (a.shape().size() > 1) made.output.push_back(made.a[rank_a - 2]);
    if (b.shape().size() > 1) made.output.push_back(made.b[rank_b - 1]);
    return made;
}

std::size_t batch_stride(std::span<const std::size_t> shape, std::size_t batch_rank, std::size_t d) {
    const std::size_t own = shape.size() - 2, missing = batch_rank - own;
    if (d < missing || shape[d - missing] == 1) return 0;
    return product_of(shape.subspan(d - missing + 1));
}

namespace {

// --- MatMul ------------------------------------------------------------------------------------------------------

void matmul(node_call& in) {
    const any_tensor &a = in.input(0), &b = in.input(1);
    if (!can_multiply(a.type())) in.refuse_type(a);
    if (a.type() != b.type()) in.refuse("multiplies " + to_string(a) + " by " + to_string(b));
    const matmul_shapes shapes = shapes_of_matmul(in, a, b);
    const any_tensor& y = in.make_output(0, a.type(), shapes.output);
    product_layout at;
    at.rows = shapes.a[shapes.a.size() - 2];
    at.inner = shapes.a.back();
    at.columns = shapes.b.back();
    at.a_row = at.inner;
    at.b_inner = at.y_row = at.columns;
    at.a_inner = at.b_column = at.y_column = 1;
    if (b.elements() == at.inner * at.columns && at.columns != 0) {
        // One matrix on the right: all rows on the left are one matrix.
        at.rows = y.elements() / at.columns;
    } else {
        std::size_t y_stride = y.elements();
        for (std::size_t d = 0; d < shapes.batch.size() && y_stride != 0; ++d) {
            y_stride /= shapes.batch[d];
            add_batch(in, at, shapes.batch[d], batch_stride(shapes.a, shapes.batch.size(), d),
                      batch_stride(shapes.b, shapes.batch.size(), d), y_stride);
        }
    }
    multiply(in, a, b, nullptr, y, at);
}

// --- Gemm --------------------------------------------------------------------------------------------------------

any_tensor gemm_operand_as_f32(node_call& in, const any_tensor& x) {
    if (x.type() != io::dtype::f16 && x.type() != io::dtype::bf16) return x;
    any_tensor made = in.make(io::dtype::f32, x.shape());
    expression e(in);
    e.give(made, e.input(x));
    e.run();
    return made;
}

// y = alpha * product + beta * c
void gemm_node(node_call& in) {
    const any_tensor &a = in.input(0), &b = in.input(1);
    if (!can_multiply(a.type())) in.refuse_type(a);
    const bool has_c = in.has_input(2);
    if (a.type() != b.type() || (has_c && in.input(2).type() != a.type()))
        in.refuse("multiplies and adds tensors of different types");
    if (a.shape().size() != 2 || b.shape().size() != 2)
        in.refuse_shapes("multiplies " + to_string(a) + " by " + to_string(b) + "; both have to be matrices");
    const bool is_a_transposed = in.integer("transA", 0) != 0, is_b_transposed = in.integer("transB", 0) != 0;
    const float alpha = in.real("alpha", 1), beta = in.real("beta", 1);
    if (!is_float(a.type()) && (alpha != std::trunc(alpha) || beta != std::trunc(beta)))
        in.refuse_unsupported("multiplies integers by an alpha or beta that is no whole number");
    product_layout at;
    at.rows = a.shape()[is_a_transposed ? 1 : 0];
    at.inner = a.shape()[is_a_transposed ? 0 : 1];
    at.columns = b.shape()[is_b_transposed ? 0 : 1];
    if (b.shape()[is_b_transposed ? 1 : 0] != at.inner)
        in.refuse_shapes("multiplies " + to_string(a) + " by " + to_string(b) + ", which do not fit");
    (is_a_transposed ? at.a_inner : at.a_row) = a.shape()[1];
    (is_a_transposed ? at.a_row : at.a_inner) = 1;
    (is_b_transposed ? at.b_column : at.b_inner) = b.shape()[1];
    (is_b_transposed ? at.b_inner : at.b_column) = 1;
    at.y_row = at.columns;
    at.y_column = 1;
    const lengths made{at.rows, at.columns};
    if (has_c && broadcast(in, in.input(2).shape(), made) != made)
        in.refuse_shapes("adds " + to_string(in.input(2)) + " to a matrix " + to_string(std::span(made)));
    const bool adds_c = has_c && beta != 0;
    if (alpha == 1 && !adds_c) return multiply(in, a, b, nullptr, in.make_output(0, a.type(), made), at);
    // One number for each column is gemm's bias.
    if (alpha == 1 && beta == 1 && in.input(2).elements() == at.columns && !in.input(2).shape().empty() &&
        in.input(2).shape().back() == at.columns && uses_gemm(in, a, b, at)) {
        return multiply(in, a, b, &in.input(2), in.make_output(0, a.type(), made), at);
    }
    // Products of 16-bit floating point are not rounded before they are scaled.
    const any_tensor left = gemm_operand_as_f32(in, a), right = gemm_operand_as_f32(in, b);
    const any_tensor product = in.make(left.type(), made);
    multiply(in, left, right, nullptr, product, at);
    expression e(in);
    const expression::value read = e.input(product);
    std::optional<expression::value> c;
    if (adds_c) c = e.input(in.input(2));
    expression::value sum = alpha == 1 ? read : e.apply(opcode::multiply, read, e.constant(alpha));
    if (c) sum = e.apply(opcode::add, sum, beta == 1 ? *c : e.apply(opcode::multiply, *c, e.constant(beta)));
    e.give(0, a.type(), sum);
    e.run();
}

}  // namespace

std::span<const definition> products() {
    static const std::vector<definition> known = {
        {.name = "MatMul", .least_inputs = 2, .most_inputs = 2, .most_outputs = 1, .attributes = {}, .run = &matmul},
        // What the attribute broadcast permits is permitted always.
        {.name = "Gemm",
         .least_inputs = 3,
         .most_inputs = 3,
         .most_outputs = 1,
         .attributes = {"alpha", "beta", "broadcast", "transA", "transB"},
         .run = &gemm_node,
         .until = 6},
        {.name = "Gemm",
         .least_inputs = 2,
         .most_inputs = 3,
         .most_outputs = 1,
         .attributes = {"alpha", "beta", "transA", "transB"},
         .run = &gemm_node,
         .since = 7},
        {.name = "Einsum",
         .least_inputs = 1,
         .most_inputs = any_number,
         .most_outputs = 1,
         .attributes = {"equation"},
         .run = &einsum,
         .since = 12},
        {.name = "MatMulInteger",
         .least_inputs = 2,
         .most_inputs = 4,
         .most_outputs = 1,
         .attributes = {},
         .run = &integer_matmul,
         .since = 10},
        {.name = "QLinearMatMul",
         .least_inputs = 8,
         .most_inputs = 8,
         .most_outputs = 1,
         .attributes = {},
         .run = &quantized_matmul,
         .since = 10},
    };
    return known;
}

}  // namespace sluice::nn::operators
