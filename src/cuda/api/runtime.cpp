// SPDX-License-Identifier: Apache-2.0
#include "cuda/api/runtime.hpp"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <nvtx3/nvToolsExt.h>

#include <algorithm>
#include <new>
#include <string>

#include "cuda/api/driver.hpp"

namespace sluice::cuda::api {

int device_count(std::string& why) {
    int count = 0;
    const cudaError_t code = cudaGetDeviceCount(&count);
    if (code == cudaErrorInsufficientDriver) {
        int driver = 0;
        static_cast<void>(cudaDriverGetVersion(&driver));
        why = driver == 0 ? "no NVIDIA driver was found"
                          : "the NVIDIA driver is too old for this build: it supports CUDA " +
                                std::to_string(driver / 1000) + "." + std::to_string(driver % 1000 / 10);
    } else if (code == cudaErrorNoDevice || (code == cudaSuccess && count == 0)) {
        why = "the NVIDIA driver reports no GPU";
    } else if (code != cudaSuccess) {
        why = category().message(code);
    }
    if (code == cudaSuccess) return count;
    static_cast<void>(cudaGetLastError());
    return 0;
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

memory_info memory(const gpu_context& of) {
    static const auto get = driver_function<decltype(&cuMemGetInfo)>("cuMemGetInfo");
    const device_scope scope(of);
    memory_info info;
    check_driver(get(&info.free_bytes, &info.total_bytes), "cuMemGetInfo", {});
    return info;
}

// Destructors call these two, which cannot report errors.
void destroy_stream::operator()(CUstream_st* stream) const noexcept {
    static const auto destroy = driver_function<decltype(&cuStreamDestroy)>("cuStreamDestroy");
    const device_scope scope(*of, std::nothrow);
    if (scope.is_open()) static_cast<void>(destroy(stream));
}
void destroy_event::operator()(CUevent_st* event) const noexcept {
    static const auto destroy = driver_function<decltype(&cuEventDestroy)>("cuEventDestroy");
    const device_scope scope(*of, std::nothrow);
    if (scope.is_open()) static_cast<void>(destroy(event));
}

stream_handle create_stream(int priority) {
    static const auto create = driver_function<decltype(&cuStreamCreateWithPriority)>("cuStreamCreateWithPriority");
    CUstream made = nullptr;
    check_driver(create(&made, CU_STREAM_NON_BLOCKING, priority), "cuStreamCreateWithPriority", {});
    return {made, destroy_stream{device_scope::innermost()}};
}

int nearest_priority(int asked) {
    static const auto get = driver_function<decltype(&cuCtxGetStreamPriorityRange)>("cuCtxGetStreamPriorityRange");
    int least = 0, greatest = 0;  // the greatest priority has the lowest number
    check_driver(get(&least, &greatest), "cuCtxGetStreamPriorityRange", {});
    return std::clamp(asked, greatest, least);
}

event_handle create_event(event_use use) {
    static const auto create = driver_function<decltype(&cuEventCreate)>("cuEventCreate");
    unsigned flags = CU_EVENT_DISABLE_TIMING;
    if (use == event_use::sleeping) flags |= CU_EVENT_BLOCKING_SYNC;
    if (use == event_use::timing) flags = CU_EVENT_DEFAULT;
    CUevent made = nullptr;
    check_driver(create(&made, flags), "cuEventCreate", {});
    return {made, destroy_event{device_scope::innermost()}};
}

void synchronize(CUstream_st* stream) {
    static const auto synchronize_stream = driver_function<decltype(&cuStreamSynchronize)>("cuStreamSynchronize");
    check_driver(synchronize_stream(stream), "cuStreamSynchronize", {});
}
void synchronize(CUevent_st* event) {
    static const auto synchronize_event = driver_function<decltype(&cuEventSynchronize)>("cuEventSynchronize");
    check_driver(synchronize_event(event), "cuEventSynchronize", {});
}

static_assert(CUDA_SUCCESS == success && CUDA_ERROR_NOT_READY == not_ready);
int query(CUstream_st* stream) noexcept {
    static const auto query_stream = driver_function<decltype(&cuStreamQuery)>("cuStreamQuery");
    return query_stream(stream);
}
bool is_capturing(CUstream_st* stream) noexcept {
    static const auto get = driver_function<decltype(&cuStreamIsCapturing)>("cuStreamIsCapturing");
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    return get(stream, &status) == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE;
}

int query(CUevent_st* event) noexcept {
    static const auto query_event = driver_function<decltype(&cuEventQuery)>("cuEventQuery");
    return query_event(event);
}

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
    static const auto record_event = driver_function<decltype(&cuEventRecordWithFlags)>("cuEventRecordWithFlags");
    const unsigned flags = is_capturing(stream) ? CU_EVENT_RECORD_EXTERNAL : CU_EVENT_RECORD_DEFAULT;
    check_driver(record_event(event, stream, flags), "cuEventRecordWithFlags", {});
}
void wait_for_foreign(CUstream_st* stream, CUevent_st* event) {
    static const auto wait_for_event = driver_function<decltype(&cuStreamWaitEvent)>("cuStreamWaitEvent");
    const unsigned flags = is_capturing(stream) ? CU_EVENT_WAIT_EXTERNAL : CU_EVENT_WAIT_DEFAULT;
    check_driver(wait_for_event(stream, event, flags), "cuStreamWaitEvent", {});
}

float elapsed_milliseconds(CUevent_st* earlier, CUevent_st* later) {
    static const auto elapsed = driver_function<decltype(&cuEventElapsedTime)>("cuEventElapsedTime");
    float milliseconds = 0;
    check_driver(elapsed(&milliseconds, earlier, later), "cuEventElapsedTime", {});
    return milliseconds;
}

void begin_range(const char* name) noexcept { nvtxRangePushA(name); }
void end_range() noexcept { nvtxRangePop(); }

}  // namespace sluice::cuda::api
