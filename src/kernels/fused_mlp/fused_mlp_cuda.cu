// SPDX-License-Identifier: Apache-2.0
#include "kernels/fused_mlp/fused_mlp_cuda.hpp"
#include "kernels/fused_mlp/fused_mlp_mma.cuh"
#include "kernels/fused_mlp/launches_over_rows.cuh"
#include "sluice/runtime/device.hpp"

namespace sluice::kernels {
namespace {

template <typename T>
const void* kernel_of_width(std::size_t width) {
    switch (width) {
        case 32: return reinterpret_cast<const void*>(&fused_mlp_mma<T, 32>);
        case 64: return reinterpret_cast<const void*>(&fused_mlp_mma<T, 64>);
        case 128: return reinterpret_cast<const void*>(&fused_mlp_mma<T, 128>);
        default: return reinterpret_cast<const void*>(&fused_mlp_mma<T, 256>);
    }
}

}  // namespace

launch_command fused_mlp_with_mma(const fused_mlp_call& call, fused_type type, const device_properties& gpu) {
    launch_command made = warps_over_rows(call.rows, mma_warps, gpu);
    made.device_function =
        type == fused_type::f16 ? kernel_of_width<half>(call.form.width) : kernel_of_width<bfloat16>(call.form.width);
    made.shared_bytes = fused_mma_bytes(call.form.layers, call.form.width);
    return made;
}

launch_command fused_mlp_on_cuda(const fused_mlp_call& call, fused_type type, device& gpu) {
    const device_properties& properties = gpu.properties();
    if (type == fused_type::f32) {
        throw error(errc::unsupported, "on a GPU the elements are half or bfloat16, not float",
                    {"fused_mlp", gpu.name()});
    }
    if (properties.compute_capability < 80) {
        throw error(errc::unsupported, "needs a GPU of compute capability 8.0 or later", {"fused_mlp", gpu.name()});
    }
    return properties.compute_capability == 90 ? fused_mlp_on_hopper(call, type, properties)
                                               : fused_mlp_with_mma(call, type, properties);
}

}  // namespace sluice::kernels
