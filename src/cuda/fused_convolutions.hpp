// SPDX-License-Identifier: Apache-2.0
// Convolutions of f16 or bf16 images, channels last, with what follows them, each as one plan of cuDNN's graphs:
//
//     out = relu(convolved(x, filter) + addend + bias)
//
// where the addend, the bias and relu may be left out. Sums are f32.
//
// Thread safety: all members may be called on any thread.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

struct CUstream_st;

namespace sluice::cuda {

class device_context;

// Elements from an image, a row and a pixel to the next; those of a pixel are neighbours.
struct image_steps {
    std::int64_t image = 0, row = 0, pixel = 0;

    friend auto operator<=>(const image_steps&, const image_steps&) = default;
};

struct fused_convolution {
    bool is_bf16 = false;
    std::int64_t images = 0, channels = 0, height = 0, width = 0;
    std::int64_t filters = 0, filter_channels = 0, filter_height = 0, filter_width = 0;
    std::int64_t out_height = 0, out_width = 0;
    std::int64_t stride[2] = {1, 1}, dilation[2] = {1, 1};  // down, across
    std::int64_t before[2] = {0, 0}, after[2] = {0, 0};     // padding
    image_steps x, addend, out;
    std::int64_t alignment = 16;  // bytes: of all addresses
    bool has_addend = false, has_bias = false, has_relu = false;

    friend auto operator<=>(const fused_convolution&, const fused_convolution&) = default;
};

// All pointers are device memory: filter [filters, height, width, channels], bias [filters], of the type.
struct fused_operands {
    const void *x, *filter, *bias, *addend;
    void* out;
};

class fused_convolutions {
public:
    class plan;

    explicit fused_convolutions(device_context& of);
    fused_convolutions(const fused_convolutions&) = delete;  // it owns a handle
    fused_convolutions& operator=(const fused_convolutions&) = delete;
    ~fused_convolutions();

    bool is_installed() const noexcept { return state_ != nullptr; }
    // At most this many plans, the best first by cuDNN's heuristics; none where it has no suitable one. Only those
    // whose sums are f32, the same in each run, and of the outputs' own windows. May compile kernels, which takes some
    // 100 ms.
    std::vector<std::shared_ptr<const plan>> plans(const fused_convolution& of, std::size_t most) const;
    // Enqueues on the stream and does not block. Throws device_error.
    void run(const plan& with, const fused_operands& on, void* workspace, CUstream_st* stream) const;

    static std::size_t workspace_bytes(const plan& of) noexcept;
    static constexpr std::size_t most_workspace_bytes = std::size_t{128} << 20;  // of a plan
    static std::string text(const plan& of);                                     // "cuDNN engine 7"

private:
    struct state;
    std::unique_ptr<state> state_;  // null when cuDNN is not installed
};

}  // namespace sluice::cuda
