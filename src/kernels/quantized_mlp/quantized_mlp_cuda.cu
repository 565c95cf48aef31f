// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string_view>

#include "kernels/fused_mlp/launches_over_rows.cuh"
#include "kernels/quantized_mlp/quantized_mlp_cuda.hpp"
#include "kernels/quantized_mlp/quantized_mlp_mma.cuh"
#include "sluice/runtime/device.hpp"

namespace sluice::kernels {
namespace {

template <typename T>
const void* quantized_kernel_of_width(std::size_t width) {
    switch (width) {
        case 64: return reinterpret_cast<const void*>(&quantized_mlp_mma<T, 64>);
        case 128: return reinterpret_cast<const void*>(&quantized_mlp_mma<T, 128>);
        default: return reinterpret_cast<const void*>(&quantized_mlp_mma<T, 256>);
    }
}

// A GPU with f8 also runs code that was compiled for one without: that code ends in a trap.
bool has_f8_code(int capability) {
    constexpr int compiled_for[] = {__CUDA_ARCH_LIST__};  // 890 for 8.9
    return std::ranges::any_of(compiled_for, [=](int each) { return each >= 890 && each <= 10 * capability; });
}

}  // namespace

launch_command quantized_mlp_with_mma(const quantized_mlp_call& call, eight_bit_type type,
                                      const device_properties& gpu) {
    const std::size_t width = call.form.sizes.width;
    launch_command made = warps_over_rows(call.rows, eight_bit_warps, gpu);
    made.device_function = type == eight_bit_type::f8 ? quantized_kernel_of_width<f8_e4m3>(width)
                                                      : quantized_kernel_of_width<std::int8_t>(width);
    made.shared_bytes = eight_bit_mma_bytes(call.form.sizes.layers, width);
    return made;
}

launch_command quantized_mlp_on_cuda(const quantized_mlp_call& call, eight_bit_type type, device& gpu) {
    const device_properties& properties = gpu.properties();
    const int capability = properties.compute_capability;
    if (const std::string_view why = why_no_8_bits(type, capability); !why.empty()) {
        throw error(errc::unsupported, why, {"fused_mlp", gpu.name()});
    }
    if (type == eight_bit_type::int8) return quantized_mlp_with_mma(call, type, properties);
    if (capability == 90 && fits_quantized_mlp_on_hopper(call, properties)) {
        return quantized_mlp_on_hopper(call, properties);
    }
    if (!has_f8_code(capability)) {
        throw error(errc::unsupported,
                    "this build was compiled for GPUs without f8_e4m3 and for later ones than this; name this GPU in "
                    "CMAKE_CUDA_ARCHITECTURES",
                    {"fused_mlp", gpu.name()});
    }
    return quantized_mlp_with_mma(call, type, properties);
}

}  // namespace sluice::kernels
