// SPDX-License-Identifier: Apache-2.0
// cub_and_thrust: NVIDIA's libraries inside a pipeline of Sluice. CUB makes running sums, with temporary storage from
// Sluice's pool, a function that takes a cuda::stream_ref launches a kernel of its own, and Thrust subtracts. Each
// works on the stream that Sluice gives it. The pipeline runs once as it is, and then compiled into a graph.
//
// The libraries are for GPUs only: on a machine without one, the program says so and ends with status 77.

#define LIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE  // CUDA 12 has cuda::stream_ref where this is defined
#include <thrust/device_ptr.h>
#include <thrust/execution_policy.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/transform.h>
#include <cub/device/device_scan.cuh>

#include <cstdio>
#include <cuda/stream_ref>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "sluice/runtime/native_call.hpp"
#include "sluice/sluice.hpp"

using namespace sluice;

namespace {

constexpr int no_gpu = 77;
constexpr int count = 100'000;

void require(cudaError_t code, const char* call) {
    if (code != cudaSuccess) throw std::runtime_error(std::string(call) + ": " + cudaGetErrorString(code));
}

cudaStream_t stream_of(const native_stream& on) { return static_cast<cudaStream_t>(on.handle); }

// CUB says how much temporary storage a call needs when it is given none.
auto running_sums(tensor<int> x) {
    std::size_t bytes = 0;
    require(cub::DeviceScan::InclusiveSum(nullptr, bytes, static_cast<const int*>(nullptr),
                                          static_cast<long long*>(nullptr), count),
            "InclusiveSum");
    // A native_call's function is copied byte by byte, as a kernel is: it captures only plain values.
    const auto scan = [bytes](const native_stream& on, long long* to, const int* from, unsigned char* scratch) {
        std::size_t size = bytes;
        require(cub::DeviceScan::InclusiveSum(scratch, size, from, to, count, stream_of(on)), "InclusiveSum");
    };
    return zip(uninitialized<long long>({count}), value(std::move(x)), uninitialized<unsigned char>({bytes}))
        .and_then([scan](auto to, auto from, auto scratch) {
            return native_call(scan, std::move(to), std::move(from), std::move(scratch)).first();
        });
}

// A function of another library, which takes a stream_ref.
__global__ void halve(long long* x, int size) {
    const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < size) x[i] /= 2;
}

void enqueue_halves(::cuda::stream_ref on, long long* x, int size) {
    halve<<<(size + 255) / 256, 256, 0, on.get()>>>(x, size);
    require(cudaGetLastError(), "halve");
}

// `::cuda` is NVIDIA's namespace; sluice::cuda is another one.
auto halves(tensor<long long> x) {
    return native_call([](const native_stream& on,
                          long long* data) { enqueue_halves(::cuda::stream_ref(stream_of(on)), data, count); },
                       std::move(x));
}

struct minus_position {
    __host__ __device__ long long operator()(long long value, int position) const { return value - position; }
};

// par_nosync enqueues and does not wait.
auto less_position(tensor<long long> x) {
    return native_call(
        [](const native_stream& on, long long* data) {
            const auto first = thrust::device_pointer_cast(data);
            thrust::transform(thrust::cuda::par_nosync.on(stream_of(on)), first, first + count,
                              thrust::counting_iterator<int>(0), first, minus_position());
        },
        std::move(x));
}

auto pipeline(tensor<int> x) {
    return running_sums(std::move(x)).and_then(halves).and_then(less_position).and_then(download);
}

std::vector<int> numbers() {
    std::vector<int> all(count);
    unsigned state = 1;
    for (int& each : all) {
        state = state * 1664525u + 1013904223u;
        each = static_cast<int>(state >> 8) - (1 << 23);
    }
    return all;
}

std::vector<long long> on_the_host(const std::vector<int>& numbers) {
    std::vector<long long> all(numbers.begin(), numbers.end());
    std::partial_sum(all.begin(), all.end(), all.begin());
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = all[i] / 2 - static_cast<long long>(i);
    return all;
}

void print(const char* how, const std::vector<long long>& is, const std::vector<long long>& expected) {
    std::printf("%s: %lld %lld ... %lld, %s\n", how, is[0], is[1], is.back(),
                is == expected ? "as on the host" : "not as on the host");
}

}  // namespace

int main() try {
    runtime machine;
    device& gpu = machine.default_device();
    if (gpu.kind() != device_kind::cuda) {
        std::fprintf(stderr, "cub_and_thrust: there is no GPU here, and CUB and Thrust need one\n");
        return no_gpu;
    }
    round_robin pool(gpu, 2);
    const std::vector<int> x = numbers();
    const std::vector<long long> expected = on_the_host(x);

    print("as it is", sync(upload(x).and_then(pipeline), pool), expected);

    const auto fast = compile(pool, pipeline, host_input<int>({count}));
    print("compiled", sync(fast(x), pool), expected);
} catch (const std::exception& failure) {
    std::fprintf(stderr, "cub_and_thrust: %s\n", failure.what());
    return 1;
}
