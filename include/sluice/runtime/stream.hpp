// stream: an in-order queue of commands on one device. The waist of the house.
//
// Each call below submits one command and returns its ticket. Before the command goes out, the stream waits,
// on the device, for every earlier conflicting access on another stream (read after write, write after read,
// write after write), as told by the storage's history; on the same stream that costs a few integer
// operations. None of the calls waits for the device.
//
// Errors: a poisoned device refuses every command with its first cause; storage of another device is
// refused with errc::invalid_argument.
//
// Thread safety: all members may be called on any thread. Commands of one thread keep their order. Storage is as
// any object is: many threads may submit commands that read it, or one thread commands that write it. (What
// owns storage is move-only, and what is shared is read-only, so operations cannot get this wrong.)
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "sluice/runtime/command.hpp"
#include "sluice/runtime/interpreter.hpp"
#include "sluice/runtime/storage.hpp"
#include "sluice/runtime/ticket.hpp"
#include "sluice/runtime/wait_mode.hpp"

namespace sluice {

class device;

class stream {
public:
    stream(const stream&) = delete;  // tickets and histories point to it; devices own their streams
    stream& operator=(const stream&) = delete;

    device& owner() const noexcept { return owner_; }
    std::size_t index() const noexcept { return index_; }  // among the streams of its device
    native_stream native() const noexcept { return interpreter_->native(); }

    // Commands.
    ticket copy(const command_info& info, const copy_command& command);
    ticket fill(const command_info& info, const fill_command& command);
    ticket launch(const command_info& info, const launch_command& command);
    ticket library_call(const command_info& info, const library_command& command);
    ticket host_call(const command_info& info, host_command command);

    // Device memory for commands of this stream; see memory_pool.
    storage_ref allocate(std::size_t bytes, const command_info& info = {"allocate"});
    // Host memory that the device reaches at full speed, free to be written by the host at once.
    storage_ref allocate_host(std::size_t bytes, const command_info& info = {"allocate"});
    // Scratch memory for library calls: it only grows, and belongs to this stream's commands in their order.
    // A command that uses it names it as written.
    storage_ref workspace(std::size_t bytes);

    // The number of the last command; 0 before the first.
    ticket issued() const noexcept { return issued_.load(std::memory_order_acquire); }
    // As much of `upto` as was issued: a read that was refused leaves its ticket in histories until the next
    // command takes it.
    ticket reached(ticket upto) const noexcept { return std::min(upto, issued()); }
    // The last command known to be complete; see poll().
    ticket passed() const noexcept { return interpreter_->passed(); }
    void poll() noexcept { interpreter_->poll(); }

    // Commands submitted to this stream from now on run after `point`. Never needed to be correct.
    void wait_for(stream_point point);
    // Blocks the calling thread until `upto` is complete. Throws when the device has faulted.
    void await(ticket upto, wait_mode mode);
    // Throws the first exception that a command, submitted by this thread and numbered after `after` up to
    // `upto`, threw where it ran. Several threads may share a stream: the submitter tells theirs apart.
    void rethrow_failure(ticket after, ticket upto, std::thread::id submitter) {
        interpreter_->rethrow_failure(after, upto, submitter);
    }
    std::unique_ptr<timed_mark> mark();

private:
    friend class device;
    stream(device& owner, std::size_t index) : owner_(owner), index_(index) {}

    // Waits for all commands; the device takes no more.
    void close() noexcept;

    template <typename Enqueue>
    ticket submit(const command_info& info, Enqueue&& enqueue);
    // Lock held; points of other streams.
    void order(const command_info& info, ticket number);
    bool is_after(stream_point point) const noexcept;
    void order_after(stream_point point);

    device& owner_;
    const std::size_t index_;
    std::unique_ptr<stream_interpreter> interpreter_;
    std::mutex mutex_;  // orders the submissions of several threads
    std::atomic<ticket> issued_{0};
    std::vector<ticket> waited_for_;  // by stream index: what this stream already runs after
    storage_ref workspace_;
    std::mutex workspace_mutex_;
};

}  // namespace sluice
