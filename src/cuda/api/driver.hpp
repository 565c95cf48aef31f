// SPDX-License-Identifier: Apache-2.0
// Functions of the driver, called without linking to it, because programs must start where no driver is installed. Also
// the checks of CUDA's return codes.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "cuda/api/error.hpp"
#include "sluice/base/error.hpp"
#include "sluice/runtime/command.hpp"

namespace sluice::cuda::api {

inline void check(cudaError_t code, std::string_view call, const error_context& context = {}) {
    if (code == cudaSuccess) return;
    static_cast<void>(cudaGetLastError());  // an error that is not fatal must not be reported by a later call
    fail(code, call, context);
}

// The driver's codes have the same numbers as the runtime's. The driver keeps no last error, so the calling thread's,
// which other code may not have read yet, stays.
inline void check_driver(CUresult code, std::string_view call, const error_context& context) {
    if (code != CUDA_SUCCESS) fail(code, call, context);
}

// The arguments of a launch in the driver's form: a kernel takes one, the closure; a function of a module takes parts
// of the closure. CUDA only reads them.
class launch_arguments {
public:
    explicit launch_arguments(const launch_command& command) noexcept {
        auto* const closure = static_cast<std::byte*>(const_cast<void*>(command.closure));
        all_[0] = closure;
        if (command.function == nullptr) return;
        std::size_t next = 0;
        for (const std::size_t offset : command.function->offsets) all_[next++] = closure + offset;
    }
    void** get() noexcept { return all_.data(); }

private:
    std::array<void*, loaded_function::max_parameters> all_;  // not initialised beyond the arguments
};

inline CUdeviceptr address(const void* data) noexcept { return reinterpret_cast<CUdeviceptr>(data); }

// Looks up a driver function as of the given CUDA version, which distinguishes functions of one name. Throws
// errc::unsupported when the driver does not have the function.
template <typename Function>
Function driver_function(const char* name, unsigned version = 12000) {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result{};
    check(cudaGetDriverEntryPointByVersion(name, &found, version, cudaEnableDefault, &result),
          "cudaGetDriverEntryPoint");
    if (result != cudaDriverEntryPointSuccess)
        throw error(errc::unsupported, std::string("the driver has no function ") + name);
    return reinterpret_cast<Function>(found);
}

}  // namespace sluice::cuda::api
