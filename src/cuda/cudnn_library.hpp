// SPDX-License-Identifier: Apache-2.0
// Convolutions and poolings by cuDNN on one GPU. The algorithm for each form is queried once and cached.
//
// There is one handle per device, bound to the stream of each call: creating a handle while a stream is captured into a
// graph is not possible.
//
// Thread safety: all members may be called on any thread.
#pragma once

#include <compare>
#include <cstddef>
#include <memory>
#include <optional>

struct CUstream_st;

namespace sluice::cuda {

// f32, dense; x is NCHW and the filter is KCRS.
struct cudnn_convolution {
    int images, channels, height, width;
    int filters, filter_channels, filter_height, filter_width;
    int out_height, out_width;
    int stride_down, stride_across, padding_down, padding_across, dilation_down, dilation_across;
    int groups;

    friend auto operator<=>(const cudnn_convolution&, const cudnn_convolution&) = default;
};

struct cudnn_pooling {
    int images, channels, height, width;
    int out_height, out_width;
    int window_down, window_across, stride_down, stride_across, padding_down, padding_across;
    bool counts_padding;

    friend auto operator<=>(const cudnn_pooling&, const cudnn_pooling&) = default;
};

class cudnn_library {
public:
    explicit cudnn_library(int ordinal);
    cudnn_library(const cudnn_library&) = delete;  // it owns a handle
    cudnn_library& operator=(const cudnn_library&) = delete;
    ~cudnn_library();

    bool is_installed() const noexcept { return state_ != nullptr; }
    // The scratch memory that the convolution needs; nullopt when cuDNN is not installed or has no suitable algorithm.
    std::optional<std::size_t> workspace_bytes(const cudnn_convolution& form);
    // Whether cuDNN is installed and supports this form.
    bool can_pool(const cudnn_pooling& form);

    // For supported forms only. They enqueue on the stream and do not block. All pointers are device memory. Throw
    // device_error.
    void convolve(const cudnn_convolution& form, const float* x, const float* filter, float* out, void* workspace,
                  std::size_t workspace_bytes, CUstream_st* stream);
    void pool(const cudnn_pooling& form, const float* x, float* out, CUstream_st* stream);

private:
    struct state;
    std::unique_ptr<state> state_;  // null when cuDNN is not installed
};

}  // namespace sluice::cuda
