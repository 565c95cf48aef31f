// SPDX-License-Identifier: Apache-2.0
#include "cuda/api/error.hpp"

#include <cuda_runtime_api.h>

#include "cuda/api/gpu_context.hpp"

namespace sluice::cuda::api {
namespace {

class cuda_category final : public std::error_category {
public:
    const char* name() const noexcept override { return "cuda"; }
    std::string message(int code) const override {
        const auto error = static_cast<cudaError_t>(code);
        return std::string(cudaGetErrorName(error)) + ", " + cudaGetErrorString(error);
    }
    std::error_condition default_error_condition(int code) const noexcept override {
        if (!is_fatal(code)) return {code, *this};
        return {static_cast<int>(errc::device_failed), sluice_category()};
    }
};

}  // namespace

const std::error_category& category() noexcept {
    static const cuda_category instance;
    return instance;
}

// After these no call succeeds any more, by CUDA's description of each code, or there is no device left to call. The
// rest is about one call. What captures of other code cause (cudaErrorStreamCaptureUnsupported and the codes after it)
// never is a fault, nor are a shortage and the end of the process.
bool is_fatal(int code) noexcept {
    constexpr int contained = 226;  // cudaErrorContained, which older toolkits do not name
    switch (code) {
        case cudaErrorECCUncorrectable:
        case cudaErrorNvlinkUncorrectable:
        case contained:
        case cudaErrorIllegalAddress:
        case cudaErrorLaunchTimeout:
        case cudaErrorContextIsDestroyed:
        case cudaErrorAssert:
        case cudaErrorHardwareStackError:
        case cudaErrorIllegalInstruction:
        case cudaErrorMisalignedAddress:
        case cudaErrorInvalidAddressSpace:
        case cudaErrorInvalidPc:
        case cudaErrorLaunchFailure:
        case cudaErrorTensorMemoryLeak:
        case cudaErrorMpsRpcFailure:
        case cudaErrorMpsClientTerminated:
        case cudaErrorExternalDevice:
        case cudaErrorUnknown: return true;
        default: return false;
    }
}

void fail(int code, std::string_view call, const error_context& context) {
    std::string text(call);
    error_context with = context;
    std::string device;  // the context has a view of it
    if (with.device.empty() && device_scope::innermost() != nullptr) {
        device = "cuda:" + std::to_string(device_scope::innermost()->ordinal());
        with.device = device;
    }
    throw device_error({code, category()}, text.append(" failed"), with);
}

}  // namespace sluice::cuda::api
