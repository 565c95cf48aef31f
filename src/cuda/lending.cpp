// SPDX-License-Identifier: Apache-2.0
#include "sluice/cuda/lending.hpp"

#include <string_view>
#include <vector>

#include "cuda/api/runtime.hpp"
#include "sluice/base/error.hpp"
#include "sluice/runtime/detail/closure.hpp"
#include "sluice/runtime/device.hpp"

namespace sluice::cuda {
namespace {

// What the command's closure holds.
struct order_call {
    CUstream_st* theirs;
    bool theirs_waits;  // else ours does

    static void run(const native_stream& on, const void* erased) {
        const auto& it = *static_cast<const order_call*>(erased);
        auto* const ours = static_cast<CUstream_st*>(on.handle);
        if (api::is_capturing(it.theirs))
            throw error(errc::invalid_argument, "the stream is being captured",
                        {it.theirs_waits ? "lend_to" : "take_back_from"});
        // CUDA destroys an event when what waits for it has passed.
        const api::event_handle now = api::create_event(api::event_use::ordering);
        api::record(now.get(), it.theirs_waits ? ours : it.theirs);
        api::wait(it.theirs_waits ? it.theirs : ours, now.get());
    }
};

void submit(std::string_view name, stream ours, order_call call, std::span<storage* const> memory,
            const source_location& location) {
    const error_context here{name, ours.owner().name(), location};
    if (ours.owner().kind() != device_kind::cuda) throw error(errc::unsupported, "streams of CUDA are for GPUs", here);
    if (ours.is_recording())
        throw error(errc::graph_refused, "a graph lends no memory: lend what its launch has made", here);
    if (api::is_per_thread(call.theirs)) {
        throw error(errc::unsupported, "cudaStreamPerThread is another stream on each thread: create a stream", here);
    }
    std::vector<memory_access> accesses;
    accesses.reserve(memory.size());
    for (storage* const each : memory) accesses.push_back({each, access_mode::write});
    ours.library_call({name, accesses, location}, detail::library_call_with(&order_call::run, call));
}

}  // namespace

void lend_to(stream ours, CUstream_st* theirs, std::span<storage* const> memory, const source_location& location) {
    submit("lend_to", ours, {theirs, true}, memory, location);
}

void take_back_from(stream ours, CUstream_st* theirs, std::span<storage* const> memory,
                    const source_location& location) {
    submit("take_back_from", ours, {theirs, false}, memory, location);
}

}  // namespace sluice::cuda
