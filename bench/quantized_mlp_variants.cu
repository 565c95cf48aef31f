// SPDX-License-Identifier: Apache-2.0
#include "quantized_mlp.hpp"

#include <algorithm>

#include "quantized_mlp_paired.cuh"

namespace sluice::bench {
namespace {

using kernels::quantized_mlp_call;

launch_command launch_of(const void* kernel, int groups, const quantized_mlp_call& call, const device_properties& gpu) {
    launch_command made;
    made.device_function = kernel;
    made.grid.x = static_cast<unsigned>(gpu.compute_units);
    made.block.x = static_cast<unsigned>(groups * kernels::threads_of_group);
    made.shared_bytes = kernels::eight_bit_resident_bytes(call.form.sizes.layers, call.form.sizes.width);
    return made;
}

template <int Width, int Groups>
quantized_mlp_variant resident_variant(const quantized_mlp_call& call, const device_properties& gpu) {
    const void* const kernel =
        call.form.sizes.is_biased
            ? reinterpret_cast<const void*>(&kernels::quantized_mlp_resident<Width, Groups, true, true>)
            : reinterpret_cast<const void*>(&kernels::quantized_mlp_resident<Width, Groups, true, false>);
    return {std::to_string(Groups) + " warpgroups", launch_of(kernel, Groups, call, gpu)};
}

template <int Width, int Groups>
quantized_mlp_variant paired_variant(const quantized_mlp_call& call, const device_properties& gpu) {
    const void* const kernel =
        call.form.sizes.is_biased ? reinterpret_cast<const void*>(&kernels::quantized_mlp_paired<Width, Groups, true>)
                                  : reinterpret_cast<const void*>(&kernels::quantized_mlp_paired<Width, Groups, false>);
    return {std::to_string(Groups) + " warpgroups of two tiles", launch_of(kernel, Groups, call, gpu)};
}

}  // namespace

std::vector<quantized_mlp_variant> quantized_mlp_variants(const quantized_mlp_call& call,
                                                          const device_properties& gpu) {
    switch (call.form.sizes.width) {
        case 64:
            return {resident_variant<64, 4>(call, gpu), resident_variant<64, 5>(call, gpu),
                    resident_variant<64, 7>(call, gpu), paired_variant<64, 3>(call, gpu),
                    paired_variant<64, 4>(call, gpu)};
        case 128:
            return {resident_variant<128, 2>(call, gpu), resident_variant<128, 3>(call, gpu),
                    paired_variant<128, 2>(call, gpu)};
        default: return {};
    }
}

}  // namespace sluice::bench
