// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime_api.h>

#include "cuda/api/driver.hpp"
#include "cuda/api/staying_kernels.hpp"
#include "kernels/resident/resident_mlp.cuh"
#include "kernels/resident/resident_mlp.hpp"
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
constexpr std::uint32_t own_shared_bytes = 64;
// A cluster of more blocks must be allowed: not every GPU has them.
constexpr std::uint32_t portable_blocks = 8;

}  // namespace

std::uint32_t resident_shared_bytes(const device& gpu) {
    if (gpu.properties().compute_capability < 80)
        throw error(errc::unsupported, "needs a GPU of compute capability 8.0 or later",
                    {"resident_network", gpu.name()});
    return static_cast<std::uint32_t>(gpu.properties().max_shared_bytes_per_block) - own_shared_bytes;
}

std::uint32_t most_blocks_of_lane(const device& gpu) { return gpu.properties().max_blocks_per_cluster > 1 ? 16 : 1; }

bool loads_kernels_lazily() {
    static const auto mode_of = cuda::api::driver_function<decltype(&cuModuleGetLoadingMode)>("cuModuleGetLoadingMode");
    CUmoduleLoadingMode mode{};
    cuda::api::check_driver(mode_of(&mode), "cuModuleGetLoadingMode", {"resident_network"});
    return mode != CU_MODULE_EAGER_LOADING;
}

void start_resident(const native_stream& on, const resident_call& call, bool is_bfloat16, std::uint32_t lanes) {
    const resident_layout& layout = call.layout;
    const error_context context{"resident_network"};
    const void* const kernel = is_bfloat16 ? kernel_for<bfloat16>(layout.blocks, layout.layers)
                                           : kernel_for<half>(layout.blocks, layout.layers);
    const auto allow = [&](cudaFuncAttribute what, std::uint32_t value) {
        cuda::api::check(cudaFuncSetAttribute(kernel, what, static_cast<int>(value)), "cudaFuncSetAttribute", context);
    };
    allow(cudaFuncAttributeMaxDynamicSharedMemorySize, layout.shared_bytes);
    if (layout.blocks > portable_blocks) allow(cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
    cudaLaunchAttribute cluster{};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = layout.blocks;
    cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
    cudaLaunchConfig_t how{};
    how.gridDim = dim3(lanes * layout.blocks);
    how.blockDim = dim3(layout.threads);
    how.dynamicSmemBytes = layout.shared_bytes;
    how.stream = static_cast<cudaStream_t>(on.handle);
    how.attrs = &cluster;
    how.numAttrs = layout.blocks > 1 ? 1 : 0;
    resident_call passed = call;
    void* arguments[] = {&passed};
    cuda::api::check(cudaLaunchKernelExC(&how, kernel, arguments), "cudaLaunchKernelExC", context);
    cuda::api::begin_staying_kernel();
}

void note_resident_end() noexcept { cuda::api::end_staying_kernel(); }

}  // namespace sluice::kernels
