// The driver's own functions, without linking to the driver: programs must start where there is none. And the checks of
// what CUDA returns.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <string>
#include <string_view>

#include "cuda/api/error.hpp"
#include "sluice/runtime/error.hpp"

namespace sluice::cuda::api {

inline void check(cudaError_t code, std::string_view call, const error_context& context = {}) {
    if (code == cudaSuccess) return;
    static_cast<void>(cudaGetLastError());  // what is not fatal must not turn up in somebody else's call
    fail(code, call, context);
}

// The driver's codes are the runtime's, number for number.
inline void check_driver(CUresult code, std::string_view call, const error_context& context) {
    if (code != CUDA_SUCCESS) check(static_cast<cudaError_t>(code), call, context);
}

// As of the given version of CUDA, which tells functions of one name apart. Throws errc::unsupported for a driver that
// has no such function.
template <typename Function>
Function driver_function(const char* name, unsigned version = 12000) {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result{};
    check(cudaGetDriverEntryPointByVersion(name, &found, version, cudaEnableDefault, &result),
          "cudaGetDriverEntryPoint");
    if (result != cudaDriverEntryPointSuccess) throw error(errc::unsupported, std::string("the driver has no ") + name);
    return reinterpret_cast<Function>(found);
}

}  // namespace sluice::cuda::api
