// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "kernels/fused_mlp/fused_mlp_cuda.hpp"
#include "kernels/fused_mlp/fused_mlp_wgmma.cuh"
#include "kernels/fused_mlp/launches_over_rows.cuh"

namespace sluice::kernels {
namespace {

template <int Width>
bool is_whole(const fused_mlp_call& call) {
    return call.form.in_features == Width && call.form.out_features == Width;
}

template <typename T, int Width, int Groups>
launch_command resident(const fused_mlp_call& call, const device_properties& gpu) {
    launch_command made = warpgroups_over_rows(call.rows, Groups, gpu);
    if (!is_whole<Width>(call)) {
        made.device_function = reinterpret_cast<const void*>(&fused_mlp_resident<T, Width, Groups, false, true>);
    } else if (call.form.is_biased) {
        made.device_function = reinterpret_cast<const void*>(&fused_mlp_resident<T, Width, Groups, true, true>);
    } else {
        made.device_function = reinterpret_cast<const void*>(&fused_mlp_resident<T, Width, Groups, true, false>);
    }
    made.shared_bytes = fused_resident_bytes(call.form.layers, Width);
    return made;
}

template <typename T, int Width, int Groups>
launch_command streamed(const fused_mlp_call& call, const device_properties& gpu) {
    constexpr std::size_t rows_of_block = std::size_t{Groups} * rows_of_group;
    launch_command made;
    made.device_function = is_whole<Width>(call)
                               ? reinterpret_cast<const void*>(&fused_mlp_streamed<T, Width, Groups, true>)
                               : reinterpret_cast<const void*>(&fused_mlp_streamed<T, Width, Groups, false>);
    made.grid.x = static_cast<unsigned>(std::min<std::size_t>((call.rows + rows_of_block - 1) / rows_of_block,
                                                              static_cast<std::size_t>(gpu.compute_units)));
    made.block.x = (Groups + 1) * threads_of_group;
    made.shared_bytes = fused_streamed_bytes(call.form.layers, Width);
    return made;
}

// As many warpgroups as the registers allow.
template <typename T>
launch_command of_width(const fused_mlp_call& call, const device_properties& gpu) {
    const std::size_t width = call.form.width;
    if (width == 32) return resident<T, 32, 6>(call, gpu);
    if (width == 64) return resident<T, 64, 5>(call, gpu);
    if (width == 256) return streamed<T, 256, 2>(call, gpu);
    if (fused_resident_bytes(call.form.layers, 128) <= gpu.max_shared_bytes_per_block) {
        return resident<T, 128, 3>(call, gpu);
    }
    return streamed<T, 128, 3>(call, gpu);
}

}  // namespace

launch_command fused_mlp_on_hopper(const fused_mlp_call& call, fused_type type, const device_properties& gpu) {
    return type == fused_type::f16 ? of_width<half>(call, gpu) : of_width<bfloat16>(call, gpu);
}

}  // namespace sluice::kernels
