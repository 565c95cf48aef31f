// SPDX-License-Identifier: Apache-2.0
// The interfaces that a backend implements: stream_interpreter executes the commands of a stream, memory_source
// allocates the device's memory. Users never see these; they see stream and device.
//
// Errors: a member that is not noexcept throws device_error when the device or its driver refuses what is asked of it,
// and errc::unsupported for what the backend does not have.
#pragma once

#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <string>

#include "sluice/async/wait_mode.hpp"
#include "sluice/runtime/command.hpp"
#include "sluice/runtime/detail/access_lock.hpp"
#include "sluice/runtime/graph_program.hpp"
#include "sluice/runtime/host_command.hpp"
#include "sluice/runtime/storage.hpp"

namespace sluice {

class command_queue;
class device;
namespace detail {
struct access_record;
}

// The memory of a device.
struct memory_info {
    std::size_t free_bytes = 0;   // that can still be allocated
    std::size_t total_bytes = 0;  // the device's capacity
};

// What a device is and can do.
struct device_properties {
    std::string name;                // "NVIDIA H200", "AMD EPYC (2 workers)"
    int compute_units = 0;           // multiprocessors, or worker threads
    int compute_capability = 0;      // 90 for sm_90; 0 on a CPU
    std::size_t memory_bytes = 0;    // what the device is and can do
    std::size_t l2_cache_bytes = 0;  // 0 when unknown
    // The most that a kernel may request: on a GPU "by opt-in", which a launch does for it; on a CPU as on an H100.
    std::size_t max_shared_bytes_per_block = 0;
    int max_threads_per_block = 1;    // of a launch over blocks; on a CPU one worker runs them all, in turn
    int warp_size = 1;                // threads that execute together; 1 on a CPU
    bool concurrent_kernels = false;  // whether kernels of different streams may run at the same time
    int async_copy_engines = 0;       // units that copy while kernels run; 0 on a CPU, where workers copy
    int max_blocks_per_cluster = 1;   // of a launch with clusters, on every device of this kind; 1 before sm_90
    bool cooperative_launch = false;  // whether all blocks of a launch can wait for each other
};

// Allocates the memory of a memory_pool.
class memory_source {
public:
    memory_source() = default;
    memory_source(const memory_source&) = delete;  // pools point to it
    memory_source& operator=(const memory_source&) = delete;
    virtual ~memory_source() = default;

    // At least 256-byte aligned. Null when there is not enough; throws device_error for any other failure. Costs a call
    // of the driver; on a CPU, of the system's allocator.
    virtual void* allocate(std::size_t bytes) = 0;
    virtual void free(void* data, std::size_t bytes) noexcept = 0;  // what allocate returned, of that size
    // At this moment. Costs a question to the driver; on a CPU, to the system.
    virtual memory_info info() = 0;
    // Whether a pool may hand out what allocate returned in pieces, and pieces side by side as one block. Costs O(1).
    virtual bool is_divisible() const noexcept { return true; }

    // Notifications for sources that check the use of memory (the simulator). They take no lock and make no callbacks.

    // A pool has handed out the memory, for commands or to the host (which may write it immediately). Costs nothing
    // where the source does not check.
    virtual void on_allocate(void* /*data*/, std::size_t /*requested_bytes*/, bool /*to_host*/) noexcept {}
    // The pool has received the memory back. Costs nothing where the source does not check.
    virtual void on_free(void* /*data*/) noexcept {}
    // Memory that others allocated is used through a pool of this source from here on. Returns the address by which the
    // source knows it (storage::source_address). May throw std::bad_alloc. Costs nothing where the source does not
    // check.
    virtual void* on_adopt(void* data, std::size_t /*bytes*/) { return data; }
    // The pool no longer uses it: from here on its owner may free it. Costs nothing where the source does not check.
    virtual void on_release(void* /*known_as*/) noexcept {}
    // The host reads or writes the memory from here on. It has waited for all commands that must come before. Costs
    // nothing where the source does not check.
    virtual void on_host_access(void* /*data*/, access_mode /*mode*/) noexcept {}
};

// A point on a stream with a time stamp.
class timed_mark {
public:
    timed_mark() = default;
    timed_mark(const timed_mark&) = delete;  // owned through a pointer only
    timed_mark& operator=(const timed_mark&) = delete;
    virtual ~timed_mark() = default;

    // Blocks until the stream has passed the mark. Costs the wait.
    virtual void wait() = 0;
    // Whether the stream is known to have passed the mark. Does not block. Costs O(1); on a GPU, a question to the
    // driver.
    virtual bool has_passed() const noexcept { return false; }
    // The time from `earlier`, a mark of the same device, to this one; the stream must have passed both. Throws
    // std::bad_cast for a mark of another kind of device. Costs O(1); on a GPU, a question to the driver.
    virtual std::chrono::duration<double, std::micro> since(const timed_mark& earlier) const = 0;
};

// How a stream is made.
struct stream_options {
    int priority = 0;  // lower numbers first, as in CUDA; 0 is the default
    // A stream of other code, in the backend's own type, to be used instead of one of the device's own; its priority
    // stays as it is. See cuda/foreign_streams.hpp.
    std::optional<void*> foreign = {};
    // On a GPU, for streams of its own that have the default priority: what operations submit again and again is
    // replayed as a graph. See docs/replayed_streams.md. No effect on other streams and devices.
    bool replays = false;
};

// The priorities of a device's streams, from the least urgent to the most urgent: as in CUDA, highest <= 0 <= lowest.
// The workers of a CPU device compare numbers, so there each int is one; the simulator takes each too, and ignores it.
struct priority_range {
    int lowest = 0;   // the least urgent
    int highest = 0;  // the most urgent

    friend bool operator==(const priority_range&, const priority_range&) = default;
};

// Executes the commands of one stream, in order. command_queue calls the members down to mark() with its lock held.
// Command number n, counted from 1, is the n-th call of an enqueueing member that did not throw.
//
// A command whose info names an outcome depends on it (outcome.hpp). Where one of our threads executes the command, the
// command does not run when the outcome has inherited a failure. When the command may fail by itself (host calls,
// library calls and kernels that run later), the interpreter settles the outcome before the command counts as passed.
// The interpreter holds a reference to the outcome.
class stream_interpreter {
public:
    stream_interpreter() = default;
    stream_interpreter(const stream_interpreter&) = delete;  // streams point to it
    stream_interpreter& operator=(const stream_interpreter&) = delete;
    virtual ~stream_interpreter() = default;

    // Enqueue a command. A call that throws has enqueued nothing. On a CPU each costs, amortised, O(1) and a copy of
    // the command; on a GPU a few calls of the driver.
    virtual void copy(const command_info& info, const copy_command& command) = 0;
    // Sets bytes. Costs what copy costs.
    virtual void fill(const command_info& info, const fill_command& command) = 0;
    // A kernel. Costs what copy costs.
    virtual void launch(const command_info& info, const launch_command& command) = 0;
    // When the library's code throws during this call, part of its work may be enqueued: the exception is returned, and
    // the command counts as enqueued. Costs this call on a GPU; on a CPU O(1), amortised, and a copy of the closure.
    virtual std::exception_ptr library_call(const command_info& info, const library_command& command) = 0;
    // Host code in stream order. Costs, amortised, O(1) and moves of the function; on a GPU also a call of the driver.
    virtual void host_call(const command_info& info, host_command command) = 0;
    // Runs a program that the same device instantiated. When it may fail, the interpreter settles the outcome. Costs
    // O(1), amortised, on a CPU; on a GPU a launch by the driver, and what host_call costs where the program has host
    // calls.
    virtual void graph(const command_info& info, const graph_command& command);

    // Commands enqueued from now on run after ticket `upto` of `other`, a stream of the same kind of device. Returns
    // the ticket after which they really run: at least `upto`. Does not block. Costs O(1), amortised, on a CPU; on a
    // GPU at most two calls of the driver, and submit_kept of both streams.
    virtual ticket order_after(stream_interpreter& other, ticket upto) = 0;
    // Marks the point after everything enqueued so far. Costs one or two allocations; on a GPU also calls of the
    // driver.
    virtual std::unique_ptr<timed_mark> mark() = 0;

    // On any thread, without the queue's lock.

    // An operation has been submitted: what the stream keeps of its commands goes to the device. Costs nothing where
    // the stream keeps no commands; only streams of a GPU that replay do.
    virtual void submit_kept() noexcept {}

    // A decorator (a recorder of traces) may wrap the backend's interpreter. Returns the wrapped one, for code of the
    // backend that needs its type. Costs O(1).
    virtual stream_interpreter& undecorated() noexcept { return *this; }
    // The calling thread begins and ends the submission of an operation that the user has named: for profilers. Costs a
    // call of NVTX on a GPU, and nothing on a CPU.
    virtual void begin_range(const char* /*name*/) noexcept {}
    virtual void end_range() noexcept {}  // ends the latest begin_range of the thread; costs the same

    // The stream's handle in the backend. Costs O(1), and what submit_kept costs.
    virtual native_stream native() const noexcept = 0;
    // The last ticket known to be passed. Cheap; it may be out of date until the next poll() or wait().
    virtual ticket passed() const noexcept = 0;
    // Queries the device and updates passed(). Does not block. Poisons a device that has faulted. Costs at most two
    // questions to the driver on a GPU, and nothing on a CPU.
    virtual void poll() noexcept = 0;
    // Blocks until `upto` is passed. Throws the error of the device if it has faulted. Costs O(1) when `upto` is known
    // to be passed, and the release of what commands before it kept.
    virtual void wait(ticket upto, wait_mode mode) = 0;

    // Nothing more runs here, because the device has faulted or is closed: releases what commands own. May be called
    // twice. Costs these releases.
    virtual void abandon() noexcept {}

    // Releases memory that it keeps for later commands and that no command needs now. Costs these releases.
    virtual void trim() noexcept {}
    // Returns whether the stream, which is idle and not leased, now has these options. Costs O(1).
    virtual bool change(const stream_options& /*options*/) noexcept { return false; }

    // Of a stream that was made with stream_options::foreign: all commands are complete; continues on another foreign
    // stream, or on none until the next call. Costs at most a few questions to the driver.
    virtual void attach(std::optional<void*> /*foreign*/) {}

    // Completion without a waiting thread. An interpreter either calls its queue's release() as commands pass, or needs
    // watching: then the completion service polls it while there are waiters.
    //
    // release(t) must never go beyond passed(): an interpreter first raises passed() to t (a release operation) and
    // then calls release(t). A waiter that is woken reads passed() to find out whether its commands are complete. If
    // passed() were lower, the waiter would wait again for a ticket that is already released, wake again immediately,
    // and so on without end. The one exception is the device's own release(no_ticket), after poison().

    // Whether the completion service has to poll this stream. Costs O(1).
    virtual bool needs_watching() const noexcept { return false; }
    // Ensures that last_flag() reaches `upto` soon after the stream does. Called with the queue's lock held. Costs at
    // most one write by the driver on a GPU, besides submit_kept.
    virtual void arm(ticket /*upto*/) noexcept {}
    // The last ticket whose end was seen, perhaps before passed() reports it; costs a memory access. Only poll() finds
    // out whether the commands succeeded.
    virtual ticket last_flag() const noexcept { return passed(); }
};

// A stream that records commands instead of executing them, and plans the memory that they will use when they run. It
// has a command_queue of its own.
class command_recorder : public stream_interpreter {
public:
    // As in stream and memory_pool. Each costs a few allocations on the host, and none on the device.
    virtual storage_ref allocate(std::size_t bytes, const command_info& info) = 0;
    // As stream::allocate_host; costs the same.
    virtual storage_ref allocate_host(std::size_t bytes, const command_info& info) = 0;
    virtual storage_ref workspace(std::size_t bytes) = 0;  // as stream::workspace; costs the same

    // Keeps the object for as long as the recorded commands may run. Costs O(1), amortised.
    virtual void keep(std::shared_ptr<const void> object) = 0;
    // The number of commands that have been recorded in the list that is open: of the graph, or of a body inside it.
    // Costs O(1).
    virtual std::size_t recorded() const noexcept = 0;
    // Between these two, each new command comes after those from number `first`, as recorded() counts, to the last one
    // before begin_after. They nest. Costs O(commands) between the two, and for each new command O(those that it comes
    // after).
    virtual void begin_after(std::size_t first) = 0;
    virtual void end_after() noexcept = 0;  // ends the latest begin_after; costs O(1)
    // Each new command comes after the command with this ticket and all that this one comes after. Costs O(depth of the
    // bodies).
    virtual void order_after_recorded(ticket earlier) = 0;
};

// What a backend implements for a device.
class device_interpreter {
public:
    device_interpreter() = default;
    device_interpreter(const device_interpreter&) = delete;  // streams point to it
    device_interpreter& operator=(const device_interpreter&) = delete;
    virtual ~device_interpreter() = default;

    // As for streams. Costs O(1).
    virtual device_interpreter& undecorated() noexcept { return *this; }
    virtual device_kind kind() const noexcept = 0;                     // the kind of the backend's devices; costs O(1)
    virtual const device_properties& properties() const noexcept = 0;  // what the device is and can do; costs O(1)
    // A stream of this device, whose commands `owner` numbers. Costs, on a GPU, a stream, two events and a word of
    // pinned memory of the driver; on a CPU O(1).
    virtual std::unique_ptr<stream_interpreter> make_stream(command_queue& owner, const stream_options& options) = 0;
    // The supported options nearest to these: a GPU has few priorities. Idle streams with equal options are reused.
    // Costs at most a question to the driver.
    virtual stream_options nearest(const stream_options& asked) const {
        return {.priority = asked.priority, .foreign = asked.foreign};
    }
    // Turns recorded commands into a program that its streams can run (graph). Throws errc::unsupported for commands
    // that this device, or its driver, cannot have in a graph. `owner` is the device that has this interpreter. Costs
    // O(commands); on a GPU also the driver's nodes and instantiation.
    virtual std::unique_ptr<graph_program> instantiate(device& owner, command_graph commands);
    virtual memory_source& device_memory() noexcept = 0;  // allocates device memory
    // Host memory that the device copies from and to at full speed (pinned, for a GPU). Costs O(1).
    virtual memory_source& host_memory() noexcept = 0;
    // How a thread waits unless it says otherwise. Costs O(1).
    virtual wait_mode default_wait_mode() const noexcept = 0;
    // Whether library calls run later, on threads of the device, so that their exceptions come after the submission.
    // Costs O(1).
    virtual bool runs_library_calls_later() const noexcept = 0;
    // Whether kernels run later, on threads of the device, and a launch that may fail settles its outcome
    // (command_info::may_fail). Without this, what a host function throws must leave stream_interpreter::launch. Costs
    // O(1).
    virtual bool runs_kernels_later() const noexcept { return false; }
    // Where kernels on a GPU leave an access out of range for the host; null where that is not possible. Costs O(1);
    // the first call on a GPU allocates the record.
    virtual detail::access_record* access_report() noexcept { return nullptr; }
    // Whether device memory is plain host memory, so that host data need not be staged. Costs O(1).
    virtual bool shares_host_memory() const noexcept = 0;
    // Whether all of this host memory is pinned: the device copies to and from it asynchronously. Costs a call of the
    // driver.
    virtual bool is_pinned(const void* /*data*/, std::size_t /*bytes*/) const noexcept { return false; }
    // The device's number in its driver, for formats and libraries that name devices by it. Costs O(1).
    virtual int ordinal() const noexcept { return 0; }
    // Why commands of this device cannot use these bytes, which others allocated; empty when they can. Costs questions
    // to the driver on a GPU, and O(1) on a CPU.
    virtual std::string why_unusable(const void* /*data*/, std::size_t /*bytes*/) const { return {}; }
    // Whether the address is known to be in this device's own memory, which the host cannot access. Costs questions to
    // the driver on a GPU, and O(1) on a CPU.
    virtual bool owns(const void* /*data*/) const noexcept { return false; }
    // Whether the calling thread is one that the device's commands need: such a thread must not wait for them. True in
    // the device's host calls. Costs O(1).
    virtual bool is_own_thread() const noexcept { return false; }
    // Whether the other devices of its kind continue after it has faulted. Costs O(1).
    virtual bool fails_alone() const noexcept { return true; }
    // Ends the threads of the device. All its streams are idle; no command is submitted after this. Costs the ends of
    // the threads.
    virtual void close() noexcept = 0;
};

}  // namespace sluice
