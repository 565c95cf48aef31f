// SPDX-License-Identifier: Apache-2.0
#include "kernels/resident/resident_mlp.cuh"
#include "kernels/resident/resident_mlp.hpp"
#include "kernels/resident/resident_mlp_f32.cuh"
#include "kernels/resident/staying_launch.hpp"
#include "sluice/base/error.hpp"
#include "sluice/runtime/device.hpp"

namespace sluice::kernels {
namespace {

template <typename T, int Blocks>
const void* kernel_for(std::uint32_t layers) {
    switch (layers) {
        case 2: return reinterpret_cast<const void*>(&resident_mlp<T, Blocks, 2>);
        case 3: return reinterpret_cast<const void*>(&resident_mlp<T, Blocks, 3>);
        case 4: return reinterpret_cast<const void*>(&resident_mlp<T, Blocks, 4>);
        default: return reinterpret_cast<const void*>(&resident_mlp<T, Blocks, 0>);
    }
}

template <typename T>
const void* kernel_for(std::uint32_t blocks, std::uint32_t layers) {
    switch (blocks) {
        case 1: return kernel_for<T, 1>(layers);
        case 4: return kernel_for<T, 4>(layers);
        case 8: return kernel_for<T, 8>(layers);
        default: return kernel_for<T, 16>(layers);
    }
}

// The kernel's own shared memory, and what the system keeps of each block's.
constexpr std::uint32_t own_shared_bytes = 128;
static_assert(sizeof(resident::block_state) <= own_shared_bytes);

}  // namespace

std::uint32_t resident_shared_bytes(const device& gpu) {
    if (gpu.properties().compute_capability < 80)
        throw error(errc::unsupported, "needs a GPU of compute capability 8.0 or later",
                    {"resident_network", gpu.name()});
    return static_cast<std::uint32_t>(gpu.properties().max_shared_bytes_per_block) - own_shared_bytes;
}

std::uint32_t most_blocks_of_lane(const device& gpu) { return gpu.properties().max_blocks_per_cluster > 1 ? 16 : 1; }

void start_resident(const native_stream& on, const resident_call& call, fused_type type, std::uint32_t lanes) {
    const resident_layout& layout = call.layout;
    const error_context context{"resident_network"};
    const void* kernel = nullptr;
    switch (type) {
        case fused_type::f16: kernel = kernel_for<half>(layout.blocks, layout.layers); break;
        case fused_type::bf16: kernel = kernel_for<bfloat16>(layout.blocks, layout.layers); break;
        case fused_type::f32: kernel = reinterpret_cast<const void*>(&resident_mlp_f32); break;
    }
    resident_call passed = call;
    void* arguments[] = {&passed};
    launch_staying(on, {kernel, lanes * layout.blocks, layout.blocks, layout.threads, layout.shared_bytes, arguments},
                   context);
}

}  // namespace sluice::kernels
