// SPDX-License-Identifier: Apache-2.0
#include "cuda/cuda_device.hpp"

#include <algorithm>
#include <new>
#include <numeric>
#include <string>
#include <vector>

#include "cuda/api/commands.hpp"
#include "cuda/api/memory.hpp"
#include "cuda/cuda_graph_program.hpp"
#include "cuda/cuda_stream.hpp"
#include "runtime/backends.hpp"
#include "sluice/cuda/device_context.hpp"
#include "sluice/runtime/runtime.hpp"

namespace sluice {

namespace cuda {

cuda_device::cuda_device(int ordinal)
    : native_(api::gpu_context::renewed(ordinal)),
      properties_(api::properties(ordinal)),
      device_memory_(native_),
      pinned_memory_(native_),
      context_(ordinal, properties_) {}

std::unique_ptr<stream_interpreter> cuda_device::make_stream(command_queue& owner, const stream_options& options) {
    return std::make_unique<cuda_stream>(owner, native_, options, marks_);
}

stream_options cuda_device::nearest(const stream_options& asked) const {
    const api::device_scope scope(native_);
    const int priority = api::nearest_priority(asked.priority);
    return {.priority = priority,
            .foreign = asked.foreign,
            .replays = asked.replays && priority == 0 && !asked.foreign.has_value()};
}

std::unique_ptr<graph_program> cuda_device::instantiate(sluice::device& owner, command_graph commands) {
    return std::make_unique<cuda_graph_program>(owner, native_, std::move(commands));
}

// Allocated by the first launch that checks its bounds. Kernels write it only before a trap.
sluice::detail::access_record* cuda_device::access_report() noexcept {
    std::call_once(access_record_is_made_, [this]() noexcept {
        try {
            const api::device_scope scope(native_);
            void* const memory = api::allocate_pinned(sizeof(sluice::detail::access_record));
            if (memory != nullptr)
                access_record_ = {new (memory) sluice::detail::access_record,
                                  api::free_pinned_object<sluice::detail::access_record>{&native_}};
        } catch (...) {  // NOLINT(bugprone-empty-catch): then the error will not name the access
        }
        shown_access_record_.store(access_record_.get(), std::memory_order_release);
    });
    return access_record_.get();
}

const sluice::detail::access_record* cuda_device::reported_access() const noexcept {
    sluice::detail::access_record* const record = shown_access_record_.load(std::memory_order_acquire);
    if (record == nullptr) return nullptr;
    const std::atomic_ref<unsigned> state(record->state);
    return state.load(std::memory_order_acquire) == sluice::detail::access_record::is_complete ? record : nullptr;
}

}  // namespace cuda

found_devices find_cuda_devices(const runtime_options& options) {
    found_devices found;
    const int count = cuda::api::device_count(found.why_none);
    std::vector<int> numbers = options.gpus;
    for (const int each : numbers) {
        if (each >= 0 && each < count) continue;
        throw error(errc::device_not_found, "runtime_options::gpus names the GPU " + std::to_string(each) +
                                                "; CUDA found " + std::to_string(count) +
                                                (found.why_none.empty() ? "" : ": " + found.why_none));
    }
    if (numbers.empty()) {
        numbers.resize(static_cast<std::size_t>(count));
        std::iota(numbers.begin(), numbers.end(), 0);
    }
    for (auto each = numbers.begin(); each != numbers.end(); ++each) {
        if (std::find(numbers.begin(), each, *each) != each)
            throw error(errc::invalid_argument,
                        "runtime_options::gpus names the GPU " + std::to_string(*each) + " twice");
        found.interpreters.push_back(std::make_unique<cuda::cuda_device>(*each));
    }
    return found;
}

std::size_t resident_on_gpu(device& gpu, const launch_command& like, const error_context& context) {
    const cuda::api::device_scope scope(cuda::device_context::of(gpu).ordinal());
    if (like.function != nullptr)
        return cuda::api::resident_blocks(static_cast<CUfunc_st*>(like.function->handle), like, context);
    if (like.device_function == nullptr)
        throw error(errc::unsupported, "this launch was not compiled by nvcc, so the kernel has no GPU code", context);
    CUfunc_st* const kernel = cuda::api::find_kernel(like.device_function, context);
    if (like.shared_bytes > cuda::api::allowed_shared_memory(kernel, context))
        static_cast<void>(cuda::api::allow_shared_memory(kernel, context));
    return cuda::api::resident_blocks(kernel, like, context);
}

}  // namespace sluice
