// SPDX-License-Identifier: Apache-2.0
// What other code in a worker process may do to its GPU: a library for LD_PRELOAD (scripts/faulting_workers). In
// processes of `sluice serve-worker` it reads lines from the FIFO $SLUICE_GPU_FAULTS/PID: what, and the device's
// number.
//     trap N, illegal N     a kernel fails, and with it the context of the process
//     hang N                a kernel that does not end takes all multiprocessors
//     memory N              takes all memory of the device for two seconds
#include <cuda_runtime.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

namespace {

__global__ void trap_on_device() { __trap(); }
__global__ void write_illegally(std::uintptr_t to) { *reinterpret_cast<volatile unsigned*>(to) = 1; }
__global__ void hang_on_device(const volatile unsigned* ends) {
    while (*ends == 0) {
    }
}

void hang() {
    unsigned* ends = nullptr;
    if (cudaMalloc(&ends, sizeof(*ends)) != cudaSuccess) return;
    cudaMemset(ends, 0, sizeof(*ends));
    int device = 0, units = 0, shared = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&units, cudaDevAttrMultiProcessorCount, device);
    cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    cudaFuncSetAttribute(hang_on_device, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
    // A block has all shared memory of its multiprocessor, so no other one fits.
    cudaStream_t own = nullptr;
    cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking);
    hang_on_device<<<static_cast<unsigned>(units), 1024, static_cast<std::size_t>(shared), own>>>(ends);
}

void take_memory() {
    std::vector<void*> taken;
    for (std::size_t size = std::size_t{1} << 33; size >= std::size_t{1} << 16;) {
        void* made = nullptr;
        if (cudaMalloc(&made, size) == cudaSuccess)
            taken.push_back(made);
        else
            size /= 2;
    }
    cudaGetLastError();
    std::this_thread::sleep_for(std::chrono::seconds(2));
    for (void* const each : taken) cudaFree(each);
}

void obey(const std::string& line) {
    const std::size_t space = line.find(' ');
    if (space == std::string::npos || cudaSetDevice(std::atoi(line.c_str() + space)) != cudaSuccess) return;
    const std::string what = line.substr(0, space);
    if (what == "trap") trap_on_device<<<1, 1>>>();
    if (what == "illegal") write_illegally<<<1, 1>>>(16);
    if (what == "hang") hang();
    if (what == "memory") take_memory();
}

bool is_worker() {
    std::ifstream file("/proc/self/cmdline", std::ios::binary);
    const std::string words{std::istreambuf_iterator<char>(file), {}};
    return words.find(std::string("\0serve-worker", 13)) != std::string::npos;
}

// The thread is never joined: workers end by _exit or by signals.
[[gnu::constructor]] void begin() {
    const char* const folder = std::getenv("SLUICE_GPU_FAULTS");
    if (folder == nullptr || !is_worker()) return;
    std::thread([path = std::string(folder) + "/" + std::to_string(::getpid())] {
        ::mkfifo(path.c_str(), 0600);
        const int open = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
        std::FILE* const lines = open < 0 ? nullptr : ::fdopen(open, "r");
        char line[64];
        while (lines != nullptr && std::fgets(line, sizeof(line), lines) != nullptr) obey(line);
    }).detach();
}

}  // namespace
