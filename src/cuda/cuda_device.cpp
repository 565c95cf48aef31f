// SPDX-License-Identifier: Apache-2.0
#include "cuda/cuda_device.hpp"

#include "cuda/cuda_graph_program.hpp"
#include "cuda/cuda_stream.hpp"
#include "runtime/backends.hpp"
#include "sluice/runtime/runtime.hpp"

namespace sluice {

namespace cuda {

cuda_device::cuda_device(int ordinal)
    : ordinal_(ordinal),
      properties_(api::properties(ordinal)),
      device_memory_(ordinal),
      pinned_memory_(ordinal),
      context_(ordinal, properties_) {}

std::unique_ptr<stream_interpreter> cuda_device::make_stream(command_queue& owner, const stream_options& options) {
    return std::make_unique<cuda_stream>(owner, ordinal_, options, marks_);
}

stream_options cuda_device::nearest(const stream_options& asked) const {
    const api::device_scope scope(ordinal_);
    return {.priority = api::nearest_priority(asked.priority)};
}

std::unique_ptr<graph_program> cuda_device::instantiate(sluice::device& owner, command_graph commands) {
    return std::make_unique<cuda_graph_program>(owner, ordinal_, std::move(commands));
}

}  // namespace cuda

found_devices find_cuda_devices(const runtime_options&) {
    found_devices found;
    const int count = cuda::api::device_count(found.why_none);
    for (int i = 0; i < count; ++i) found.interpreters.push_back(std::make_unique<cuda::cuda_device>(i));
    return found;
}

}  // namespace sluice
