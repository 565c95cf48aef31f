// SPDX-License-Identifier: Apache-2.0
#include "cuda/api/shared_library.hpp"

#include <dlfcn.h>

#include "sluice/base/error.hpp"

namespace sluice::cuda::api {

shared_library::shared_library(std::string_view name, int major)
    : file_("lib" + std::string(name) + ".so." + std::to_string(major)) {
    std::string reasons;
    for (const std::string& path : {file_, "/usr/local/cuda/lib64/" + file_}) {
        handle_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (handle_ != nullptr) return;
        reasons.append("; ").append(dlerror());
    }
    throw error(errc::unsupported, "cannot open " + file_ + reasons);
}

void* shared_library::symbol_address(const char* symbol) const {
    void* const address = symbol_or_null(symbol);
    if (address == nullptr) throw error(errc::unsupported, file_ + " has no function " + symbol);
    return address;
}

void* shared_library::symbol_or_null(const char* symbol) const noexcept { return dlsym(handle_, symbol); }

}  // namespace sluice::cuda::api
