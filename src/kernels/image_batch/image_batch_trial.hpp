// SPDX-License-Identifier: Apache-2.0
// Trials of the ways of a convolution on a GPU: each is timed inside a graph, so that the host's time does not count.
#pragma once

#include <cstddef>

#include "cuda/api/graph.hpp"
#include "cuda/api/memory.hpp"
#include "cuda/api/runtime.hpp"
#include "kernels/image_batch/image_batch_run.hpp"

namespace sluice::kernels {

// Memory of the device for trials; null when there is not enough.
struct trial_memory {
    std::byte* data;

    explicit trial_memory(std::size_t bytes) : data(static_cast<std::byte*>(cuda::api::allocate_device(bytes))) {}
    trial_memory(const trial_memory&) = delete;  // it owns memory
    trial_memory& operator=(const trial_memory&) = delete;
    ~trial_memory() {
        if (data != nullptr) cuda::api::free_device(of_, data);
    }

private:
    const cuda::api::gpu_context& of_ = *cuda::api::device_scope::innermost();
};

// Has a stream of its own.
class convolution_trial {
public:
    // `starts_early`: as in a graph of the device, kernels may start before the one before them has ended.
    convolution_trial(batch_libraries& libraries, kernel_handles& kernels, bool starts_early)
        : libraries_(libraries),
          kernels_(kernels),
          starts_early_(starts_early),
          stream_(cuda::api::create_stream(0)),
          from_(cuda::api::create_event(cuda::api::event_use::timing)),
          to_(cuda::api::create_event(cuda::api::event_use::timing)) {}

    // Sets the time of the step; false where the way does not work.
    bool measure(const batch_call& call, const image_step& step, convolution_way& by, void* workspace) const;

private:
    batch_libraries& libraries_;
    kernel_handles& kernels_;
    const bool starts_early_;
    cuda::api::stream_handle stream_;
    cuda::api::event_handle from_, to_;
};

}  // namespace sluice::kernels
