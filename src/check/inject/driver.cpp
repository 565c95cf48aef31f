// SPDX-License-Identifier: Apache-2.0
#include "check/inject/driver.hpp"

#include <dlfcn.h>

namespace sluice::check {
namespace {

template <typename Function>
void find(void* in, const char* name, Function& to) {
    to = in == nullptr ? nullptr : reinterpret_cast<Function>(::dlsym(in, name));
}

driver_functions load() {
    void* const library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    driver_functions made{};
    find(library, "cuCtxGetDevice", made.context_device);
    find(library, "cuStreamGetFlags", made.stream_flags);
    find(library, "cuFuncGetName", made.function_name);
    find(library, "cuFuncGetParamInfo", made.parameter);
    find(library, "cuKernelGetParamInfo", made.kernel_parameter);
    find(library, "cuKernelGetName", made.kernel_name);
    find(library, "cuThreadExchangeStreamCaptureMode", made.exchange_mode);
    return made;
}

}  // namespace

const driver_functions& driver() {
    static const driver_functions loaded = load();
    return loaded;
}

}  // namespace sluice::check
