// SPDX-License-Identifier: Apache-2.0
// A program for compute-sanitizer: memory of cudaMalloc becomes a tensor, and the program frees it by itself.
//
//     compute-sanitizer --tool memcheck --error-exitcode 9 frees_early early    # must report the kernel: status 9
//     compute-sanitizer --tool memcheck --error-exitcode 9 frees_early late     # must report nothing: status 0
//
//   early     before the kernel that writes it is launched: the mistake
//   late      after the kernel is complete: the same program without the mistake
//
// Without the tool the kernel may write the freed memory unnoticed. Status 1: CUDA or Sluice fails where nothing was
// freed too early; 2: a wrong argument; 77: there is no GPU.
#include <cuda_runtime.h>

#include <cstdio>
#include <exception>
#include <string_view>

#include "sluice/sluice.hpp"

namespace {

using namespace sluice;

struct write_lent_memory {
    SLUICE_KERNEL void operator()(index_1d at, disjoint_view<unsigned> x) const {
        if (unsigned* const element = x.at(at)) *element = 1;
    }
};

bool succeeds(cudaError_t code, const char* what) {
    if (code != cudaSuccess) std::printf("%s: %s\n", what, cudaGetErrorString(code));
    return code == cudaSuccess;
}

int run(device& gpu, bool is_early) {
    constexpr std::size_t size = 1024;
    unsigned* data = nullptr;
    if (!succeeds(cudaMalloc(&data, size * sizeof(unsigned)), "cudaMalloc")) return 1;

    single_stream pool(gpu);
    tensor<unsigned> x = adopt(gpu, data, {size}, [](unsigned*) {});  // the program frees it, not the tensor
    if (is_early && !succeeds(cudaFree(data), "cudaFree")) return 1;
    try {
        const auto extent = each_of(x);
        x = sync(launch(write_lent_memory{}, extent, std::move(x)), pool);
    } catch (const std::exception& fault) {
        std::printf("the kernel failed: %s\n", fault.what());
        return is_early ? 0 : 1;  // memcheck ends a kernel at its first wrong access
    }
    std::printf("the kernel is complete\n");
    return is_early || succeeds(cudaFree(data), "cudaFree") ? 0 : 1;
}

}  // namespace

int main(int count, char** arguments) {
    const std::string_view when = count == 2 ? arguments[1] : "";
    if (when != "early" && when != "late") {
        std::printf("usage: frees_early early|late\n");
        return 2;
    }
    try {
        runtime machine;
        if (!machine.why_no_gpu().empty()) {
            std::printf("no GPU: %s\n", machine.why_no_gpu().data());
            return 77;
        }
        return run(machine.default_device(), when == "early");
    } catch (const std::exception& failure) {
        std::printf("%s\n", failure.what());
        return 1;
    }
}
