// SPDX-License-Identifier: Apache-2.0
// For tests/install/nvidia_wheels, which puts this code next to the library of the Python package: opens the libraries
// of CUDA as the package does when a GPU first needs them, on machines without one.
#include <cstdio>
#include <exception>

#include "cuda/api/shared_library.hpp"

namespace {

using sluice::cuda::api::shared_library;

// NVRTC needs no GPU. Its own further library is opened by the first compilation.
bool compiles_a_kernel(const shared_library& nvrtc) {
    struct program;
    int (*create)(program**, const char*, const char*, int, const char* const*, const char* const*) = nullptr;
    int (*compile)(program*, int, const char* const*) = nullptr;
    int (*destroy)(program**) = nullptr;
    nvrtc.find(create, "nvrtcCreateProgram");
    nvrtc.find(compile, "nvrtcCompileProgram");
    nvrtc.find(destroy, "nvrtcDestroyProgram");
    program* made = nullptr;
    const char* const options[] = {"--gpu-architecture=sm_90"};
    if (create(&made, "extern \"C\" __global__ void twice(float* x) { x[threadIdx.x] *= 2; }", "twice.cu", 0, nullptr,
               nullptr) != 0)
        return false;
    const bool is_compiled = compile(made, 1, options) == 0;
    return destroy(&made) == 0 && is_compiled;
}

}  // namespace

// 0 when all libraries are open and a kernel was compiled, else 1; the reason is on stderr.
extern "C" int open_the_libraries(int major) {
    try {
        const shared_library cublas("cublas", major);
        const shared_library cublaslt("cublasLt", major);
        const shared_library nvrtc("nvrtc", major);
        int (*version)() = nullptr;
        cublaslt.find(version, "cublasLtGetVersion");
        if (compiles_a_kernel(nvrtc)) return 0;
        std::fputs("NVRTC cannot compile a kernel\n", stderr);
    } catch (const std::exception& refused) {
        std::fprintf(stderr, "%s\n", refused.what());
    }
    return 1;
}
