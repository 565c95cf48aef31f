// SPDX-License-Identifier: Apache-2.0
// A plain CUDA program, without Sluice: processes whose kernels fault, next to processes that compute, on one GPU.
//
// On an H200 (driver 580.159.04, CUDA 13.0, 2026-11-27), when two processes or more fault at the same time:
// - cudaDeviceSynchronize may report success after a misaligned write. The kernel's threads continue after the write,
//   what other streams copy afterwards arrives, and a second later the error is there: in 7 of 20 runs of `misaligned`,
//   two at a time (twice), in 86 of 160, ten at a time, and in 9 of 170 of `gated-misaligned` next to the other modes.
// - a trap may not end within 60 s: 9 of 80, ten at a time; 5 of 35 of `trap` next to the other modes.
// With one process that faults, alone (67 runs) or next to one or four that compute (42), every error came at once; so
// did that of a write to an address that is not mapped, whatever ran next to it.
//
//     nvcc -std=c++20 -arch=sm_90 bench/probes/faults_side_by_side.cu -o faults
//     seq 20 | xargs -P 2 -I{} ./faults misaligned
//     seq 80 | xargs -P 10 -I{} timeout 60 ./faults trap
//
//   busy SECONDS      eight streams that count, 8 launches a round; says when a count is wrong or a round takes 2 s
//   held SECONDS      the same after a host function of 100 ms on each stream
//   long SECONDS      kernels of 20 ms, one after the other, without a fault
//   trap              a kernel that waits 0.6 s for the host and then traps, says when that takes 8 s
//   misaligned        the same with a write to an address that is not a multiple of four
//   bad               a kernel that writes to an address that is not mapped
//   gated-trap        a host function holds a stream for 0.3 s; the kernel after it traps; twelve streams wait for the
//                     kernel and copy what it wrote
//   gated-misaligned  the same with a write to an address that is not a multiple of four
//   gated-bad         the same with a write to an address that is not mapped
//
// A program that expects a fault and has none says so, says what the kernel wrote, and ends with 1.
#include <cuda_runtime.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <thread>

namespace {

using steady = std::chrono::steady_clock;

enum class kind { trap, misaligned, bad };

constexpr unsigned numbers = 1000;

__device__ void break_now(kind how, unsigned* to) {
    if (how == kind::trap) __trap();
    if (how == kind::misaligned) *reinterpret_cast<volatile unsigned*>(reinterpret_cast<char*>(to) + 1) = 1;
    if (how == kind::bad) *reinterpret_cast<volatile unsigned*>(16) = 1;
}

__global__ void count(int* to) { atomicAdd(to, 1); }
__global__ void run_20_ms() {
    unsigned long long begin = 0, now = 0;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
    do asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    while (now - begin < 20'000'000);
}
__global__ void break_when_asked(const volatile int* asked, kind how, unsigned* to) {
    while (*asked == 0) __nanosleep(1000);
    if (blockIdx.x == 1) break_now(how, to);
}
// Writes 1 before the fault and 2 after it.
__global__ void break_after_a_write(kind how, unsigned* to) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= numbers) return;
    static_cast<volatile unsigned*>(to)[i] = 1;
    break_now(how, to + numbers + i);
    static_cast<volatile unsigned*>(to)[i] = 2;
}

double seconds_since(steady::time_point begin) { return std::chrono::duration<double>(steady::now() - begin).count(); }

void wait_100_ms(void*) { std::this_thread::sleep_for(std::chrono::milliseconds(100)); }
void wait_300_ms(void*) { std::this_thread::sleep_for(std::chrono::milliseconds(300)); }

int busy(double seconds, bool is_held) {
    const auto begin = steady::now();
    int *counter = nullptr, counted = 0, expected = 0;
    cudaMalloc(&counter, sizeof(*counter));
    cudaMemset(counter, 0, sizeof(*counter));
    std::array<cudaStream_t, 8> streams{};
    for (cudaStream_t& each : streams) cudaStreamCreateWithFlags(&each, cudaStreamNonBlocking);
    cudaDeviceSynchronize();
    while (seconds_since(begin) < seconds) {
        const auto round = steady::now();
        for (const cudaStream_t each : streams) {
            if (is_held) cudaLaunchHostFunc(each, wait_100_ms, nullptr);
            count<<<1, 1, 0, each>>>(counter);
            ++expected;
        }
        cudaDeviceSynchronize();
        const cudaError_t code = cudaMemcpy(&counted, counter, sizeof(counted), cudaMemcpyDeviceToHost);
        if (code != cudaSuccess || counted != expected) {
            std::printf("counted %d of %d: %s\n", counted, expected, cudaGetErrorString(code));
            return 1;
        }
        if (seconds_since(round) > 2) std::printf("a round took %.1f s\n", seconds_since(round));
    }
    return 0;
}

int long_kernels(double seconds) {
    const auto begin = steady::now();
    cudaError_t code = cudaSuccess;
    while (code == cudaSuccess && seconds_since(begin) < seconds) {
        run_20_ms<<<8, 32>>>();
        code = cudaDeviceSynchronize();
    }
    if (code != cudaSuccess) std::printf("long kernels: %s\n", cudaGetErrorString(code));
    return code == cudaSuccess ? 0 : 1;
}

// Says what went wrong after the kernel should have faulted.
int judged(cudaError_t code, double seconds) {
    if (seconds > 8) std::printf("%s after %.1f s\n", cudaGetErrorString(code), seconds);
    if (code != cudaSuccess) return 0;
    std::this_thread::sleep_for(std::chrono::seconds(1));
    const cudaError_t later = cudaDeviceSynchronize();
    std::printf("there was no fault; a second later: %s\n", cudaGetErrorString(later));
    return 1;
}

int fault(kind how) {
    const auto begin = steady::now();
    int* asked = nullptr;
    unsigned* memory = nullptr;
    cudaHostAlloc(&asked, sizeof(*asked), cudaHostAllocMapped);
    cudaMalloc(&memory, 64);
    *asked = how == kind::bad ? 1 : 0;
    break_when_asked<<<2, 32>>>(asked, how, memory);
    if (how != kind::bad) std::this_thread::sleep_for(std::chrono::milliseconds(600));
    *static_cast<volatile int*>(asked) = 1;
    return judged(cudaDeviceSynchronize(), seconds_since(begin));
}

int gated_fault(kind how) {
    unsigned *memory = nullptr, *copies = nullptr;
    cudaMalloc(&memory, 2 * (numbers + 1) * sizeof(*memory));
    cudaMemset(memory, 0, 2 * (numbers + 1) * sizeof(*memory));
    std::array<cudaStream_t, 13> streams{};
    for (cudaStream_t& each : streams) cudaStreamCreateWithFlags(&each, cudaStreamNonBlocking);
    cudaHostAlloc(&copies, (streams.size() - 1) * numbers * sizeof(*copies), cudaHostAllocDefault);
    cudaFuncAttributes loaded{};
    cudaFuncGetAttributes(&loaded, break_after_a_write);
    cudaEvent_t broken = nullptr;
    cudaEventCreateWithFlags(&broken, cudaEventDisableTiming);
    cudaDeviceSynchronize();
    const auto begin = steady::now();
    cudaLaunchHostFunc(streams[0], wait_300_ms, nullptr);
    break_after_a_write<<<(numbers + 255) / 256, 256, 0, streams[0]>>>(how, memory);
    cudaEventRecord(broken, streams[0]);
    for (std::size_t i = 1; i < streams.size(); ++i) {
        cudaStreamWaitEvent(streams[i], broken);
        cudaMemcpyAsync(copies + (i - 1) * numbers, memory, numbers * sizeof(*copies), cudaMemcpyDeviceToHost,
                        streams[i]);
    }
    const int result = judged(cudaDeviceSynchronize(), seconds_since(begin));
    if (result == 0) return 0;
    std::array<unsigned, 3> seen{};
    for (unsigned i = 0; i < numbers; ++i) ++seen[copies[i] < 3 ? copies[i] : 0];
    std::printf("of %u threads, %u did not run, %u stopped at the fault, %u went past it\n", numbers, seen[0], seen[1],
                seen[2]);
    return result;
}

}  // namespace

int main(int count, char** arguments) {
    const std::string_view what = count >= 2 ? arguments[1] : "";
    setenv("CUDA_MODULE_LOADING", "EAGER", 1);
    if (count == 3 && what == "busy") return busy(std::atof(arguments[2]), false);
    if (count == 3 && what == "held") return busy(std::atof(arguments[2]), true);
    if (count == 3 && what == "long") return long_kernels(std::atof(arguments[2]));
    if (count == 2 && what == "trap") return fault(kind::trap);
    if (count == 2 && what == "misaligned") return fault(kind::misaligned);
    if (count == 2 && what == "bad") return fault(kind::bad);
    if (count == 2 && what == "gated-trap") return gated_fault(kind::trap);
    if (count == 2 && what == "gated-misaligned") return gated_fault(kind::misaligned);
    if (count == 2 && what == "gated-bad") return gated_fault(kind::bad);
    std::fprintf(stderr,
                 "usage: faults_side_by_side busy|held|long SECONDS\n"
                 "       faults_side_by_side [gated-]trap|[gated-]misaligned|[gated-]bad\n");
    return 2;
}
