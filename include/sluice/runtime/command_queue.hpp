// command_queue: what a stream is to its device. It counts the commands, orders them behind conflicting ones of
// other queues, hands them to the interpreter, and tells who waits when they are complete. Owned by its device;
// everyone else speaks to it through streams.
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
#include "sluice/runtime/command.hpp"
#include "sluice/runtime/completion_list.hpp"
#include "sluice/runtime/foreign_needs.hpp"
#include "sluice/runtime/interpreter.hpp"
#include "sluice/runtime/outcome.hpp"
#include "sluice/runtime/spin_lock.hpp"
#include "sluice/runtime/storage.hpp"
#include "sluice/runtime/ticket.hpp"

namespace sluice {

class device;
class stream;

namespace detail {
class completion_service;
class submission;
}  // namespace detail

class command_queue {
public:
    command_queue(device& owner, std::size_t index);
    // One whose commands are recorded, for this device. The recorder outlives it.
    command_queue(device& owner, command_recorder& recorder);
    command_queue(const command_queue&) = delete;  // tickets and histories point to it
    command_queue& operator=(const command_queue&) = delete;
    ~command_queue();

    device& owner() const noexcept { return owner_; }
    std::size_t index() const noexcept { return index_; }    // among those of its device
    std::size_t number() const noexcept { return number_; }  // among those of its runtime
    stream_interpreter& interpreter() const noexcept { return *interpreter_; }
    // A stream on nobody's behalf.
    stream& handle() const noexcept { return *handle_; }
    // What writes the commands down instead of carrying them out; null for a queue that does.
    command_recorder* recorder() const noexcept { return recorder_; }

    // Commands, on behalf of a submission or of nobody; see stream.
    ticket copy(const command_info& info, const copy_command& command, detail::submission* by);
    ticket fill(const command_info& info, const fill_command& command, detail::submission* by);
    ticket launch(const command_info& info, const launch_command& command, detail::submission* by);
    ticket library_call(const command_info& info, const library_command& command, detail::submission* by);
    ticket host_call(const command_info& info, host_command command, detail::submission* by);
    ticket graph(const command_info& info, const graph_command& command, detail::submission* by);
    void wait_for(stream_point point);
    std::unique_ptr<timed_mark> mark();
    storage_ref workspace(std::size_t bytes);
    storage_ref allocate(std::size_t bytes, const command_info& info);
    storage_ref allocate_host(std::size_t bytes, const command_info& info);

    // The number of the last command; 0 before the first.
    ticket issued() const noexcept { return issued_.load(std::memory_order_acquire); }
    // As much of `upto` as was issued: a read that was refused leaves its ticket in histories until the next
    // command takes it.
    ticket reached(ticket upto) const noexcept { return std::min(upto, issued()); }
    // The last command known to be complete; see poll().
    ticket passed() const noexcept { return interpreter_->passed(); }
    void poll() noexcept;
    // Blocks the calling thread until `upto` is complete. Throws when the device has faulted.
    void await(ticket upto, wait_mode mode);

    // Completes the waiter, once, when its ticket is passed or the device has faulted; perhaps at once, on this
    // thread. Does not block. The waiter then asks passed() and the device which of the two it was.
    void add_waiter(completion_waiter& waiter) noexcept;
    // Whether somebody waits who has not been told.
    bool has_waiters() const noexcept { return !waiters_.empty(); }
    // For interpreters that pass commands on their own: up to here they are complete.
    void release(ticket upto) noexcept { waiters_.release(upto); }
    // Whether a command that is not known to be complete hangs on that device.
    bool needs(const device& other) const noexcept;
    // Those devices; f is called with a lock held that nothing else is waited for with.
    template <typename Function>
    void for_each_needed(Function&& f) const {
        needs_.for_each([&](const detail::foreign_needs::need& each) {
            if (is_open(each)) f(*each.on);
        });
    }

private:
    friend class device;
    friend class detail::completion_service;

    // Waits for all commands; the device takes no more.
    void close() noexcept;

    void set_interpreter(std::unique_ptr<stream_interpreter> made) noexcept {
        owned_interpreter_ = std::move(made);
        interpreter_ = owned_interpreter_.get();
    }
    template <typename Enqueue>
    ticket record(command_info info, detail::submission* by, Enqueue&& enqueue);
    template <typename Enqueue>
    ticket submit(command_info info, bool may_fail, detail::submission* by, Enqueue&& enqueue);
    // Lock held; points of other queues. Gathers what the command hangs on.
    void order(const command_info& info, ticket number, detail::outcome_set& hangs_on);
    bool is_after(stream_point point) const noexcept;
    void order_after(stream_point point, ticket number);
    // The command that needs it has been enqueued: either another device's tell_of_poison() sees that, or we see here
    // that it has failed.
    void note_need(const detail::foreign_needs::need& one) noexcept;
    bool is_open(const detail::foreign_needs::need& one) const noexcept;

    device& owner_;
    const std::size_t index_;
    const std::size_t number_;
    command_recorder* const recorder_ = nullptr;
    std::unique_ptr<stream_interpreter> owned_interpreter_;  // null for a recorder
    stream_interpreter* interpreter_ = nullptr;
    std::unique_ptr<stream> handle_;
    detail::spin_lock mutex_;  // orders the submissions of several threads; half the price of a std::mutex
    std::atomic<ticket> issued_{0};
    std::vector<ticket> waited_for_;  // by queue number: what this one already runs after
    detail::foreign_needs needs_;
    completion_list waiters_;
    std::atomic<bool> is_watched_{false};    // by the completion service; keeps the runtime then
    command_queue* next_watched_ = nullptr;  // its list
    storage_ref workspace_;
    std::mutex workspace_mutex_;
};

}  // namespace sluice
