// SPDX-License-Identifier: Apache-2.0
// Pooling by the library of a GPU.
#pragma once

#include <cstddef>

#include "sluice/kernels/detail/window.hpp"
#include "sluice/runtime/command.hpp"
#include "sluice/runtime/detail/closure.hpp"

namespace sluice {
class device;
}

namespace sluice::kernels {

enum class pooling_kind : std::size_t { max, average, average_with_padding };

// Trivially copyable.
struct pooling_form {
    std::size_t images, channels, height, width;
    std::size_t out_height, out_width;
    size_2d window, stride, padding;
    pooling_kind what;

    friend auto operator<=>(const pooling_form&, const pooling_form&) = default;
};

struct pooling_call {
    const float* x;
    float* out;
    pooling_form form;
};

// Whether this GPU has a library that does it.
bool pooling_on_cuda_is_there(const pooling_form& form, device& on);
// Enqueued on the native stream. Throws device_error when the library refuses.
void pooling_on_cuda(const pooling_call& call, const native_stream& on);

}  // namespace sluice::kernels

// None has an array of classes.
template <>
inline constexpr bool sluice::detail::can_clear_padding<sluice::kernels::pooling_form> =
    sluice::detail::compiler_clears_padding;
template <>
inline constexpr bool sluice::detail::can_clear_padding<sluice::kernels::pooling_call> =
    sluice::detail::compiler_clears_padding;
