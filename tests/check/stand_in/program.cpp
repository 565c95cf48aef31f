// SPDX-License-Identifier: Apache-2.0
// A program of the CUDA driver for tests of `sluice check PROGRAM`:
//
//   check_stand_in racy|ordered [status]     two streams use the same memory; ends with that status
//   check_stand_in waits                     the same as racy; then prints "ready" and waits for SIGTERM
//   check_stand_in silent [status]           uses no CUDA
//
// It prints its arguments.
#include <cuda.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

void run(bool is_ordered) {
    CUstream first{}, second{};
    CUdeviceptr memory{};
    CUevent done{};
    if (cuInit(0) != CUDA_SUCCESS) std::exit(1);
    cuStreamCreate(&first, CU_STREAM_NON_BLOCKING);
    cuStreamCreate(&second, CU_STREAM_NON_BLOCKING);
    cuMemAlloc(&memory, 4096);
    cuMemsetD8Async(memory, 0, 4096, first);
    if (is_ordered) {
        cuEventCreate(&done, CU_EVENT_DISABLE_TIMING);
        cuEventRecord(done, first);
        cuStreamWaitEvent(second, done, 0);
    }
    void* arguments[] = {&memory};
    cuLaunchKernel(reinterpret_cast<CUfunction>(&memory), 1, 1, 1, 1, 1, 1, 0, second, arguments, nullptr);
    cuStreamSynchronize(second);
}

[[noreturn]] void wait_for_sigterm() {
    sigset_t awaited;
    ::sigemptyset(&awaited);
    ::sigaddset(&awaited, SIGTERM);
    ::sigprocmask(SIG_BLOCK, &awaited, nullptr);
    std::puts("ready");
    std::fflush(stdout);
    int came = 0;
    ::sigwait(&awaited, &came);
    std::puts("ended by SIGTERM");
    std::exit(0);
}

}  // namespace

int main(int count, char** words) {
    if (count < 2) return 2;
    for (int i = 1; i < count; ++i) std::printf("%s\n", words[i]);
    if (std::strcmp(words[1], "silent") != 0) run(std::strcmp(words[1], "ordered") == 0);
    if (std::strcmp(words[1], "waits") == 0) wait_for_sigterm();
    return count > 2 ? std::atoi(words[2]) : 0;
}
