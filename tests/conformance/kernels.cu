// SPDX-License-Identifier: Apache-2.0
#include "conformance/kernels.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <stdexcept>

#include "sluice/runtime/launch.hpp"

namespace sluice::conformance {
namespace {

// Returns zero after a delay that the compiler cannot remove.
SLUICE_KERNEL unsigned spin(unsigned rounds) {
    unsigned state = rounds | 1;
    for (unsigned i = 0; i < rounds; ++i) state = state * 1664525u + 1013904223u + (state >> 16);
    return state == 0xdecafbad ? 1 : 0;
}

struct set_kernel {
    unsigned rounds;
    SLUICE_KERNEL void operator()(index_1d at, unsigned value, disjoint_view<unsigned> x) const {
        if (unsigned* const e = x.at(at)) *e = value + spin(rounds);
    }
};

struct step_kernel {
    unsigned rounds;
    SLUICE_KERNEL void operator()(index_1d at, unsigned addend, disjoint_view<unsigned> x) const {
        if (unsigned* const e = x.at(at)) {
            const unsigned before = *e;
            *e = 3 * before + addend + spin(rounds);
        }
    }
};

struct relay_kernel {
    unsigned rounds;
    SLUICE_KERNEL void operator()(index_1d at, view<const unsigned> from, disjoint_view<unsigned> to) const {
        if (unsigned* const e = to.at(at)) {
            const unsigned delay = spin(rounds);
            *e = from[at.value() + delay];  // read late
        }
    }
};

struct add_kernel {
    unsigned rounds;
    SLUICE_KERNEL void operator()(index_1d at, view<const unsigned> weight, disjoint_view<unsigned> x) const {
        if (unsigned* const e = x.at(at)) {
            const unsigned delay = spin(rounds);
            *e += weight[at.value() + delay];
        }
    }
};

}  // namespace

void set_on(stream on, tensor<unsigned>& x, unsigned value, unsigned rounds) {
    launch_on(on, set_kernel{rounds}, each_of(x), value, x);
}

void step_on(stream on, tensor<unsigned>& x, unsigned addend, unsigned rounds) {
    launch_on(on, step_kernel{rounds}, each_of(x), addend, x);
}

void relay_on(stream on, const tensor<unsigned>& from, tensor<unsigned>& to, unsigned rounds) {
    launch_on(on, relay_kernel{rounds}, each_of(to), from, to);
}

any_operation<tensor<unsigned>> step(tensor<unsigned> x, unsigned addend, unsigned rounds) {
    const auto all = each_of(x);
    return launch(step_kernel{rounds}, all, addend, std::move(x));
}

any_operation<tensor<unsigned>> add(shared_tensor<unsigned> weight, tensor<unsigned> x, unsigned rounds) {
    const auto all = each_of(x);
    return launch(add_kernel{rounds}, all, std::move(weight), std::move(x));
}

void copy_by_hand(const native_stream& on, const unsigned* from, unsigned* to, std::size_t size) {
    if (on.kind == device_kind::cpu) {
        std::copy(from, from + size, to);
        return;
    }
#if defined(__CUDACC__)
    const std::size_t half = size / 2;
    const auto check = [](cudaError_t code) {
        if (code != cudaSuccess) throw std::runtime_error(cudaGetErrorString(code));
    };
    const auto home = static_cast<cudaStream_t>(on.handle);
    // In a library call, and in a capture, the stream's device is current; elsewhere perhaps another one.
    cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    check(cudaStreamIsCapturing(home, &capture));
    int before = 0;
    check(cudaGetDevice(&before));
    if (capture == cudaStreamCaptureStatusNone) {
        cudaPointerAttributes memory{};
        check(cudaPointerGetAttributes(&memory, to));
        check(cudaSetDevice(memory.device));
    }
    // One of each device, never destroyed: a stream must not be destroyed while it is part of a capture.
    static std::mutex one_at_a_time;
    static std::map<int, cudaStream_t> arms;
    int current = 0;
    check(cudaGetDevice(&current));
    cudaStream_t arm = nullptr;
    {
        const std::lock_guard lock(one_at_a_time);
        cudaStream_t& kept = arms[current];
        if (kept == nullptr) check(cudaStreamCreateWithFlags(&kept, cudaStreamNonBlocking));
        arm = kept;
    }
    cudaEvent_t begun = nullptr, over = nullptr;
    check(cudaEventCreateWithFlags(&begun, cudaEventDisableTiming));
    check(cudaEventCreateWithFlags(&over, cudaEventDisableTiming));
    check(cudaEventRecord(begun, home));
    check(cudaStreamWaitEvent(arm, begun, 0));
    check(cudaMemcpyAsync(to, from, half * sizeof(unsigned), cudaMemcpyDeviceToDevice, home));
    check(cudaMemcpyAsync(to + half, from + half, (size - half) * sizeof(unsigned), cudaMemcpyDeviceToDevice, arm));
    check(cudaEventRecord(over, arm));
    check(cudaStreamWaitEvent(home, over, 0));
    check(cudaEventDestroy(begun));
    check(cudaEventDestroy(over));
    check(cudaSetDevice(before));
#endif
}

}  // namespace sluice::conformance
