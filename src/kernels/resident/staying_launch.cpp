// SPDX-License-Identifier: Apache-2.0
#include "kernels/resident/staying_launch.hpp"

#include <cuda_runtime_api.h>

#include "cuda/api/driver.hpp"
#include "cuda/api/staying_kernels.hpp"

namespace sluice::kernels {
namespace {

// A cluster of more blocks must be allowed: not every GPU has them.
constexpr std::uint32_t portable_blocks = 8;

}  // namespace

bool loads_kernels_lazily(const error_context& context) {
    static const auto mode_of = cuda::api::driver_function<decltype(&cuModuleGetLoadingMode)>("cuModuleGetLoadingMode");
    CUmoduleLoadingMode mode{};
    cuda::api::check_driver(mode_of(&mode), "cuModuleGetLoadingMode", context);
    return mode != CU_MODULE_EAGER_LOADING;
}

void launch_staying(const native_stream& on, const staying_launch& how, const error_context& context) {
    const auto allow = [&](cudaFuncAttribute what, std::uint32_t value) {
        cuda::api::check(cudaFuncSetAttribute(how.function, what, static_cast<int>(value)), "cudaFuncSetAttribute",
                         context);
    };
    allow(cudaFuncAttributeMaxDynamicSharedMemorySize, how.shared_bytes);
    if (how.blocks_of_cluster > portable_blocks) allow(cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
    cudaLaunchAttribute cluster{};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = how.blocks_of_cluster;
    cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(how.blocks);
    config.blockDim = dim3(how.threads);
    config.dynamicSmemBytes = how.shared_bytes;
    config.stream = static_cast<cudaStream_t>(on.handle);
    config.attrs = &cluster;
    config.numAttrs = how.blocks_of_cluster > 1 ? 1 : 0;
    cuda::api::check(cudaLaunchKernelExC(&config, how.function, how.arguments), "cudaLaunchKernelExC", context);
}

bool note_staying_begin(std::chrono::nanoseconds longest) noexcept { return cuda::api::begin_staying_kernel(longest); }
void note_staying_end() noexcept { cuda::api::end_staying_kernel(); }

}  // namespace sluice::kernels
