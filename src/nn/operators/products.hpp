// SPDX-License-Identifier: Apache-2.0
// multiply: batches of matrix products of tensors whose rows, columns and batches have any strides.
#pragma once

#include <cstddef>

#include "nn/operators/node_call.hpp"

namespace sluice::nn::operators {

// y[batch, row, column] = sum over inner of a[batch, row, inner] * b[batch, inner, column]. Strides are in elements.
struct product_layout {
    static constexpr std::size_t max_rank = 8;

    std::size_t rows = 1, inner = 1, columns = 1;
    std::size_t a_row = 0, a_inner = 0, b_inner = 0, b_column = 0, y_row = 0, y_column = 0;
    std::size_t rank = 0;  // dimensions of the batch
    std::size_t batch[max_rank] = {}, a_batch[max_rank] = {}, b_batch[max_rank] = {}, y_batch[max_rank] = {};
};

// Adds a dimension to the batch, inside of those that are there. Refuses a ninth.
void add_batch(const node_call& in, product_layout& to, std::size_t length, std::size_t a, std::size_t b,
               std::size_t y);

// Whether multiply takes the type: floating point, and integers of 32 and 64 bits.
bool can_multiply(io::dtype type);

// All three have one type. On a device by gemm, where that can do it. The bias, if there is one, has `columns`
// elements, and is possible only where uses_gemm says so.
void multiply(const node_call& in, const any_tensor& a, const any_tensor& b, const any_tensor* bias,
              const any_tensor& y, const product_layout& layout);
bool uses_gemm(const node_call& in, const any_tensor& a, const any_tensor& b, const product_layout& layout);

// The shape of numpy's matmul of two shapes: the product's, without batches of length 1 that fit anything.
struct matmul_shapes {
    lengths a, b;   // with two dimensions at least
    lengths batch;  // of the product
    lengths output;
};
matmul_shapes shapes_of_matmul(const node_call& in, const any_tensor& a, const any_tensor& b);

// For dimension d of a batch of this rank: the stride of a tensor of this shape whose last two dimensions are a matrix;
// 0 where its length is 1 or it has no such dimension.
std::size_t batch_stride(std::span<const std::size_t> shape, std::size_t batch_rank, std::size_t d);

void einsum(node_call& in);
void integer_matmul(node_call& in);
void quantized_matmul(node_call& in);

}  // namespace sluice::nn::operators
