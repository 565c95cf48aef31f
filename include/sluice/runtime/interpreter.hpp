// What a backend implements: how the commands of a stream are carried out, and how its device is asked for
// memory. Users never see these; they see stream and device.
#pragma once

#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <string>

#include "sluice/async/wait_mode.hpp"
#include "sluice/runtime/command.hpp"
#include "sluice/runtime/graph_program.hpp"
#include "sluice/runtime/storage.hpp"

namespace sluice {

class command_queue;
class device;

struct memory_info {
    std::size_t free_bytes = 0;   // that can still be allocated
    std::size_t total_bytes = 0;  // that the device has
};

struct device_properties {
    std::string name;            // "NVIDIA H200", "AMD EPYC (2 workers)"
    int compute_units = 0;       // multiprocessors, or worker threads
    int compute_capability = 0;  // 90 for sm_90; 0 on a CPU
    std::size_t memory_bytes = 0;
    std::size_t l2_cache_bytes = 0;  // 0 when unknown
    std::size_t max_shared_bytes_per_block = 0;
};

// Where a memory_pool gets its memory from.
class memory_source {
public:
    memory_source() = default;
    memory_source(const memory_source&) = delete;  // pools point to it
    memory_source& operator=(const memory_source&) = delete;
    virtual ~memory_source() = default;

    // At least 256-byte aligned. Null when there is not enough; throws for any other failure.
    virtual void* allocate(std::size_t bytes) = 0;
    virtual void free(void* data, std::size_t bytes) noexcept = 0;
    virtual memory_info info() = 0;

    // What becomes of the memory, for sources that check it (the simulator). They lock nothing and call nobody.

    // A pool has handed it out: for commands, or to the host, which may write it at once; and has got it back.
    virtual void lent(void* /*data*/, std::size_t /*asked_bytes*/, bool /*to_host*/) noexcept {}
    virtual void returned(void* /*data*/) noexcept {}
    // The host reads or writes it from here on; what this must come after, it has waited for.
    virtual void touched_by_host(void* /*data*/, access_mode /*mode*/) noexcept {}
};

// A moment on a stream with a time stamp.
class timed_mark {
public:
    timed_mark() = default;
    timed_mark(const timed_mark&) = delete;  // owned through a pointer only
    timed_mark& operator=(const timed_mark&) = delete;
    virtual ~timed_mark() = default;

    // Blocks until the stream has passed the mark.
    virtual void await() = 0;
    // Whether the stream is known to have passed it. Does not block.
    virtual bool has_passed() const noexcept { return false; }
    // From `earlier`, a mark of the same device, to this one; both must have been passed. Throws
    // std::bad_cast for a mark of another kind of device.
    virtual std::chrono::duration<double, std::micro> since(const timed_mark& earlier) const = 0;
};

// Carries out the commands of one stream, in order. `stream` calls all but the last group with its lock
// held; command number n, counted from 1, is the n-th call of the first group that did not throw.
//
// A command whose info names an outcome hangs on it (outcome.hpp): where it is carried out by a thread of ours, it is
// not run when it has inherited a failure; and when it may fail by itself (host calls, library calls that run later)
// the interpreter settles it, before the command counts as passed. The interpreter takes a reference.
class stream_interpreter {
public:
    stream_interpreter() = default;
    stream_interpreter(const stream_interpreter&) = delete;  // streams point to it
    stream_interpreter& operator=(const stream_interpreter&) = delete;
    virtual ~stream_interpreter() = default;

    // Enqueue a command. A call that throws has enqueued nothing.
    virtual void copy(const command_info& info, const copy_command& command) = 0;
    virtual void fill(const command_info& info, const fill_command& command) = 0;
    virtual void launch(const command_info& info, const launch_command& command) = 0;
    // When the library's code throws here, part of its work may be enqueued: the exception is returned, and the
    // command counts.
    virtual std::exception_ptr library_call(const command_info& info, const library_command& command) = 0;
    virtual void host_call(const command_info& info, host_command command) = 0;
    // Runs a program that the same device has made. When it may fail, the interpreter settles the outcome.
    virtual void graph(const command_info& info, const graph_command& command);

    // Commands enqueued from now on run after ticket `upto` of `other`, a stream of the same kind of device.
    // Returns the ticket that they really run after: at least `upto`. Does not block.
    virtual ticket wait_for(stream_interpreter& other, ticket upto) = 0;
    // Marks the moment after all that was enqueued so far.
    virtual std::unique_ptr<timed_mark> mark() = 0;

    // On any thread, without the stream's lock.

    // Another interpreter may stand before the backend's own (a recorder of traces): the one that does the work, for
    // code of its backend that needs its type.
    virtual stream_interpreter& undecorated() noexcept { return *this; }
    // The calling thread begins and ends submitting something that the user has named: for profilers.
    virtual void begin_range(const char* /*name*/) noexcept {}
    virtual void end_range() noexcept {}

    virtual native_stream native() const noexcept = 0;
    // The last ticket known to be passed; cheap, may lag behind until poll() or await().
    virtual ticket passed() const noexcept = 0;
    // Asks the device and updates passed(). Does not block. Poisons a device that has faulted.
    virtual void poll() noexcept = 0;
    // Blocks until `upto` is passed. Throws the error of the device if it has faulted.
    virtual void await(ticket upto, wait_mode mode) = 0;

    // Nothing more runs here, since the device has faulted or is closed: lets go of what commands own. May come twice.
    virtual void abandon() noexcept {}

    // Completion without a thread that waits. An interpreter either tells its queue by release() as commands pass,
    // or needs watching: then the completion service looks, again and again while somebody waits.
    //
    // release(t) must never go beyond passed(): an interpreter raises passed() to t first (a release operation), and
    // calls release(t) then. Whoever is woken asks passed() whether its commands are over; were it not so, it would
    // wait again for what is released already, be woken at once, and so on without end. The one exception is the
    // device's own release(no_ticket), after poison().

    virtual bool needs_watching() const noexcept { return false; }
    // Sees to it that sighted() reaches `upto` soon after the stream has. With the stream's lock held.
    virtual void arm(ticket /*upto*/) noexcept {}
    // The last ticket whose end was seen, perhaps before passed() tells; costs a memory access. Only poll() tells
    // whether it went well.
    virtual ticket sighted() const noexcept { return passed(); }
};

struct stream_options {
    int priority = 0;  // lower numbers first, as in CUDA; 0 is the default
};

// A stream that carries nothing out but writes it down, and knows where commands that are not run yet will have their
// memory. Stands behind a command_queue of its own.
class command_recorder : public stream_interpreter {
public:
    // As stream's and memory_pool's.
    virtual storage_ref allocate(std::size_t bytes, const command_info& info) = 0;
    virtual storage_ref allocate_host(std::size_t bytes, const command_info& info) = 0;
    virtual storage_ref workspace(std::size_t bytes) = 0;
};

class device_interpreter {
public:
    device_interpreter() = default;
    device_interpreter(const device_interpreter&) = delete;  // streams point to it
    device_interpreter& operator=(const device_interpreter&) = delete;
    virtual ~device_interpreter() = default;

    // As for streams.
    virtual device_interpreter& undecorated() noexcept { return *this; }
    virtual device_kind kind() const noexcept = 0;
    virtual const device_properties& properties() const noexcept = 0;
    virtual std::unique_ptr<stream_interpreter> make_stream(command_queue& owner, const stream_options& options) = 0;
    // Makes something of recorded commands that its streams can run (graph). Throws errc::unsupported for commands
    // that this device, or its driver, cannot have in a graph. `owner` is the device that this one stands behind.
    virtual std::unique_ptr<graph_program> instantiate(device& owner, command_graph commands);
    virtual memory_source& device_memory() noexcept = 0;
    // Host memory that the device copies from and to at full speed (pinned, for a GPU).
    virtual memory_source& host_memory() noexcept = 0;
    virtual wait_mode default_wait_mode() const noexcept = 0;
    // Whether library calls run on threads of the device, so that their exceptions come later.
    virtual bool runs_library_calls_later() const noexcept = 0;
    // Whether device memory is plain host memory, so that host data need not be staged.
    virtual bool shares_host_memory() const noexcept = 0;
    // Whether the device copies to and from this host memory, all of it, by itself and at its leisure (pinned memory).
    // Costs a call of the driver.
    virtual bool is_pinned(const void* /*data*/, std::size_t /*bytes*/) const noexcept { return false; }
    // Whether the other devices of its kind go on when it has faulted.
    virtual bool fails_alone() const noexcept { return true; }
    // Ends the threads of the device. All its streams are idle; no command comes after this.
    virtual void close() noexcept = 0;
};

}  // namespace sluice
