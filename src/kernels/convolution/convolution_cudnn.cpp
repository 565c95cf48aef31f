// SPDX-License-Identifier: Apache-2.0
// Convolution and pooling to averages on a GPU by cuDNN.
#include <limits>

#include "cuda/cudnn_library.hpp"
#include "kernels/convolution/convolution_dispatch.hpp"
#include "kernels/convolution/pooling_dispatch.hpp"
#include "sluice/cuda/device_context.hpp"

namespace sluice::kernels {
namespace {

// cuDNN counts in int; `fits` says whether all counts are in its range.
struct int_counter {
    bool fits = true;

    int operator()(std::size_t size) {
        fits = fits && size <= static_cast<std::size_t>(std::numeric_limits<int>::max());
        return static_cast<int>(size);
    }
};

std::optional<cuda::cudnn_convolution> cudnn_form(const convolution_form& form) {
    int_counter count;
    const cuda::cudnn_convolution made{
        count(form.images),         count(form.channels),      count(form.height),
        count(form.width),          count(form.filters),       count(form.channels / form.groups),
        count(form.filter_height),  count(form.filter_width),  count(form.out_height),
        count(form.out_width),      count(form.stride.height), count(form.stride.width),
        count(form.padding.height), count(form.padding.width), count(form.dilation.height),
        count(form.dilation.width), count(form.groups)};
    return count.fits ? std::optional(made) : std::nullopt;
}

std::optional<cuda::cudnn_pooling> cudnn_form(const pooling_form& form) {
    int_counter count;
    const cuda::cudnn_pooling made{count(form.images),
                                   count(form.channels),
                                   count(form.height),
                                   count(form.width),
                                   count(form.out_height),
                                   count(form.out_width),
                                   count(form.window.height),
                                   count(form.window.width),
                                   count(form.stride.height),
                                   count(form.stride.width),
                                   count(form.padding.height),
                                   count(form.padding.width),
                                   form.what == pooling_kind::average_with_padding};
    return count.fits ? std::optional(made) : std::nullopt;
}

// cuDNN is known to refuse windows of about a thousand pixels when it is called, too late for others to do it, and to
// be wrong about large ones over more than 2^23 outputs.
constexpr std::size_t largest_pooled_window = 256;  // pixels

cuda::cudnn_library& library_of(device& on) { return cuda::device_context::of(on).convolutions(); }

}  // namespace

std::optional<std::size_t> convolution_on_cuda_workspace_bytes(const convolution_form& form, device& on) {
    const auto counted = cudnn_form(form);
    return counted ? library_of(on).workspace_bytes(*counted) : std::nullopt;
}

void convolution_on_cuda(const convolution_call& call, const native_stream& on) {
    library_of(on.queue->owner())
        .convolve(cudnn_form(call.form).value(), call.x, call.filter, call.out, call.workspace, call.workspace_bytes,
                  static_cast<CUstream_st*>(on.handle));
}

bool pooling_on_cuda_is_there(const pooling_form& form, device& on) {
    if (form.window.height * form.window.width > largest_pooled_window) return false;
    const auto counted = cudnn_form(form);
    return counted && library_of(on).can_pool(*counted);
}

void pooling_on_cuda(const pooling_call& call, const native_stream& on) {
    library_of(on.queue->owner())
        .pool(cudnn_form(call.form).value(), call.x, call.out, static_cast<CUstream_st*>(on.handle));
}

}  // namespace sluice::kernels
