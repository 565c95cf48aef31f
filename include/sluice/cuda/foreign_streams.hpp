// SPDX-License-Identifier: Apache-2.0
// Streams and events of other code: CUDA streams and events that Sluice did not create.
//
//     cudaStream_t theirs = ...;
//     cuda::foreign_stream on_theirs(gpu, theirs);
//     sync(upload(x).and_then(layer).and_then(download), on_theirs);    // runs on their stream
//
//     cuda::wait_for(their_event).then(work(x))                          // on any stream, after their event
//     work(x).then(cuda::record(our_event))                              // their streams can wait for our_event
//
// All of it is for GPUs; on another device it throws errc::unsupported. The streams and events stay the caller's.
// Sluice's own streams are non-blocking: they are not ordered with the legacy default stream. Work on a default stream
// is waited for through an event, or Sluice runs on it (null or cudaStreamLegacy). cudaStreamPerThread is refused with
// errc::unsupported: it is another stream on each thread, and Sluice queries a stream from several threads.
#pragma once

#include "sluice/base/source_location.hpp"
#include "sluice/op/operation.hpp"
#include "sluice/runtime/execution_context.hpp"
#include "sluice/runtime/scheduling_policy.hpp"

struct CUstream_st;  // a cudaStream_t points to it
struct CUevent_st;   // a cudaEvent_t points to it

namespace sluice::cuda {

// A policy with one stream, which is the caller's. Sluice's commands run in order with what the caller enqueues there.
//
// The caller keeps the stream until the policy is destroyed, which blocks until Sluice's commands on it are complete.
// Waiting for an operation may also wait for what the caller has enqueued after it. Several policies at a time for one
// stream are possible; they order their commands as for several streams.
class foreign_stream final : public scheduling_policy {
public:
    // Throws errc::invalid_argument when the stream belongs to another GPU or is being captured. Costs a search among
    // the device's streams, and questions to the driver.
    foreign_stream(device& gpu, CUstream_st* theirs) : stream_(gpu, stream_options{.foreign = theirs}) {}

    stream next() override { return *stream_; }

private:
    stream_lease stream_;
};

// The three operations below are one command each, on the stream of the operation that they are part of. The command
// names no data, so what is to come after it, or before it, is said with then(...). They do not block.
class event_operation : public operation_base<event_operation> {
public:
    using output = std::tuple<>;
    // What the command does. The functions below and those of interprocess.hpp choose it.
    enum class kind : unsigned char {
        wait_for_event,
        wait_for_stream,
        record_event,
        // See interprocess.hpp.
        wait_for_interprocess_event,
        record_interprocess_event,
    };

    event_operation(kind what, void* theirs, source_location location)
        : what_(what), theirs_(theirs), location_(location) {}

    output submit(execution_context& context) &&;
    // Names the memory, unless it is null, as written: its commands come before or after the event, on any stream.
    // Costs one command.
    static void submit_to(stream on, kind what, void* theirs, storage* memory, const source_location& location);
    work_estimate estimate() const { return {.commands = 1}; }

private:
    kind what_;
    void* theirs_;
    source_location location_;
};

// Waits, on the device, for the event's latest record before the submission; in a compiled graph, before each launch.
// The event may belong to another GPU of the process, and must live until the wait is over. It was not recorded in a
// stream that is being captured. Submitting it costs one command.
inline event_operation wait_for(CUevent_st* event, source_location location = source_location::current()) {
    return {event_operation::kind::wait_for_event, event, location};
}
// Waits for what was enqueued on that stream before the submission. A compiled graph refuses it: record an event there.
// A stream that is being captured is refused with errc::invalid_argument. Submitting it costs one command.
inline event_operation wait_for(CUstream_st* stream, source_location location = source_location::current()) {
    return {event_operation::kind::wait_for_stream, stream, location};
}
// Records the event; in a compiled graph, at each launch. The event belongs to the stream's GPU. Submitting it costs
// one command.
inline event_operation record(CUevent_st* event, source_location location = source_location::current()) {
    return {event_operation::kind::record_event, event, location};
}

}  // namespace sluice::cuda
