// SPDX-License-Identifier: Apache-2.0
// Of CUPTI what the recorder uses, for calls of the stand-in for the driver. With STAND_IN_PROFILER in the environment
// another subscriber is there already.
#include <cupti.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <utility>

#include "check/stand_in/reported_call.hpp"

namespace {

CUpti_CallbackFunc subscriber = nullptr;
std::array<bool, CUPTI_DRIVER_TRACE_CBID_SIZE> is_enabled{};

constexpr std::pair<CUpti_CallbackId, const char*> names[] = {
    {CUPTI_DRIVER_TRACE_CBID_cuStreamCreate, "cuStreamCreate"},
    {CUPTI_DRIVER_TRACE_CBID_cuStreamSynchronize, "cuStreamSynchronize"},
    {CUPTI_DRIVER_TRACE_CBID_cuEventRecord, "cuEventRecord"},
    {CUPTI_DRIVER_TRACE_CBID_cuStreamWaitEvent, "cuStreamWaitEvent"},
    {CUPTI_DRIVER_TRACE_CBID_cuMemAlloc_v2, "cuMemAlloc_v2"},
    {CUPTI_DRIVER_TRACE_CBID_cuMemsetD8Async, "cuMemsetD8Async"},
    {CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, "cuLaunchKernel"},
};

}  // namespace

extern "C" {

CUptiResult cuptiSubscribe(CUpti_SubscriberHandle* handle, CUpti_CallbackFunc callback, void*) {
    if (std::getenv("STAND_IN_PROFILER") != nullptr) return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
    *handle = reinterpret_cast<CUpti_SubscriberHandle>(&subscriber);
    subscriber = callback;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiEnableCallback(std::uint32_t yes, CUpti_SubscriberHandle, CUpti_CallbackDomain, CUpti_CallbackId id) {
    is_enabled[id] = yes != 0;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiGetCallbackName(CUpti_CallbackDomain, std::uint32_t id, const char** name) {
    for (const auto& each : names) {
        if (each.first != id) continue;
        *name = each.second;
        return CUPTI_SUCCESS;
    }
    return CUPTI_ERROR_INVALID_PARAMETER;
}

CUptiResult cuptiGetResultString(CUptiResult, const char** words) {
    *words = "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED";
    return CUPTI_SUCCESS;
}

void stand_in_report(CUpti_CallbackId id, bool begins, const void* params, CUresult* result) {
    if (subscriber == nullptr || !is_enabled[id]) return;
    CUpti_CallbackData data{};
    data.callbackSite = begins ? CUPTI_API_ENTER : CUPTI_API_EXIT;
    data.functionParams = params;
    data.functionReturnValue = result;
    subscriber(nullptr, CUPTI_CB_DOMAIN_DRIVER_API, id, &data);
}

}  // extern "C"
