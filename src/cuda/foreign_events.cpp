// SPDX-License-Identifier: Apache-2.0
#include "sluice/cuda/foreign_streams.hpp"

#include <span>
#include <string_view>

#include "cuda/api/runtime.hpp"
#include "sluice/runtime/detail/closure.hpp"

namespace sluice::cuda {
namespace {

// What the command's closure holds.
struct event_call {
    event_operation::kind what;
    void* theirs;

    static void run(const native_stream& on, const void* erased) {
        const auto& it = *static_cast<const event_call*>(erased);
        auto* const ours = static_cast<CUstream_st*>(on.handle);
        switch (it.what) {
            case event_operation::kind::wait_for_event:
            case event_operation::kind::wait_for_interprocess_event:
                return api::wait_for_foreign(ours, static_cast<CUevent_st*>(it.theirs));
            case event_operation::kind::record_event:
            case event_operation::kind::record_interprocess_event:
                return api::record_foreign(static_cast<CUevent_st*>(it.theirs), ours);
            case event_operation::kind::wait_for_stream: {
                if (api::is_capturing(static_cast<CUstream_st*>(it.theirs)))
                    throw error(errc::invalid_argument, "the stream is being captured", {"wait_for_stream"});
                // CUDA destroys an event when what waits for it has passed.
                const api::event_handle now = api::create_event(api::event_use::ordering);
                api::record(now.get(), static_cast<CUstream_st*>(it.theirs));
                return api::wait(ours, now.get());
            }
        }
    }
};

std::string_view name_of(event_operation::kind what) {
    switch (what) {
        case event_operation::kind::wait_for_event:
        case event_operation::kind::wait_for_interprocess_event: return "wait_for_event";
        case event_operation::kind::record_event:
        case event_operation::kind::record_interprocess_event: return "record_event";
        case event_operation::kind::wait_for_stream: break;
    }
    return "wait_for_stream";
}

bool is_interprocess(event_operation::kind what) {
    return what == event_operation::kind::wait_for_interprocess_event ||
           what == event_operation::kind::record_interprocess_event;
}

}  // namespace

event_operation::output event_operation::submit(execution_context& context) && {
    submit_to(context.stream(), what_, theirs_, nullptr, location_);
    return {};
}

void event_operation::submit_to(stream on, kind what, void* theirs, storage* memory, const source_location& location) {
    const std::string_view name = name_of(what);
    const error_context here{name, on.owner().name(), location};
    if (on.owner().kind() != device_kind::cuda)
        throw error(errc::unsupported, "events and streams of CUDA are for GPUs", here);
    if (what != kind::wait_for_stream && theirs == nullptr)
        throw error(errc::invalid_argument, "the event is null", here);
    if (what == kind::wait_for_stream && on.is_recording()) {
        throw error(errc::graph_refused,
                    "a graph cannot wait for a stream: record an event there, and wait for the event", here);
    }
    if (is_interprocess(what) && on.is_recording()) {
        throw error(errc::graph_refused,
                    "a graph has no events of several processes: record it after the launch, or wait for it before",
                    here);
    }
    event_call call{what, theirs};
    const memory_access data{memory, access_mode::write};
    const std::span<const memory_access> accesses(&data, memory == nullptr ? 0 : 1);
    on.library_call({name, accesses, location}, detail::library_call_with(&event_call::run, call));
}

}  // namespace sluice::cuda
