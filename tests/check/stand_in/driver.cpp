// SPDX-License-Identifier: Apache-2.0
// A CUDA driver, libcuda.so.1, without a GPU, for tests of the recorder: it has one device that runs nothing. It loads
// the library that CUDA_INJECTION64_PATH names and reports its calls to the stand-in for CUPTI, as the real one does.
#include <cuda.h>
#include <cupti.h>
#include <dlfcn.h>

#include <cstdint>
#include <cstdlib>

#include "check/stand_in/reported_call.hpp"

namespace {

using sluice::check::testing::report_function;

report_function reporter() {
    static const auto found = [] {
        void* const cupti = ::dlopen("libcupti.so.13", RTLD_NOW | RTLD_NOLOAD);
        return cupti == nullptr ? nullptr : reinterpret_cast<report_function>(::dlsym(cupti, "stand_in_report"));
    }();
    return found;
}

// A call that succeeds: function() between its two reports.
template <typename Params, typename Function>
CUresult call(CUpti_CallbackId id, const Params& with, const Function& function) {
    CUresult result = CUDA_SUCCESS;
    if (reporter() != nullptr) reporter()(id, true, &with, &result);
    function();
    if (reporter() != nullptr) reporter()(id, false, &with, &result);
    return result;
}

constexpr auto nothing = [] {};

// Handles and addresses are numbers that were not given before.
std::uintptr_t next_number(std::uintptr_t bytes = 1) {
    static std::uintptr_t last = 0x10000;
    last += 0x1000;
    const std::uintptr_t at = last;
    last += bytes;
    return at;
}

}  // namespace

extern "C" {

CUresult cuInit(unsigned) {
    static bool is_started = false;
    const char* const injected = std::getenv("CUDA_INJECTION64_PATH");
    if (is_started || injected == nullptr) return CUDA_SUCCESS;
    is_started = true;
    void* const library = ::dlopen(injected, RTLD_NOW);
    if (library == nullptr) return CUDA_ERROR_OPERATING_SYSTEM;
    reinterpret_cast<int (*)()>(::dlsym(library, "InitializeInjection"))();
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int* count) {
    *count = std::getenv("STAND_IN_DEVICES") != nullptr ? std::atoi(std::getenv("STAND_IN_DEVICES")) : 1;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice* device) {
    *device = 0;
    return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream* stream, unsigned flags) {
    return call(CUPTI_DRIVER_TRACE_CBID_cuStreamCreate, cuStreamCreate_params{stream, flags},
                [&] { *stream = reinterpret_cast<CUstream>(next_number()); });
}

CUresult cuStreamSynchronize(CUstream stream) {
    return call(CUPTI_DRIVER_TRACE_CBID_cuStreamSynchronize, cuStreamSynchronize_params{stream}, nothing);
}

CUresult cuEventCreate(CUevent* event, unsigned) {
    *event = reinterpret_cast<CUevent>(next_number());
    return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
    return call(CUPTI_DRIVER_TRACE_CBID_cuEventRecord, cuEventRecord_params{event, stream}, nothing);
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
    return call(CUPTI_DRIVER_TRACE_CBID_cuStreamWaitEvent, cuStreamWaitEvent_params{stream, event, flags}, nothing);
}

CUresult cuMemAlloc(CUdeviceptr* at, std::size_t bytes) {
    return call(CUPTI_DRIVER_TRACE_CBID_cuMemAlloc_v2, cuMemAlloc_v2_params{at, bytes},
                [&] { *at = next_number(bytes); });
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, std::size_t count, CUstream stream) {
    return call(CUPTI_DRIVER_TRACE_CBID_cuMemsetD8Async, cuMemsetD8Async_params{to, value, count, stream}, nothing);
}

CUresult cuFuncGetName(const char** name, CUfunction) {
    *name = "_Z5scalePf";
    return CUDA_SUCCESS;
}

CUresult cuFuncGetParamInfo(CUfunction, std::size_t index, std::size_t* offset, std::size_t* bytes) {
    if (index != 0) return CUDA_ERROR_INVALID_VALUE;
    *offset = 0;
    *bytes = sizeof(CUdeviceptr);
    return CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                        unsigned block_y, unsigned block_z, unsigned shared, CUstream stream, void** values,
                        void** extra) {
    const cuLaunchKernel_params with{function, grid_x, grid_y, grid_z, block_x, block_y,
                                     block_z,  shared, stream, values, extra};
    return call(CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, with, nothing);
}

}  // extern "C"
