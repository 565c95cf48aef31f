// stream: an in-order queue of commands on one device. The waist of the house.
//
// Each call below submits one command and returns its ticket. Before the command goes out, the stream waits,
// on the device, for every earlier conflicting access on another stream (read after write, write after read,
// write after write), as told by the storage's history; on the same stream that costs a few integer
// operations. None of them waits for the device; allocate does when memory is
// short, and wait_for when the point is that of a device of another kind.
//
// A stream is a handle: a command_queue of the device, and on whose behalf commands go there. The streams of
// policies and leases submit on nobody's behalf; the one that an execution_context gives to its operation submits on
// that operation's, so that the operation's waiter waits for exactly its commands and is told exactly their failures.
//
// Errors: a poisoned device refuses every command with its first cause; storage of another device is
// refused with errc::invalid_argument.
//
// Thread safety: many threads may use a stream of a policy or a lease; that of an execution context belongs to
// the submitting thread. Commands of one thread keep their order. Storage is as any object is: many threads may submit
// commands that read it, or one thread commands that write it. (What owns storage is move-only, and what is shared is
// read-only, so operations cannot get this wrong.)
#pragma once

#include <cstddef>
#include <memory>

#include "sluice/runtime/command_queue.hpp"

namespace sluice {

class stream {
public:
    explicit stream(command_queue& queue, detail::submission* by = nullptr) noexcept : queue_(queue), by_(by) {}
    stream(const stream&) = delete;  // passed by reference: policies and contexts own theirs
    stream& operator=(const stream&) = delete;

    device& owner() const noexcept { return queue_.owner(); }
    command_queue& queue() const noexcept { return queue_; }
    // On whose behalf; null for nobody's.
    detail::submission* submission() const noexcept { return by_; }
    // The moment after this ticket.
    stream_point point(ticket upto) const noexcept { return {&queue_, upto}; }
    std::size_t index() const noexcept { return queue_.index(); }  // among the streams of its device
    native_stream native() const noexcept { return queue_.interpreter().native(); }
    // Whether both put their commands into one queue.
    friend bool operator==(const stream& a, const stream& b) noexcept { return &a.queue_ == &b.queue_; }

    // Commands.
    ticket copy(const command_info& info, const copy_command& command) { return queue_.copy(info, command, by_); }
    ticket fill(const command_info& info, const fill_command& command) { return queue_.fill(info, command, by_); }
    ticket launch(const command_info& info, const launch_command& command) { return queue_.launch(info, command, by_); }
    ticket library_call(const command_info& info, const library_command& command) {
        return queue_.library_call(info, command, by_);
    }
    ticket host_call(const command_info& info, host_command command) {
        return queue_.host_call(info, std::move(command), by_);
    }
    ticket graph(const command_info& info, const graph_command& command) { return queue_.graph(info, command, by_); }

    // Device memory for commands of this stream; see memory_pool.
    storage_ref allocate(std::size_t bytes, const command_info& info = {"allocate"});
    // Host memory that the device reaches at full speed, free to be written by the host at once.
    storage_ref allocate_host(std::size_t bytes, const command_info& info = {"allocate"});
    // Scratch memory for library calls: it only grows, and belongs to this stream's commands in their order.
    // A command that uses it names it as written.
    storage_ref workspace(std::size_t bytes) { return queue_.workspace(bytes); }

    // The number of the queue's last command; 0 before the first.
    ticket issued() const noexcept { return queue_.issued(); }
    // The last command known to be complete; see poll().
    ticket passed() const noexcept { return queue_.passed(); }
    // Asks the device. Does not block.
    void poll() noexcept { queue_.poll(); }

    // Commands submitted to this stream from now on run after `point`. Never needed to be correct.
    void wait_for(stream_point point) { queue_.wait_for(point); }
    // Blocks the calling thread until `upto` is complete. Throws when the device has faulted.
    void await(ticket upto, wait_mode mode) { queue_.await(upto, mode); }
    std::unique_ptr<timed_mark> mark() { return queue_.mark(); }

private:
    command_queue& queue_;
    detail::submission* const by_;
};

}  // namespace sluice
