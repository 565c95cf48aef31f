// SPDX-License-Identifier: Apache-2.0
// Products of the pixels of images, channels last, by one matrix, by cuBLASLt, with what follows them:
//
//     out[row] = relu(filter * x[row] + addend[row] + bias)
//
// x, addend and out are f16 or bf16 [rows, a number of the elements of a pixel]; the addend and relu may be left out.
// Sums are f32. Relu may turn NaN into 0.
//
// Thread safety: all members may be called on any thread.
#pragma once

#include <compare>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

struct CUstream_st;

namespace sluice::cuda {

class device_context;

struct pixel_product {
    bool is_bf16 = false;
    std::size_t rows = 0, inner = 0, columns = 0;
    std::size_t x_pixel = 0, addend_pixel = 0, out_pixel = 0;  // elements from one row to the next
    std::size_t alignment = 16;                                // bytes: of all addresses
    bool has_addend = false, has_relu = false;

    friend auto operator<=>(const pixel_product&, const pixel_product&) = default;
};

struct pixel_operands {
    const void *x, *filter, *bias, *addend;  // filter is [columns, inner], bias [columns]
    void* out;
};

class pixel_products {
public:
    class plan;

    // Opens cuBLASLt. Throws errc::unsupported when it is not installed.
    explicit pixel_products(device_context& of);

    // At most this many plans, the best first by cuBLASLt's heuristics; none where it has none.
    std::vector<std::shared_ptr<const plan>> plans(const pixel_product& of, std::size_t most) const;
    // Enqueues on the stream and does not block. Throws device_error.
    void run(const plan& with, const pixel_operands& on, void* workspace, CUstream_st* stream) const;

    static constexpr std::size_t workspace_bytes = std::size_t{32} << 20;

private:
    device_context& of_;
};

}  // namespace sluice::cuda
