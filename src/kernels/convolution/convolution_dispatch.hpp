// SPDX-License-Identifier: Apache-2.0
// The bodies of convolution: what the library of each device is asked to do, and im2col for where there is none.
#pragma once

#include <compare>
#include <cstddef>
#include <optional>

#include "sluice/base/kernel.hpp"
#include "sluice/kernels/activation.hpp"
#include "sluice/kernels/detail/window.hpp"
#include "sluice/runtime/command.hpp"
#include "sluice/runtime/detail/closure.hpp"
#include "sluice/runtime/tensor.hpp"

namespace sluice {
class device;
}

namespace sluice::kernels {

// transposed: each pixel of an image is spread over a window of the output, and the filter is
// [channels, filters / groups, height, width]. (Without padding bytes, which closures must not have.)
enum class convolution_kind : std::size_t { plain, transposed };

// What is convolved with what; only the padding, and what the library is not asked for, the channels, may be 0.
// Trivially copyable.
struct convolution_form {
    std::size_t images, channels, height, width;
    std::size_t filters, filter_height, filter_width;
    std::size_t out_height, out_width;
    size_2d stride, padding, dilation;  // padding: before the image; of a transposed one, cut off before the output
    std::size_t groups;
    convolution_kind kind = convolution_kind::plain;

    friend auto operator<=>(const convolution_form&, const convolution_form&) = default;

    // Of one output: how many products are summed. (Of a transposed one, at most.)
    SLUICE_KERNEL std::size_t products() const { return channels / groups * filter_height * filter_width; }
    // Of one image and filter.
    SLUICE_KERNEL std::size_t positions() const { return out_height * out_width; }
};

// All pointers are memory of the device, dense, as in convolution.hpp. Trivially copyable.
struct convolution_call {
    const float* x;
    const float* filter;
    const float* bias;  // or null
    float* out;
    void* workspace;
    std::size_t workspace_bytes;
    convolution_form form;
    activation after;
};

// How much scratch memory the device's library wants for it, in bytes; nothing when there is no such library here or it
// does not do this form.
std::optional<std::size_t> convolution_on_cpu_workspace_bytes(const convolution_form& form);
std::optional<std::size_t> convolution_on_cuda_workspace_bytes(const convolution_form& form, device& on);

// By the library, for a form that it does. On a CPU with bias and activation, all on a worker thread; on a GPU without
// both, enqueued on the native stream. Both throw device_error when the library refuses.
void convolution_on_cpu(const convolution_call& call);
void convolution_on_cuda(const convolution_call& call, const native_stream& on);

// As commands on a stream: im2col and gemm for as many images at a time as the workspace has room for, with bias and
// ReLU on the way to the output.
std::size_t im2col_workspace_bytes(const convolution_form& form, device_kind on);
void convolve_by_im2col(stream on, const convolution_form& form, const tensor<float>& x, const tensor<float>& filter,
                        const tensor<float>* bias, tensor<float>& out, bool has_relu, const source_location& location);

// How much scratch memory the device's library wants for this transposed convolution, in bytes; nothing when it does
// not do it. And the convolution with the bias, as one command on a stream.
std::optional<std::size_t> transposed_workspace_bytes(device& on, const convolution_form& form);
void convolve_transposed(stream on, const convolution_form& form, std::size_t workspace_bytes, const tensor<float>& x,
                         const tensor<float>& filter, const tensor<float>* bias, tensor<float>& out,
                         const source_location& location);

// As one command: bias[channel] is added to each channel of x in place (if there is a bias), then ReLU.
void add_bias(stream on, const convolution_form& form, const tensor<float>* bias, tensor<float>& x, bool has_relu,
              const source_location& location);

}  // namespace sluice::kernels

// None has an array of classes.
template <>
inline constexpr bool sluice::detail::can_clear_padding<sluice::kernels::convolution_call> =
    sluice::detail::compiler_clears_padding;
