// SPDX-License-Identifier: Apache-2.0
#include "cuda/api/runtime.hpp"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <nvtx3/nvToolsExt.h>

#include <algorithm>
#include <string>
#include <utility>

#include "cuda/api/driver.hpp"

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

void begin_range(const char* name) noexcept { nvtxRangePushA(name); }
void end_range() noexcept { nvtxRangePop(); }

}  // namespace sluice::cuda::api
