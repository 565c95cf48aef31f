// SPDX-License-Identifier: Apache-2.0
#include "kernels/fused_mlp/launches_over_rows.cuh"
#include "kernels/quantized_mlp/quantized_mlp_cuda.hpp"
#include "kernels/quantized_mlp/quantized_mlp_wgmma.cuh"

namespace sluice::kernels {
namespace {

template <int Width, int Groups>
launch_command resident_8_bit(const quantized_mlp_call& call, const device_properties& gpu) {
    const detail::fused_mlp_form& sizes = call.form.sizes;
    launch_command made = warpgroups_over_rows(call.rows, Groups, gpu);
    if (sizes.in_features != Width || sizes.out_features != Width) {
        made.device_function = reinterpret_cast<const void*>(&quantized_mlp_resident<Width, Groups, false, true>);
    } else if (sizes.is_biased) {
        made.device_function = reinterpret_cast<const void*>(&quantized_mlp_resident<Width, Groups, true, true>);
    } else {
        made.device_function = reinterpret_cast<const void*>(&quantized_mlp_resident<Width, Groups, true, false>);
    }
    made.shared_bytes = eight_bit_resident_bytes(sizes.layers, Width);
    return made;
}

}  // namespace

bool fits_quantized_mlp_on_hopper(const quantized_mlp_call& call, const device_properties& gpu) {
    return eight_bit_resident_bytes(call.form.sizes.layers, call.form.sizes.width) <= gpu.max_shared_bytes_per_block;
}

// The numbers of warpgroups that were fastest of those tried (bench_quantized_mlp, an H100).
launch_command quantized_mlp_on_hopper(const quantized_mlp_call& call, const device_properties& gpu) {
    switch (call.form.sizes.width) {
        case 64: return resident_8_bit<64, 6>(call, gpu);
        case 128: return resident_8_bit<128, 4>(call, gpu);
        default: return resident_8_bit<256, 2>(call, gpu);
    }
}

}  // namespace sluice::kernels
