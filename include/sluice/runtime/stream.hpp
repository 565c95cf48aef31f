// SPDX-License-Identifier: Apache-2.0
// stream: an in-order queue of commands on one device. It is the waist of Sluice.
//
// Each command call below submits one command and returns its ticket. Before the command runs, the stream waits, on the
// device, for every earlier conflicting access on another stream (read after write, write after read, write after
// write); the storage's history lists these accesses. On the same stream this costs a few integer operations. The
// command calls do not wait for the device. Two other calls may: allocate when memory is short, and order_after when
// the point belongs to a device of another kind or runtime.
//
// A stream is a small value, passed and copied freely: it pairs a command_queue of the device with a submission. The
// streams of policies and leases have no submission. The stream that an execution_context gives to its operation has
// the operation's submission, so that the operation's waiter waits for exactly its commands and receives exactly their
// failures.
//
// Errors: a poisoned device refuses every command with its first cause; storage of another device is refused with
// errc::invalid_argument.
//
// Thread safety: many threads may use a stream of a policy or a lease; that of an execution context belongs to the
// submitting thread. Commands of one thread keep their order. The rule for storage is that of any C++ object: many
// threads may submit commands that read it, or one thread commands that write it. (Owners of storage are move-only, and
// shared storage is read-only, so operations cannot break this rule.) Several threads may write storage with an
// access_lock.
//
// All members take constant time, but for these: a command takes time linear in the number of storages that it names
// and of the queues in their histories; allocate, allocate_host and workspace cost what memory_pool::allocate costs;
// poll, wait, order_after and mark ask the device.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "sluice/async/wait_mode.hpp"
#include "sluice/runtime/command.hpp"
#include "sluice/runtime/storage.hpp"
#include "sluice/runtime/ticket.hpp"

namespace sluice {

struct graph_command;
class timed_mark;

namespace detail {
class submission;
}

// The members are defined in stream.cpp: files of kernels include this header, and nvcc reads slowly.
class stream {
public:
    // A stream of this queue whose commands belong to the operation `by`, or to none; both outlive the value.
    explicit stream(command_queue& queue, detail::submission* by = nullptr) noexcept : queue_(&queue), by_(by) {}

    device& owner() const noexcept;                            // the device that it belongs to
    command_queue& queue() const noexcept { return *queue_; }  // the queue that carries out its commands
    // The operation that its commands belong to; null for none.
    detail::submission* submission() const noexcept { return by_; }
    // The moment after this ticket.
    stream_point point(ticket upto) const noexcept { return {queue_, upto}; }
    std::size_t index() const noexcept;     // among the streams of its device
    native_stream native() const noexcept;  // the handle for native calls: a cudaStream_t on a GPU
    // Whether commands are recorded into a graph, and do not run.
    bool is_recording() const noexcept;
    // Whether both put their commands into one queue.
    friend bool operator==(stream a, stream b) noexcept { return a.queue_ == b.queue_; }

    // Commands.
    ticket copy(const command_info& info, const copy_command& command) const;
    ticket fill(const command_info& info, const fill_command& command) const;             // sets bytes of device memory
    ticket launch(const command_info& info, const launch_command& command) const;         // a kernel
    ticket library_call(const command_info& info, const library_command& command) const;  // a call into a library
    ticket host_call(const command_info& info, host_command command) const;               // host code in stream order
    ticket graph(const command_info& info, const graph_command& command) const;           // a compiled graph

    // Device memory for commands of this stream; see memory_pool.
    storage_ref allocate(std::size_t bytes, const command_info& info = {"allocate"}) const;
    // Host memory that the device accesses at full speed; the host may write it immediately.
    storage_ref allocate_host(std::size_t bytes, const command_info& info = {"allocate"}) const;
    // Scratch memory for library calls: it only grows, and this stream's commands use it in their order. A command that
    // uses it names it as written.
    storage_ref workspace(std::size_t bytes) const;

    // The number of the queue's last command; 0 before the first.
    ticket issued() const noexcept;
    // The last command known to be complete; see poll().
    ticket passed() const noexcept;
    // Queries the device. Does not block.
    void poll() const noexcept;

    // Commands submitted to this stream from now on run after `point`. Never needed for data that commands name. In a
    // recording, `point` is one of the recording: the graph gets the edge.
    void order_after(stream_point point) const;
    // Blocks the calling thread until `upto` is complete. Throws when the device has faulted.
    void wait(ticket upto, wait_mode mode) const;
    std::unique_ptr<timed_mark> mark() const;  // a time stamp in stream order

private:
    command_queue* queue_;
    detail::submission* by_;
};

namespace detail {
// The name of the stream's device, for errors.
std::string_view device_name(stream on) noexcept;
}  // namespace detail

}  // namespace sluice
