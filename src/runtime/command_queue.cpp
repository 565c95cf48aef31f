// SPDX-License-Identifier: Apache-2.0
#include "sluice/runtime/detail/command_queue.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>
#include <type_traits>
#include <vector>

#include "runtime/completion_service.hpp"
#include "runtime/exclusive_use.hpp"
#include "runtime/group_launch.hpp"
#include "runtime/runtime_state.hpp"
#include "sluice/base/detail/held_lock.hpp"
#include "sluice/base/error.hpp"
#include "sluice/runtime/detail/driven_wait.hpp"
#include "sluice/runtime/detail/submission.hpp"
#include "sluice/runtime/detail/wait_checks.hpp"
#include "sluice/runtime/device.hpp"
#include "sluice/runtime/row_copy.hpp"
#include "sluice/runtime/stream.hpp"

namespace sluice {
namespace {

// Refuses memory of another device, unless the command may use it.
void require_reach(const command_queue& on, const storage& used, const command_info& info) {
    const std::string& theirs = used.owner().name();
    const std::string& ours = on.owner().name();
    const error_context context{info.name, ours, info.location};
    if (info.spans_devices && on.owner().is_peer_of(used.owner())) return;
    if (theirs == ours) throw error(errc::invalid_argument, "uses memory of another runtime's " + theirs, context);
    if (info.spans_devices) {
        throw error(errc::unsupported,
                    "data cannot be copied directly from " + theirs + " to " + ours + ": download and upload it",
                    context);
    }
    throw error(errc::invalid_argument, "uses memory of " + theirs + "; copy it to " + ours + " first", context);
}

// A function of a module runs only where the module is loaded.
void require_loaded(const loaded_function& function, const device& on, const command_info& info) {
    if (function.device == on.name()) return;
    const error_context context{info.name, on.name(), info.location};
    if (on.kind() == device_kind::cuda) {
        throw error(errc::invalid_argument,
                    "the module of this function is loaded on " + function.device + ": load it on this GPU too",
                    context);
    }
    throw error(errc::unsupported,
                "a function of a module runs on GPUs only; the module is loaded on " + function.device, context);
}

[[noreturn]] void refuse_planned(const command_queue& on, const command_info& info) {
    throw error(errc::graph_refused,
                "uses memory inside a graph, whose contents exist only while the graph runs: make it an output",
                {info.name, on.owner().name(), info.location});
}

// The accesses that a command must wait for: gathered under the storage's guard, processed outside it. Hardly ever more
// than a few.
class conflict_list {
public:
    void add(stream_point earlier) {
        if (count_ < few_.size()) {
            few_[count_++] = {earlier.queue, earlier.upto};
        } else {
            more_.push_back(earlier);
        }
    }
    template <typename Function>
    void for_each(Function&& f) const {
        for (std::size_t i = 0; i < count_; ++i) f(stream_point{few_[i].queue, few_[i].upto});
        for (const stream_point& each : more_) f(each);
    }

private:
    struct point {  // like stream_point, but not initialised for each command
        command_queue* queue;
        ticket upto;
    };
    std::array<point, 8> few_;
    std::size_t count_ = 0;
    std::vector<stream_point> more_;
};

// Doubling keeps the number of growths small; the old block is reused after its last command. Where that does not fit,
// the new one is as large as requested.
storage_ref larger_workspace(const storage_ref& old, std::size_t bytes, const command_queue& of) {
    memory_pool& pool = of.owner().device_pool();
    const command_info info{"workspace"};
    if (!old) return pool.allocate(bytes, &of, info);
    try {
        return pool.allocate(std::max(bytes, 2 * old->capacity_bytes()), &of, info);
    } catch (const out_of_memory&) {
        return pool.allocate(bytes, &of, info);
    }
}

}  // namespace

command_queue::command_queue(device& owner, std::size_t index)
    : owner_(owner), index_(index), number_(owner.runtime_.next_queue_number()) {}

command_queue::command_queue(device& owner, command_recorder& recorder)
    : owner_(owner),
      index_(~std::size_t{0}),  // not one of the device's streams
      number_(index_),
      recorder_(&recorder),
      interpreter_(&recorder) {}

command_queue::~command_queue() = default;

// Nothing runs, so nothing is ordered here: the recorder derives its edges from the accesses.
template <typename Enqueue>
ticket command_queue::record(command_info info, detail::submission* by, Enqueue&& enqueue) {
    const std::lock_guard lock(mutex_);
    owner_.throw_if_refusing();
    if (by != nullptr && by->name() != nullptr) info.operation = *by->name();
    enqueue(info);
    const ticket number = issued_.load(std::memory_order_relaxed) + 1;
    issued_.store(number, std::memory_order_release);
    return number;
}

// `enqueue` may return an outcome: that of a command which has failed already. What it was to write depends on it
// before the ticket is issued, so no reader misses it.
template <typename Enqueue>
ticket command_queue::submit(const command_info& info, bool may_fail, detail::submission* by, Enqueue&& enqueue) {
    const ticket number = submit_unwaited(info, may_fail, by, enqueue);
    block_if_asked(number);
    return number;
}

// A thread of the device cannot wait for it, and one that holds a lock waits when it has given it up.
void command_queue::block_if_asked(ticket upto) {
    if (!owner_.blocks_each_command() || recorder_ != nullptr || owner_.interpreter().is_own_thread()) return;
    if (!detail::holds_a_lock()) wait(upto, owner_.default_wait_mode());
}

template <typename Enqueue>
ticket command_queue::submit_unwaited(command_info info, bool may_fail, detail::submission* by, Enqueue&& enqueue) {
    detail::access_locks together;  // held until the ticket is issued
    for (const memory_access& used : info.accesses) {
        if (used.memory == nullptr) continue;
        if (detail::access_lock* const lock = used.memory->lock()) {
            detail::give_way(*lock);
            together.add(*lock);
        }
        if (&used.memory->owner() != &owner_) require_reach(*this, *used.memory, info);
        if (used.memory->is_planned() && recorder_ == nullptr) refuse_planned(*this, info);
    }
    info.of_operation = by != nullptr;
    if (recorder_ != nullptr) return record(info, by, enqueue);
    detail::outcome_ref outcome, failed;  // dropped after the lock
    together.lock();
    const std::lock_guard lock(mutex_);
    owner_.throw_if_refusing();  // with the lock held: close() waits for each thread that passes this check
    const ticket number = issued_.load(std::memory_order_relaxed) + 1;
    try {
        detail::outcome_set depends_on;
        order(info, number, depends_on);
        if (may_fail || !depends_on.empty()) {
            outcome = std::move(depends_on).merge(may_fail);
            info.outcome = outcome.get();
            info.may_fail = may_fail;
        }
        if (by != nullptr) {
            by->expect(*this, static_cast<bool>(outcome));
            if (by->name() != nullptr) info.operation = *by->name();
        }
        if constexpr (std::is_void_v<decltype(enqueue(info))>) {
            enqueue(info);
        } else {
            failed = enqueue(info);
        }
    } catch (...) {
        // Nothing was enqueued and no ticket was used: restore the histories.
        for (const memory_access& used : info.accesses) {
            if (used.memory != nullptr) used.memory->revoke({this, number});
        }
        throw;
    }
    for (const memory_access& used : info.accesses) {
        if (used.memory == nullptr) continue;
        if (used.mode == access_mode::write && (failed || outcome)) used.memory->depend_on(failed ? failed : outcome);
        if (&used.memory->owner() != &owner_) note_dependency({&used.memory->owner(), {}, number});
    }
    if (by != nullptr) by->note({this, number}, outcome);
    issued_.store(number, std::memory_order_release);
    return number;
}

void command_queue::order(const command_info& info, ticket number, detail::outcome_set& depends_on) {
    conflict_list conflicts;
    std::size_t remote = 0;
    for (const memory_access& used : info.accesses) {
        if (used.memory == nullptr) continue;
        if (&used.memory->owner() != &owner_) {
            used.memory->owner().throw_if_refusing();
            ++remote;
        }
        const detail::outcome_ref theirs =
            used.memory->use({this, number}, used.mode, [&](const stream_point& earlier) {
                if (!is_after(earlier)) conflicts.add(earlier);
            });
        if (theirs) depends_on.add(theirs);
    }
    conflicts.for_each([&](const stream_point& earlier) { wait_for_queue(earlier, number); });
    if (remote != 0) needs_.expect(remote);  // last: the conflicts have already added their entries
}

bool command_queue::is_after(stream_point point) const noexcept {
    const std::size_t other = point.queue->number();
    const ticket upto = point.queue->reached(point.upto);
    return (other < waited_for_.size() && waited_for_[other] >= upto) || point.queue->passed() >= upto;
}

void command_queue::wait_for_queue(stream_point point, ticket number) {
    if (is_after(point)) return;
    const std::size_t other = point.queue->number();
    if (other >= waited_for_.size()) waited_for_.resize(other + 1, 0);
    device& there = point.queue->owner();
    const bool is_remote = &there != &owner_;
    if (is_remote) {
        there.throw_if_refusing();
        needs_.expect(1);
    }
    waited_for_[other] = interpreter_->order_after(point.queue->interpreter(), point.queue->reached(point.upto));
    if (is_remote) note_dependency({&there, {point.queue, waited_for_[other]}, number});
}

void command_queue::note_dependency(const detail::cross_device_dependencies::need& one) noexcept {
    needs_.note(one);
    owner_.reaches_others_.store(true, std::memory_order_release);
    if (one.on->is_poisoned() && is_open(one)) owner_.poison(one.on->cause());
}

bool command_queue::is_open(const detail::cross_device_dependencies::need& one) const noexcept {
    return passed() < one.by &&
           (one.awaited.queue == nullptr || one.awaited.queue->passed() < one.awaited.queue->reached(one.awaited.upto));
}

bool command_queue::needs(const device& other) const noexcept {
    bool any = false;
    for_each_dependency([&](const device& each) { any = any || &each == &other; });
    return any;
}

// A device's failure may be found only by querying it. So a poll here also polls the devices that this one depends on.
void command_queue::poll() noexcept {
    interpreter_->poll();
    if (owner_.has_depended_on_others()) owner_.poll();
}

ticket command_queue::copy(const command_info& info, const copy_command& command, detail::submission* by) {
    if (command.rows.count != 1) detail::require_rows(command, {info.name, owner_.name(), info.location});
    return submit(info, false, by, [&](const command_info& full) { interpreter_->copy(full, command); });
}

ticket command_queue::fill(const command_info& info, const fill_command& command, detail::submission* by) {
    return submit(info, false, by, [&](const command_info& full) { interpreter_->fill(full, command); });
}

ticket command_queue::launch(const command_info& info, const launch_command& command, detail::submission* by) {
    if (!command.launches.empty() && recorder() == nullptr) {
        throw error(errc::graph_refused, "a kernel launches graphs only from inside a graph: compile the operation",
                    {info.name, owner_.name(), info.location});
    }
    if (command.function != nullptr) require_loaded(*command.function, owner_, info);
    if (detail::is_group(command)) detail::require_group(owner_, command, {info.name, owner_.name(), info.location});
    const bool may_fail = command.may_fail && owner_.interpreter().runs_kernels_later();
    return submit(info, may_fail, by, [&](const command_info& full) { interpreter_->launch(full, command); });
}

ticket command_queue::library_call(const command_info& info, const library_command& command, detail::submission* by) {
    std::exception_ptr thrown;
    const bool runs_later = owner_.interpreter().runs_library_calls_later();
    // A call that has thrown counts, but it may not have written its results. Later commands that read them, in any
    // operation and on any thread, receive the failure as well.
    const ticket number = submit(info, runs_later, by, [&](const command_info& full) {
        thrown = interpreter_->library_call(full, command);
        try {
            return thrown ? detail::outcome::failed(thrown) : detail::outcome_ref();
        } catch (...) {  // out of memory; the call may have enqueued work, so it counts all the same
            thrown = std::current_exception();
            return detail::outcome_ref();
        }
    });
    if (thrown) std::rethrow_exception(std::move(thrown));
    return number;
}

ticket command_queue::host_call(const command_info& info, host_command command, detail::submission* by) {
    return submit(info, true, by, [&](const command_info& full) { interpreter_->host_call(full, std::move(command)); });
}

ticket command_queue::graph(const command_info& info, const graph_command& command, detail::submission* by) {
    return submit(info, command.program->may_fail(), by,
                  [&](const command_info& full) { interpreter_->graph(full, command); });
}

storage_ref command_queue::allocate(std::size_t bytes, const command_info& info) {
    return recorder_ != nullptr ? recorder_->allocate(bytes, info) : owner_.device_pool().allocate(bytes, this, info);
}

storage_ref command_queue::allocate_host(std::size_t bytes, const command_info& info) {
    return recorder_ != nullptr ? recorder_->allocate_host(bytes, info)
                                : owner_.host_pool().allocate(bytes, nullptr, info);
}

storage_ref command_queue::workspace(std::size_t bytes) {
    if (recorder_ != nullptr) return recorder_->workspace(bytes);
    storage_ref known;
    {
        const std::lock_guard lock(workspace_mutex_);
        if (workspace_ && workspace_->capacity_bytes() >= bytes) return workspace_;
        known = workspace_;
    }
    storage_ref grown = larger_workspace(known, bytes, *this);  // without the lock: it may wait for memory
    grown->mark_scratch();
    {
        const std::lock_guard lock(workspace_mutex_);
        if (workspace_ && workspace_->capacity_bytes() >= bytes) return workspace_;  // another thread was first
        owner_.throw_if_refusing();  // close() may have dropped the workspace already
        workspace_ = grown;
        grown->pool().note_own(*grown);
    }
    const log_entry facts{.level = log_level::debug,
                          .event = log_event::workspace_grown,
                          .device = owner_.name(),
                          .bytes = grown->capacity_bytes()};
    owner_.log().write(facts, [&] {
        return "the workspace of " + owner_.name() + "'s stream " + std::to_string(index_) + " has " +
               std::to_string(facts.bytes) + " bytes now";
    });
    return grown;
}

void command_queue::order_after(stream_point point) {
    if (point.queue == nullptr) return;
    if (!owner_.is_peer_of(point.queue->owner())) {
        detail::require_may_wait(point, "order_after");
        point.queue->wait(point.upto, point.queue->owner().default_wait_mode());
        return;
    }
    if (point.queue == this) {  // in order already, but for the commands of a recording
        if (recorder_ != nullptr) recorder_->order_after_recorded(reached(point.upto));
        return;
    }
    const std::lock_guard lock(mutex_);
    owner_.throw_if_refusing();
    wait_for_queue(point, issued() + 1);
}

void command_queue::wait(ticket upto, wait_mode mode) {
    upto = reached(upto);
    if (interpreter_->passed() >= upto) return;
    if (owner_.is_poisoned()) owner_.throw_if_refusing();  // with the first cause, and no call into a dead device
    detail::require_no_lock("for a stream");
    // Our device does not report that another device has failed: while commands here depend on one, poll all of them.
    while (owner_.depends_on_others() && interpreter_->needs_watching() && !detail::is_driven(owner_)) {
        owner_.poll();
        if (passed() >= upto) break;
        owner_.throw_if_poisoned();
        if (mode == wait_mode::block) std::this_thread::sleep_for(std::chrono::microseconds(50));
        if (mode == wait_mode::yield) std::this_thread::yield();
    }
    interpreter_->wait(upto, mode);
}

void command_queue::close() noexcept {
    {
        const std::lock_guard lock(mutex_);
    }  // each thread that was submitting has finished; later submissions are refused
    try {
        wait(issued(), owner_.default_wait_mode());
    } catch (...) {  // NOLINT(bugprone-empty-catch): the device has faulted; its waiters receive the fault
    }
    storage_ref unused;  // a reference to our own device's memory, which would keep the device alive for ever
    const std::lock_guard lock(workspace_mutex_);
    std::swap(unused, workspace_);
}

void command_queue::add_waiter(completion_waiter& waiter) noexcept {
    const ticket upto = waiter.upto;
    if (!owner_.is_poisoned()) release(passed());  // another thread may have polled
    waiters_.add(waiter);                          // from here on the waiter may be destroyed
    if (waiters_.released() >= upto || !interpreter_->needs_watching()) return;
    {
        const std::lock_guard lock(mutex_);
        interpreter_->arm(upto);
    }
    if (is_watched_.exchange(true)) return;
    owner_.retain_runtime();  // until the service stops watching the queue
    owner_.service().watch(*this);
}

std::unique_ptr<timed_mark> command_queue::mark() {
    const std::lock_guard lock(mutex_);
    owner_.throw_if_refusing();
    return interpreter_->mark();
}

}  // namespace sluice
