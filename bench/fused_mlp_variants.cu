// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "fused_mlp.hpp"
#include "kernels/fused_mlp/fused_mlp_cuda.hpp"
#include "kernels/fused_mlp/fused_mlp_wgmma.cuh"

namespace sluice::bench {
namespace {

template <int Width, int Groups>
fused_mlp_variant resident(const kernels::fused_mlp_call& call, const device_properties& gpu) {
    const std::size_t tiles = (call.rows + 63) / 64;
    launch_command made;
    made.device_function =
        call.form.is_biased
            ? reinterpret_cast<const void*>(&kernels::fused_mlp_resident<half, Width, Groups, true, true>)
            : reinterpret_cast<const void*>(&kernels::fused_mlp_resident<half, Width, Groups, true, false>);
    made.grid.x = static_cast<unsigned>(std::min<std::size_t>(tiles, static_cast<std::size_t>(gpu.compute_units)));
    made.block.x = Groups * 128;
    made.shared_bytes = kernels::fused_resident_bytes(call.form.layers, Width);
    return {std::to_string(Groups) + " warpgroups", made};
}

}  // namespace

std::vector<fused_mlp_variant> fused_mlp_variants(const kernels::fused_mlp_call& call, const device_properties& gpu) {
    std::vector<fused_mlp_variant> all;
    if (call.form.width == 64) {
        all = {resident<64, 3>(call, gpu), resident<64, 4>(call, gpu), resident<64, 6>(call, gpu)};
    } else if (call.form.width == 128) {
        all = {resident<128, 2>(call, gpu)};
    }
    all.push_back({"mma.sync", kernels::fused_mlp_with_mma(call, kernels::fused_type::f16, gpu)});
    return all;
}

}  // namespace sluice::bench
