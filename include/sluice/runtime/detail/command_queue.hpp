// SPDX-License-Identifier: Apache-2.0
// command_queue: the device's part of a stream. It counts the commands, orders them after conflicting commands of other
// queues, hands them to the interpreter, and completes the waiters. Owned by its device; all other code uses it through
// streams.
//
// Thread safety: all members may be called on any thread. Commands of one thread keep their order.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "sluice/async/wait_mode.hpp"
#include "sluice/base/detail/held_lock.hpp"
#include "sluice/base/detail/spin_lock.hpp"
#include "sluice/runtime/command.hpp"
#include "sluice/runtime/detail/completion_list.hpp"
#include "sluice/runtime/detail/cross_device_dependencies.hpp"
#include "sluice/runtime/detail/outcome.hpp"
#include "sluice/runtime/host_command.hpp"
#include "sluice/runtime/interpreter.hpp"
#include "sluice/runtime/storage.hpp"
#include "sluice/runtime/ticket.hpp"

namespace sluice {

class device;

namespace detail {
class completion_service;
class submission;
}  // namespace detail

class command_queue {
public:
    command_queue(device& owner, std::size_t index);
    // A queue that records its commands, for this device. The recorder outlives it.
    command_queue(device& owner, command_recorder& recorder);
    command_queue(const command_queue&) = delete;  // tickets and histories point to it
    command_queue& operator=(const command_queue&) = delete;
    ~command_queue();

    device& owner() const noexcept { return owner_; }
    std::size_t index() const noexcept { return index_; }    // among the queues of its device
    std::size_t number() const noexcept { return number_; }  // among the queues of its runtime
    stream_interpreter& interpreter() const noexcept { return *interpreter_; }
    // The recorder that records the commands; null for a queue that executes them.
    command_recorder* recorder() const noexcept { return recorder_; }

    // Commands. The submission `by` notes them, unless it is null; see stream.
    ticket copy(const command_info& info, const copy_command& command, detail::submission* by);
    ticket fill(const command_info& info, const fill_command& command, detail::submission* by);
    ticket launch(const command_info& info, const launch_command& command, detail::submission* by);
    ticket library_call(const command_info& info, const library_command& command, detail::submission* by);
    ticket host_call(const command_info& info, host_command command, detail::submission* by);
    ticket graph(const command_info& info, const graph_command& command, detail::submission* by);
    void order_after(stream_point point);
    std::unique_ptr<timed_mark> mark();
    storage_ref workspace(std::size_t bytes);
    storage_ref allocate(std::size_t bytes, const command_info& info);
    storage_ref allocate_host(std::size_t bytes, const command_info& info);

    // The number of the last command; 0 before the first.
    ticket issued() const noexcept { return issued_.load(std::memory_order_acquire); }
    // `upto`, or the last issued ticket if that is lower: a read that was refused leaves a ticket in histories that is
    // not issued before the next command.
    ticket reached(ticket upto) const noexcept { return std::min(upto, issued()); }
    // The last command known to be complete; see poll().
    ticket passed() const noexcept { return interpreter_->passed(); }
    void poll() noexcept;
    // Blocks the calling thread until `upto` is complete. Throws when the device has faulted.
    void wait(ticket upto, wait_mode mode);

    // For a device that blocks each command (runtime_options::blocks_each_command): waits for `upto`, unless this
    // thread holds a lock; then the code that gives it up calls this again.
    void block_if_asked(ticket upto);

    // Completes the waiter once, when its ticket is passed or the device has faulted; perhaps during this call, on this
    // thread. Does not block. The waiter then reads passed() and the device's state to find out which of the two
    // happened.
    void add_waiter(completion_waiter& waiter) noexcept;
    // Whether there are waiters that have not been completed.
    bool has_waiters() const noexcept { return !waiters_.empty(); }
    // For interpreters that do not need watching: commands up to this ticket are complete.
    void release(ticket upto) noexcept { waiters_.release(upto); }
    // Whether a command that is not known to be complete depends on that device.
    bool needs(const device& other) const noexcept;
    // Calls f for each such device, under a leaf lock.
    template <typename Function>
    void for_each_dependency(Function&& f) const {
        needs_.for_each([&](const detail::cross_device_dependencies::need& each) {
            if (is_open(each)) f(*each.on);
        });
    }

private:
    friend class device;
    friend class detail::completion_service;

    // Waits for all commands; the device accepts no more.
    void close() noexcept;

    void set_interpreter(std::unique_ptr<stream_interpreter> made) noexcept {
        owned_interpreter_ = std::move(made);
        interpreter_ = owned_interpreter_.get();
    }
    template <typename Enqueue>
    ticket record(command_info info, detail::submission* by, Enqueue&& enqueue);
    template <typename Enqueue>
    ticket submit(const command_info& info, bool may_fail, detail::submission* by, Enqueue&& enqueue);
    template <typename Enqueue>
    ticket submit_unwaited(command_info info, bool may_fail, detail::submission* by, Enqueue&& enqueue);
    // With the lock held: orders the command after its conflicts on other queues, and gathers the outcomes that it
    // depends on.
    void order(const command_info& info, ticket number, detail::outcome_set& depends_on);
    bool is_after(stream_point point) const noexcept;
    void wait_for_queue(stream_point point, ticket number);
    // Called after the command that has this need was enqueued. If the other device has failed, either its
    // report_poison() sees the need, or this function sees the failure.
    void note_dependency(const detail::cross_device_dependencies::need& one) noexcept;
    bool is_open(const detail::cross_device_dependencies::need& one) const noexcept;

    device& owner_;
    const std::size_t index_;
    const std::size_t number_;
    command_recorder* const recorder_ = nullptr;
    std::unique_ptr<stream_interpreter> owned_interpreter_;  // null when there is a recorder
    stream_interpreter* interpreter_ = nullptr;
    detail::spin_lock mutex_;  // orders the submissions of several threads; half the price of a std::mutex
    std::atomic<ticket> issued_{0};
    std::vector<ticket> waited_for_;  // by queue number: the ticket that this queue already runs after
    detail::cross_device_dependencies needs_;
    completion_list waiters_;
    std::atomic<bool> is_watched_{false};    // by the completion service; the queue then keeps the runtime
    command_queue* next_watched_ = nullptr;  // link of the completion service's list
    storage_ref workspace_;
    detail::noted_lock<std::mutex> workspace_mutex_{"that of a workspace"};
};

}  // namespace sluice
