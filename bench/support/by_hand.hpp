// SPDX-License-Identifier: Apache-2.0
// For the hand-written versions: checked CUDA calls, and owners of CUDA's handles and memory.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <stdexcept>

namespace sluice::bench {

inline void check(cudaError_t code) {
    if (code != cudaSuccess) throw std::runtime_error(cudaGetErrorString(code));
}

struct free_pinned {
    void operator()(void* data) const noexcept { static_cast<void>(cudaFreeHost(data)); }
};
struct free_device {
    void operator()(void* data) const noexcept { static_cast<void>(cudaFree(data)); }
};
struct destroy_stream {
    void operator()(cudaStream_t stream) const noexcept { static_cast<void>(cudaStreamDestroy(stream)); }
};
struct destroy_event {
    void operator()(cudaEvent_t event) const noexcept { static_cast<void>(cudaEventDestroy(event)); }
};

template <typename T>
using pinned_array = std::unique_ptr<T[], free_pinned>;
template <typename T>
using device_array = std::unique_ptr<T[], free_device>;
using stream_by_hand = std::unique_ptr<CUstream_st, destroy_stream>;
using event_by_hand = std::unique_ptr<CUevent_st, destroy_event>;

template <typename T>
pinned_array<T> make_pinned(std::size_t size) {
    T* data = nullptr;
    check(cudaMallocHost(reinterpret_cast<void**>(&data), size * sizeof(T)));
    return pinned_array<T>(data);
}
template <typename T>
device_array<T> make_device(std::size_t size) {
    T* data = nullptr;
    check(cudaMalloc(reinterpret_cast<void**>(&data), size * sizeof(T)));
    return device_array<T>(data);
}
inline stream_by_hand make_stream() {
    cudaStream_t made = nullptr;
    check(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking));
    return stream_by_hand(made);
}
inline event_by_hand make_event() {
    cudaEvent_t made = nullptr;
    check(cudaEventCreateWithFlags(&made, cudaEventDisableTiming));
    return event_by_hand(made);
}

}  // namespace sluice::bench
