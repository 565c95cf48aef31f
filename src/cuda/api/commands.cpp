// SPDX-License-Identifier: Apache-2.0
#include "cuda/api/commands.hpp"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "cuda/api/copy_parameters.hpp"
#include "cuda/api/driver.hpp"
#include "cuda/api/group_attributes.hpp"
#include "cuda/api/runtime.hpp"
#include "sluice/runtime/row_copy.hpp"

namespace sluice::cuda::api {
namespace {

int attribute(CUdevice_attribute which, const error_context& context) {
    static const auto get = driver_function<decltype(&cuDeviceGetAttribute)>("cuDeviceGetAttribute");
    static const auto current = driver_function<decltype(&cuCtxGetDevice)>("cuCtxGetDevice");
    CUdevice on = 0;
    int value = 0;
    check_driver(current(&on), "cuCtxGetDevice", context);
    check_driver(get(&value, which, on), "cuDeviceGetAttribute", context);
    return value;
}

// Enables the first GPU's access to the other GPU's memory, once. If it is not possible, the driver copies through the
// host.
void reach(const gpu_context& from, const gpu_context& peer) {
    static const auto can_reach = driver_function<decltype(&cuDeviceCanAccessPeer)>("cuDeviceCanAccessPeer");
    static const auto enable = driver_function<decltype(&cuCtxEnablePeerAccess)>("cuCtxEnablePeerAccess");
    static std::mutex mutex;
    static std::set<std::pair<const gpu_context*, const gpu_context*>> tried;
    const std::lock_guard lock(mutex);
    if (!tried.insert({&from, &peer}).second) return;
    int can = 0;
    if (can_reach(&can, from.ordinal(), peer.ordinal()) != CUDA_SUCCESS || can == 0) return;
    const device_scope scope(from);
    static_cast<void>(enable(peer.native(), 0));  // a failure may mean that other code has enabled the access
}

}  // namespace

void copy(void* to, const void* from, std::size_t bytes, copy_direction direction, CUstream_st* stream,
          const error_context& context) {
    static const auto upload = driver_function<decltype(&cuMemcpyHtoDAsync)>("cuMemcpyHtoDAsync");
    static const auto download = driver_function<decltype(&cuMemcpyDtoHAsync)>("cuMemcpyDtoHAsync");
    static const auto copy_inside = driver_function<decltype(&cuMemcpyDtoDAsync)>("cuMemcpyDtoDAsync");
    switch (direction) {
        case copy_direction::host_to_device:
            return check_driver(upload(address(to), from, bytes, stream), "cuMemcpyHtoDAsync", context);
        case copy_direction::device_to_host:
            return check_driver(download(to, address(from), bytes, stream), "cuMemcpyDtoHAsync", context);
        case copy_direction::device_to_device:
            return check_driver(copy_inside(address(to), address(from), bytes, stream), "cuMemcpyDtoDAsync", context);
    }
}

std::size_t largest_pitch(const error_context& context) {
    return static_cast<std::size_t>(attribute(CU_DEVICE_ATTRIBUTE_MAX_PITCH, context));
}

void copy_rows(const copy_command& command, CUstream_st* stream, const error_context& context) {
    static const auto copy_in_rows = driver_function<decltype(&cuMemcpy2DAsync)>("cuMemcpy2DAsync");
    const copied_rows& rows = command.rows;
    if (command.bytes == 0) return;
    if (std::max(rows.source_pitch, rows.destination_pitch) <= largest_pitch(context)) {
        CUDA_MEMCPY2D what{};
        const CUDA_MEMCPY3D all = copy_parameters(command);
        what.srcMemoryType = all.srcMemoryType;
        what.srcHost = all.srcHost;
        what.srcDevice = all.srcDevice;
        what.srcPitch = all.srcPitch;
        what.dstMemoryType = all.dstMemoryType;
        what.dstHost = all.dstHost;
        what.dstDevice = all.dstDevice;
        what.dstPitch = all.dstPitch;
        what.WidthInBytes = all.WidthInBytes;
        what.Height = all.Height;
        return check_driver(copy_in_rows(&what, stream), "cuMemcpy2DAsync", context);
    }
    try {
        for_each_row(command, [&](const std::byte* from, std::byte* to) {
            copy(to, from, command.bytes, command.direction, stream, context);
            return true;
        });
    } catch (...) {
        synchronize(stream);  // the caller will treat the command as not enqueued, so no row may be in flight
        throw;
    }
}

void copy_between(void* to, const gpu_context& to_context, const void* from, const gpu_context& from_context,
                  std::size_t bytes, CUstream_st* stream, const error_context& context) {
    static const auto copy_to_peer = driver_function<decltype(&cuMemcpyPeerAsync)>("cuMemcpyPeerAsync");
    if (!from_context.is_usable()) {  // this GPU is not lost with it
        throw error(errc::device_failed,
                    "the source's GPU, which CUDA numbers " + std::to_string(from_context.ordinal()) +
                        ", was reset by other code",
                    context);
    }
    reach(to_context, from_context);
    check_driver(copy_to_peer(address(to), to_context.native(), address(from), from_context.native(), bytes, stream),
                 "cuMemcpyPeerAsync", context);
}

void fill(void* to, unsigned char value, std::size_t bytes, CUstream_st* stream, const error_context& context) {
    static const auto set = driver_function<decltype(&cuMemsetD8Async)>("cuMemsetD8Async");
    check_driver(set(address(to), value, bytes, stream), "cuMemsetD8Async", context);
}

CUfunc_st* find_kernel(const void* symbol, const error_context& context) {
    cudaFunction_t kernel = nullptr;
    check(cudaGetFuncBySymbol(&kernel, symbol), "cudaGetFuncBySymbol", context);
    return kernel;
}

std::size_t allowed_shared_memory(CUfunc_st* kernel, const error_context& context) {
    static const auto get = driver_function<decltype(&cuFuncGetAttribute)>("cuFuncGetAttribute");
    int its_own = 0;
    check_driver(get(&its_own, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, kernel), "cuFuncGetAttribute", context);
    constexpr int most = 48 << 10;
    return static_cast<std::size_t>(std::max(0, most - its_own));
}

std::size_t allow_shared_memory(CUfunc_st* kernel, const error_context& context) {
    static const auto get = driver_function<decltype(&cuFuncGetAttribute)>("cuFuncGetAttribute");
    static const auto set = driver_function<decltype(&cuFuncSetAttribute)>("cuFuncSetAttribute");
    const int most = attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, context);
    int its_own = 0;
    check_driver(get(&its_own, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, kernel), "cuFuncGetAttribute", context);
    check_driver(set(kernel, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, most - its_own), "cuFuncSetAttribute",
                 context);
    return static_cast<std::size_t>(most - its_own);
}

void launch(CUfunc_st* kernel, const launch_command& command, CUstream_st* stream, const error_context& context) {
    static const auto launch_kernel = driver_function<decltype(&cuLaunchKernel)>("cuLaunchKernel");
    launch_arguments arguments(command);
    if (command.early_start || sluice::detail::is_group(command)) {
        static const auto launch_with = driver_function<decltype(&cuLaunchKernelEx)>("cuLaunchKernelEx");
        group_attributes attributes(kernel, command, context);
        if (command.early_start) attributes.add_early_start();
        CUlaunchConfig how = configuration_of(command, stream);
        how.attrs = attributes.begin();
        how.numAttrs = attributes.size();
        return check_driver(launch_with(&how, kernel, arguments.get(), nullptr), "cuLaunchKernelEx", context);
    }
    const CUresult code =
        launch_kernel(kernel, command.grid.x, command.grid.y, command.grid.z, command.block.x, command.block.y,
                      command.block.z, static_cast<unsigned>(command.shared_bytes), stream, arguments.get(), nullptr);
    check_driver(code, "cuLaunchKernel", context);
}

std::size_t resident_blocks(CUfunc_st* kernel, const launch_command& like, const error_context& context) {
    const launch_extent &size = like.cluster, &block = like.block;
    const unsigned blocks = size.x * size.y * size.z;
    int count = 0;
    if (blocks == 1) {
        static const auto query = driver_function<decltype(&cuOccupancyMaxActiveBlocksPerMultiprocessor)>(
            "cuOccupancyMaxActiveBlocksPerMultiprocessor");
        const auto threads = static_cast<int>(block.x * block.y * block.z);
        check_driver(query(&count, kernel, threads, like.shared_bytes), "cuOccupancyMaxActiveBlocksPerMultiprocessor",
                     context);
        const int multiprocessors = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, context);
        return static_cast<std::size_t>(count) * static_cast<std::size_t>(multiprocessors);
    }
    static const auto query = driver_function<decltype(&cuOccupancyMaxActiveClusters)>("cuOccupancyMaxActiveClusters");
    group_attributes attributes(kernel, like, context);
    CUlaunchConfig how = configuration_of(like, nullptr);
    how.gridDimX = size.x;  // the number does not depend on the grid, which must be a multiple of the cluster
    how.gridDimY = size.y;
    how.gridDimZ = size.z;
    how.attrs = attributes.begin();  // the cluster; whether the launch is cooperative does not matter
    how.numAttrs = 1;
    check_driver(query(&count, kernel, &how), "cuOccupancyMaxActiveClusters", context);
    return static_cast<std::size_t>(count) * blocks;
}

bool write_value(CUstream_st* stream, std::uint64_t* to, std::uint64_t value) noexcept {
    static const auto write = []() noexcept -> decltype(&cuStreamWriteValue64) {
        try {
            return driver_function<decltype(&cuStreamWriteValue64)>("cuStreamWriteValue64");
        } catch (...) {
            return nullptr;
        }
    }();
    return write != nullptr && write(stream, reinterpret_cast<CUdeviceptr>(to), value, 0) == CUDA_SUCCESS;
}

void call_host(CUstream_st* stream, void (*function)(void*), void* argument, const error_context& context) {
    static const auto call = driver_function<decltype(&cuLaunchHostFunc)>("cuLaunchHostFunc");
    check_driver(call(stream, function, argument), "cuLaunchHostFunc", context);
}

}  // namespace sluice::cuda::api
