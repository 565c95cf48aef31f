// SPDX-License-Identifier: Apache-2.0
#include "kernels/resident/resident_mlp.cuh"
#include "kernels/resident/resident_mlp.hpp"
#include "kernels/resident/resident_mlp_f32.cuh"
#include "kernels/resident/resident_mlp_shared.cuh"
#include "kernels/resident/staying_launch.hpp"
#include "sluice/base/error.hpp"
#include "sluice/runtime/device.hpp"

namespace sluice::kernels {
namespace {

template <typename T, int Blocks, int Layers>
const void* kernel_for_any() {
    return reinterpret_cast<const void*>(&resident_mlp<T, Blocks, Layers, false>);
}

template <typename T, int Blocks, int Layers>
const void* kernel_for_regular() {
    if constexpr (Blocks == 1)
        return reinterpret_cast<const void*>(&resident_mlp<T, 1, Layers, true>);
    else
        return reinterpret_cast<const void*>(&resident_mlp_shared<T, Blocks, Layers>);
}

template <typename T, int Blocks>
const void* kernel_for(const resident_layout& layout) {
    const bool is_regular = layout.is_regular();
    switch (layout.layers) {
        case 2: return is_regular ? kernel_for_regular<T, Blocks, 2>() : kernel_for_any<T, Blocks, 2>();
        case 3: return is_regular ? kernel_for_regular<T, Blocks, 3>() : kernel_for_any<T, Blocks, 3>();
        case 4: return is_regular ? kernel_for_regular<T, Blocks, 4>() : kernel_for_any<T, Blocks, 4>();
        default: return kernel_for_any<T, Blocks, 0>();
    }
}

template <typename T>
const void* kernel_for(const resident_layout& layout) {
    switch (layout.blocks) {
        case 1: return kernel_for<T, 1>(layout);
        case 4: return kernel_for<T, 4>(layout);
        case 8: return kernel_for<T, 8>(layout);
        default: return kernel_for<T, 16>(layout);
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
        case fused_type::f16: kernel = kernel_for<half>(layout); break;
        case fused_type::bf16: kernel = kernel_for<bfloat16>(layout); break;
        case fused_type::f32: kernel = reinterpret_cast<const void*>(&resident_mlp_f32); break;
    }
    resident_call passed = call;
    void* arguments[] = {&passed};
    launch_staying(on, {kernel, lanes * layout.blocks, layout.blocks, layout.threads, layout.shared_bytes, arguments},
                   context);
}

}  // namespace sluice::kernels
