// SPDX-License-Identifier: Apache-2.0
// Every call of the CUDA runtime that Sluice makes, with its error mapping. Only the sources of this folder and kernels
// include CUDA's headers.
//
// The plain functions throw device_error; those marked noexcept return the code (0 is success).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sluice/base/error.hpp"
#include "sluice/runtime/command.hpp"
#include "sluice/runtime/interpreter.hpp"

struct CUstream_st;
struct CUevent_st;
struct CUfunc_st;

namespace sluice::cuda::api {

// --- devices ------------------------------------------------------------------------------------------

// The number of GPUs; if it is 0, `why` receives the reason.
int device_count(std::string& why);
device_properties properties(int ordinal);
std::string bus_id(int ordinal);  // "0000:1b:00.0"
unsigned driver_version();        // 13000: CUDA 13.0
memory_info memory(int ordinal);

// Makes a device current for the calling thread, and restores the previous one at the end of the scope.
class device_scope {
public:
    explicit device_scope(int ordinal);
    device_scope(const device_scope&) = delete;  // the destructor restores the device
    device_scope& operator=(const device_scope&) = delete;
    ~device_scope();

private:
    int before_ = -1;  // -1: nothing to restore
};

// --- handles --------------------------------------------------------------------------------------------

struct destroy_stream {
    void operator()(CUstream_st* stream) const noexcept;
};
struct destroy_event {
    void operator()(CUevent_st* event) const noexcept;
};
using stream_handle = std::unique_ptr<CUstream_st, destroy_stream>;
using event_handle = std::unique_ptr<CUevent_st, destroy_event>;

enum class event_use { ordering, sleeping, timing };

stream_handle create_stream(int priority);  // does not synchronise with the legacy default stream
int nearest_priority(int asked);            // the nearest that the current device supports
event_handle create_event(event_use use);

// --- streams and events -----------------------------------------------------------------------------------

// The functions of a stream, and record and wait, call the driver: the stream's device must be current.
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

// --- commands -----------------------------------------------------------------------------------------------

void copy(void* to, const void* from, std::size_t bytes, copy_direction direction, CUstream_st* stream,
          const error_context& context);
// The most bytes from one row to the next that a copy of several rows may have in one call (2 GiB).
std::size_t largest_pitch(const error_context& context);
// The same for several rows.
void copy_rows(const copy_command& command, CUstream_st* stream, const error_context& context);
// From one GPU's memory to another's, on a stream of the destination; direct if the GPUs can reach each other's memory.
void copy_between(void* to, int to_ordinal, const void* from, int from_ordinal, std::size_t bytes, CUstream_st* stream,
                  const error_context& context);
void fill(void* to, unsigned char value, std::size_t bytes, CUstream_st* stream, const error_context& context);
// A kernel's driver handle on the current device. A launch with it costs 0.2 us less than one by symbol, which the
// runtime looks up each time (measured on an H200 machine: 2.37 against 2.58 us).
CUfunc_st* find_kernel(const void* symbol, const error_context& context);
// The dynamic shared memory that a launch of the kernel may use without more being allowed: 48 KiB, less its own.
std::size_t allowed_shared_memory(CUfunc_st* kernel, const error_context& context);
// Allows launches of the kernel on the current device to use the maximum of dynamic shared memory, and returns that
// maximum. Always the maximum, because the limit belongs to the kernel, whichever stream
// launches it.
std::size_t allow_shared_memory(CUfunc_st* kernel, const error_context& context);
void launch(CUfunc_st* kernel, const launch_command& command, CUstream_st* stream, const error_context& context);
// How many blocks of such a launch, whose grid does not count, run at the same time on the current device when it is
// idle.
std::size_t resident_blocks(CUfunc_st* kernel, const launch_command& like, const error_context& context);
// Writes `value` to pinned host memory when the stream reaches this point; false when the driver cannot do that. After
// a fault the value never arrives, although this call still succeeds.
bool write_value(CUstream_st* stream, std::uint64_t* to, std::uint64_t value) noexcept;
void call_host(CUstream_st* stream, void (*function)(void*), void* argument, const error_context& context);

// --- profilers ---------------------------------------------------------------------------------------------------

// An NVTX range of the calling thread; costs a few nanoseconds without a profiler.
void begin_range(const char* name) noexcept;
void end_range() noexcept;

// --- memory ---------------------------------------------------------------------------------------------------

// Whether the driver may copy from this host memory after the call returns, instead of reading it before.
bool is_pinned(const void* data) noexcept;
// Why these bytes are not memory of this GPU that its kernels and copies can use: "it is page-locked host memory";
// empty when they are. Looks at the first and the last byte, and at the whole range where one cudaMalloc has made it.
std::string why_not_memory_of(int ordinal, const void* data, std::size_t bytes);
bool is_memory_of(int ordinal, const void* data) noexcept;
// Null when there is not enough memory.
void* allocate_device(std::size_t bytes);
void* allocate_pinned(std::size_t bytes);
void free_device(void* data) noexcept;
void free_pinned(void* data) noexcept;

}  // namespace sluice::cuda::api
