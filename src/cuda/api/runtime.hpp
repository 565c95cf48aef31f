// SPDX-License-Identifier: Apache-2.0
// The calls of CUDA for devices, streams and events, with their error mapping. Only the sources of this folder and
// kernels include CUDA's headers. Next to this: commands.hpp and memory.hpp.
//
// The plain functions throw device_error; those marked noexcept return the code (0 is success).
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "cuda/api/gpu_context.hpp"
#include "sluice/base/error.hpp"
#include "sluice/runtime/command.hpp"
#include "sluice/runtime/interpreter.hpp"

struct CUstream_st;
struct CUevent_st;

namespace sluice::cuda::api {

// --- devices ------------------------------------------------------------------------------------------

// The number of GPUs; if it is 0, `why` receives the reason.
int device_count(std::string& why);
device_properties properties(int ordinal);
std::string bus_id(int ordinal);  // "0000:1b:00.0"
unsigned driver_version();        // 13000: CUDA 13.0
memory_info memory(const gpu_context& of);

// --- handles --------------------------------------------------------------------------------------------

// They destroy a handle on any thread, while its context is usable; after that, nothing is left to be destroyed.
struct destroy_stream {
    const gpu_context* of = nullptr;
    void operator()(CUstream_st* stream) const noexcept;
};
struct destroy_event {
    const gpu_context* of = nullptr;
    void operator()(CUevent_st* event) const noexcept;
};
using stream_handle = std::unique_ptr<CUstream_st, destroy_stream>;
using event_handle = std::unique_ptr<CUevent_st, destroy_event>;

enum class event_use { ordering, sleeping, timing };

// These create in the context of the innermost scope.
stream_handle create_stream(int priority);  // does not synchronise with the legacy default stream
int nearest_priority(int asked);            // the nearest that the current device supports
event_handle create_event(event_use use);

// --- streams and events -----------------------------------------------------------------------------------

// The stream's device must be current: a device_scope is open.
void synchronize(CUstream_st* stream);
void synchronize(CUevent_st* event);
constexpr int success = 0;
constexpr int not_ready = 600;
int query(CUstream_st* stream) noexcept;
bool is_capturing(CUstream_st* stream) noexcept;  // whether it is being recorded into a graph
int query(CUevent_st* event) noexcept;
void record(CUevent_st* event, CUstream_st* stream);
void wait(CUstream_st* stream, CUevent_st* event);
// Whether the handle means another stream on each thread.
bool is_per_thread(CUstream_st* stream) noexcept;
// The number of the device that the stream belongs to.
int ordinal_of(CUstream_st* stream);
// Record and wait for events of other code. In a stream that is captured, they become nodes: the event is then
// recorded, or waited for, at each launch of the graph.
void record_foreign(CUevent_st* event, CUstream_st* stream);
void wait_for_foreign(CUstream_st* stream, CUevent_st* event);
float elapsed_milliseconds(CUevent_st* earlier, CUevent_st* later);

// --- profilers ---------------------------------------------------------------------------------------------------

// An NVTX range of the calling thread; costs a few nanoseconds without a profiler.
void begin_range(const char* name) noexcept;
void end_range() noexcept;

}  // namespace sluice::cuda::api
