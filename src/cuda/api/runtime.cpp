// SPDX-License-Identifier: Apache-2.0
#include "cuda/api/runtime.hpp"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <nvtx3/nvToolsExt.h>

#include <algorithm>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "cuda/api/driver.hpp"
#include "cuda/api/group_attributes.hpp"
#include "cuda/api/staying_kernels.hpp"
#include "sluice/runtime/row_copy.hpp"

namespace sluice::cuda::api {
namespace {

// Destructors cannot report errors, and at the process's end the driver may already be unloaded.
void ignore(cudaError_t code) noexcept { static_cast<void>(code); }

int count_of_devices() noexcept {
    static const int count = [] {
        int found = 0;
        return cudaGetDeviceCount(&found) == cudaSuccess ? found : 0;
    }();
    return count;
}

CUdeviceptr address(const void* data) noexcept { return reinterpret_cast<CUdeviceptr>(data); }

void* null_if_short(cudaError_t code, void* data, std::string_view call) {
    if (code == cudaErrorMemoryAllocation) {
        static_cast<void>(cudaGetLastError());
        return nullptr;
    }
    check(code, call);
    return data;
}

// Enables the first GPU's access to the other GPU's memory, once. If it is not possible, the driver copies through the
// host.
void reach(int ordinal, int peer) {
    static std::mutex mutex;
    static std::set<std::pair<int, int>> tried;
    const std::lock_guard lock(mutex);
    if (!tried.insert({ordinal, peer}).second) return;
    int can = 0;
    if (cudaDeviceCanAccessPeer(&can, ordinal, peer) != cudaSuccess || can == 0) return;
    const device_scope scope(ordinal);
    // A failure may mean that other code has enabled the access.
    if (cudaDeviceEnablePeerAccess(peer, 0) != cudaSuccess) static_cast<void>(cudaGetLastError());
}

}  // namespace

int device_count(std::string& why) {
    int count = 0;
    const cudaError_t code = cudaGetDeviceCount(&count);
    if (code == cudaErrorInsufficientDriver) {
        int driver = 0;
        ignore(cudaDriverGetVersion(&driver));
        why = driver == 0 ? "no NVIDIA driver was found"
                          : "the NVIDIA driver is too old for this build: it supports CUDA " +
                                std::to_string(driver / 1000) + "." + std::to_string(driver % 1000 / 10);
    } else if (code == cudaErrorNoDevice || (code == cudaSuccess && count == 0)) {
        why = "the NVIDIA driver reports no GPU";
    } else if (code != cudaSuccess) {
        why = category().message(code);
    }
    static_cast<void>(cudaGetLastError());
    return code == cudaSuccess ? count : 0;
}

device_properties properties(int ordinal) {
    cudaDeviceProp all{};
    check(cudaGetDeviceProperties(&all, ordinal), "cudaGetDeviceProperties");
    device_properties made;
    made.name = all.name;
    made.compute_units = all.multiProcessorCount;
    made.compute_capability = all.major * 10 + all.minor;
    made.memory_bytes = all.totalGlobalMem;
    made.l2_cache_bytes = static_cast<std::size_t>(all.l2CacheSize);
    made.max_shared_bytes_per_block = all.sharedMemPerBlockOptin;
    made.max_threads_per_block = all.maxThreadsPerBlock;
    made.warp_size = all.warpSize;
    made.concurrent_kernels = all.concurrentKernels != 0;
    made.async_copy_engines = all.asyncEngineCount;
    const auto has = [&](cudaDeviceAttr what) {
        int value = 0;
        check(cudaDeviceGetAttribute(&value, what, ordinal), "cudaDeviceGetAttribute");
        return value != 0;
    };
    constexpr int portable_cluster = 8;  // of each GPU that has clusters
    made.max_blocks_per_cluster = has(cudaDevAttrClusterLaunch) ? portable_cluster : 1;
    made.cooperative_launch = has(cudaDevAttrCooperativeLaunch);
    return made;
}

std::string bus_id(int ordinal) {
    char text[32] = {};
    check(cudaDeviceGetPCIBusId(text, sizeof(text), ordinal), "cudaDeviceGetPCIBusId");
    return text;
}

unsigned driver_version() {
    int version = 0;
    check(cudaDriverGetVersion(&version), "cudaDriverGetVersion");
    return static_cast<unsigned>(version);
}

memory_info memory(int ordinal) {
    const device_scope scope(ordinal);
    memory_info info;
    check(cudaMemGetInfo(&info.free_bytes, &info.total_bytes), "cudaMemGetInfo");
    return info;
}

device_scope::device_scope(int ordinal) {
    if (count_of_devices() == 1) {
        // It stays current once it is set. The driver's own functions need this on each thread.
        thread_local bool is_current = false;
        if (!std::exchange(is_current, true)) check(cudaSetDevice(ordinal), "cudaSetDevice");
        return;
    }
    int current = 0;
    check(cudaGetDevice(&current), "cudaGetDevice");
    // For a thread that has not set any device, cudaGetDevice returns the first device, but the thread has no context
    // of it, and the driver's own functions crash.
    thread_local bool has_context = false;
    if (current == ordinal && std::exchange(has_context, true)) return;
    check(cudaSetDevice(ordinal), "cudaSetDevice");
    if (current != ordinal) before_ = current;
}

device_scope::~device_scope() {
    if (before_ >= 0) ignore(cudaSetDevice(before_));
}

void destroy_stream::operator()(CUstream_st* stream) const noexcept { ignore(cudaStreamDestroy(stream)); }
void destroy_event::operator()(CUevent_st* event) const noexcept { ignore(cudaEventDestroy(event)); }

stream_handle create_stream(int priority) {
    cudaStream_t made = nullptr;
    check(cudaStreamCreateWithPriority(&made, cudaStreamNonBlocking, priority), "cudaStreamCreateWithPriority");
    return stream_handle(made);
}

int nearest_priority(int asked) {
    int least = 0, greatest = 0;  // the greatest priority has the lowest number
    check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange");
    return std::clamp(asked, greatest, least);
}

event_handle create_event(event_use use) {
    unsigned flags = cudaEventDisableTiming;
    if (use == event_use::sleeping) flags |= cudaEventBlockingSync;
    if (use == event_use::timing) flags = cudaEventDefault;
    cudaEvent_t made = nullptr;
    check(cudaEventCreateWithFlags(&made, flags), "cudaEventCreateWithFlags");
    return event_handle(made);
}

void synchronize(CUstream_st* stream) {
    static const auto synchronize_stream = driver_function<decltype(&cuStreamSynchronize)>("cuStreamSynchronize");
    check_driver(synchronize_stream(stream), "cuStreamSynchronize", {});
}
void synchronize(CUevent_st* event) { check(cudaEventSynchronize(event), "cudaEventSynchronize"); }

static_assert(static_cast<int>(cudaSuccess) == success && static_cast<int>(cudaErrorNotReady) == not_ready);
int query(CUstream_st* stream) noexcept { return cudaStreamQuery(stream); }
bool is_capturing(CUstream_st* stream) noexcept {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    return cudaStreamIsCapturing(stream, &status) == cudaSuccess && status != cudaStreamCaptureStatusNone;
}

int query(CUevent_st* event) noexcept { return cudaEventQuery(event); }

void record(CUevent_st* event, CUstream_st* stream) {
    static const auto record_event = driver_function<decltype(&cuEventRecord)>("cuEventRecord");
    check_driver(record_event(event, stream), "cuEventRecord", {});
}
void wait(CUstream_st* stream, CUevent_st* event) {
    static const auto wait_for_event = driver_function<decltype(&cuStreamWaitEvent)>("cuStreamWaitEvent");
    check_driver(wait_for_event(stream, event, 0), "cuStreamWaitEvent", {});
}

bool is_per_thread(CUstream_st* stream) noexcept { return stream == cudaStreamPerThread; }

int ordinal_of(CUstream_st* stream) {
    static const auto context_of = driver_function<CUresult (*)(CUstream, CUcontext*)>("cuStreamGetCtx");
    static const auto push = driver_function<CUresult (*)(CUcontext)>("cuCtxPushCurrent");
    static const auto pop = driver_function<CUresult (*)(CUcontext*)>("cuCtxPopCurrent");
    static const auto device_of = driver_function<CUresult (*)(CUdevice*)>("cuCtxGetDevice");
    CUcontext context = nullptr;
    check_driver(context_of(stream, &context), "cuStreamGetCtx", {});
    check_driver(push(context), "cuCtxPushCurrent", {});
    CUdevice device = 0;
    const CUresult found = device_of(&device);
    pop(&context);
    check_driver(found, "cuCtxGetDevice", {});
    return device;  // the runtime numbers devices as the driver does
}

void record_foreign(CUevent_st* event, CUstream_st* stream) {
    const unsigned flags = is_capturing(stream) ? cudaEventRecordExternal : cudaEventRecordDefault;
    check(cudaEventRecordWithFlags(event, stream, flags), "cudaEventRecordWithFlags");
}
void wait_for_foreign(CUstream_st* stream, CUevent_st* event) {
    const unsigned flags = is_capturing(stream) ? cudaEventWaitExternal : cudaEventWaitDefault;
    check(cudaStreamWaitEvent(stream, event, flags), "cudaStreamWaitEvent");
}

float elapsed_milliseconds(CUevent_st* earlier, CUevent_st* later) {
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, earlier, later), "cudaEventElapsedTime");
    return milliseconds;
}

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
    int ordinal = 0, most = 0;
    check(cudaGetDevice(&ordinal), "cudaGetDevice", context);
    check(cudaDeviceGetAttribute(&most, cudaDevAttrMaxPitch, ordinal), "cudaDeviceGetAttribute", context);
    return static_cast<std::size_t>(most);
}

void copy_rows(const copy_command& command, CUstream_st* stream, const error_context& context) {
    const copied_rows& rows = command.rows;
    if (command.bytes == 0) return;
    if (std::max(rows.source_pitch, rows.destination_pitch) <= largest_pitch(context)) {
        return check(cudaMemcpy2DAsync(command.destination, rows.destination_pitch, command.source, rows.source_pitch,
                                       command.bytes, rows.count, kind_of(command.direction), stream),
                     "cudaMemcpy2DAsync", context);
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

void copy_between(void* to, int to_ordinal, const void* from, int from_ordinal, std::size_t bytes, CUstream_st* stream,
                  const error_context& context) {
    reach(to_ordinal, from_ordinal);
    check(cudaMemcpyPeerAsync(to, to_ordinal, from, from_ordinal, bytes, stream), "cudaMemcpyPeerAsync", context);
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
    int ordinal = 0, most = 0, its_own = 0;
    check(cudaGetDevice(&ordinal), "cudaGetDevice", context);
    check(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, ordinal), "cudaDeviceGetAttribute",
          context);
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
        int ordinal = 0, multiprocessors = 0;
        check(cudaGetDevice(&ordinal), "cudaGetDevice", context);
        check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, ordinal),
              "cudaDeviceGetAttribute", context);
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
    check(cudaLaunchHostFunc(stream, function, argument), "cudaLaunchHostFunc", context);
}

void begin_range(const char* name) noexcept { nvtxRangePushA(name); }
void end_range() noexcept { nvtxRangePop(); }

bool is_pinned(const void* data) noexcept {
    cudaPointerAttributes attributes{};
    if (cudaPointerGetAttributes(&attributes, data) == cudaSuccess)
        return attributes.type != cudaMemoryTypeUnregistered;
    static_cast<void>(cudaGetLastError());
    return true;  // unknown: assume pinned, the safe answer
}

namespace {

// What the address is, when it is not device memory of this GPU; else empty.
std::string why_not_at(int ordinal, const void* data) {
    cudaPointerAttributes found{};
    check(cudaPointerGetAttributes(&found, data), "cudaPointerGetAttributes");
    switch (found.type) {
        case cudaMemoryTypeDevice:
            if (found.device == ordinal) return {};
            return "memory of GPU " + std::to_string(found.device) + ", and this is GPU " + std::to_string(ordinal);
        case cudaMemoryTypeHost: return "page-locked host memory: adopt it on a CPU device, or upload it";
        case cudaMemoryTypeManaged: return "managed memory: copy it to memory of the GPU first";
        default:
            return "no memory that CUDA knows: pageable host memory, or not allocated. Upload host memory, or adopt it "
                   "on a CPU device";
    }
}

// The bytes from `data` to the end of its allocation; the maximum where that is not one cudaMalloc's.
std::size_t bytes_to_end(const void* data) {
    static const auto attribute = driver_function<decltype(&cuPointerGetAttribute)>("cuPointerGetAttribute");
    const auto get = [&](auto& value, CUpointer_attribute which) {
        return attribute(&value, which, address(data)) == CUDA_SUCCESS;
    };
    constexpr std::size_t unknown = ~std::size_t{0};
    int is_of_malloc = 0;
    if (!get(is_of_malloc, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE) || is_of_malloc == 0) return unknown;
    CUdeviceptr begin = 0;
    std::size_t bytes = 0;
    if (!get(begin, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR) || !get(bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE))
        return unknown;
    return begin + bytes - address(data);
}

}  // namespace

std::string why_not_memory_of(int ordinal, const void* data, std::size_t bytes) {
    if (bytes == 0) return {};
    const device_scope scope(ordinal);
    if (const std::string what = why_not_at(ordinal, data); !what.empty()) return "it is " + what;
    if (const std::size_t there = bytes_to_end(data); there < bytes) {
        return "the tensor has " + std::to_string(bytes) + " bytes, and the allocation ends after " +
               std::to_string(there);
    }
    if (const std::string what = why_not_at(ordinal, static_cast<const char*>(data) + bytes - 1); !what.empty())
        return "its last byte is " + what;
    return {};
}

bool is_memory_of(int ordinal, const void* data) noexcept {
    cudaPointerAttributes found{};
    if (cudaPointerGetAttributes(&found, data) == cudaSuccess)
        return found.type == cudaMemoryTypeDevice && found.device == ordinal;
    static_cast<void>(cudaGetLastError());
    return false;
}

void* allocate_device(std::size_t bytes) {
    void* data = nullptr;
    const cudaError_t code = cudaMalloc(&data, bytes);
    return null_if_short(code, data, "cudaMalloc");
}

void* allocate_pinned(std::size_t bytes) {
    void* data = nullptr;
    const cudaError_t code = cudaHostAlloc(&data, bytes, cudaHostAllocPortable);
    return null_if_short(code, data, "cudaHostAlloc");
}

void free_device(void* data) noexcept {
    free_when_possible(data, [](void* noted) noexcept { ignore(cudaFree(noted)); });
}
void free_pinned(void* data) noexcept {
    free_when_possible(data, [](void* noted) noexcept { ignore(cudaFreeHost(noted)); });
}

}  // namespace sluice::cuda::api
