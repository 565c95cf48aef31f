#include "sluice/runtime/command_queue.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>
#include <vector>

#include "runtime/completion_service.hpp"
#include "runtime/runtime_state.hpp"
#include "sluice/runtime/device.hpp"
#include "sluice/runtime/driven_wait.hpp"
#include "sluice/runtime/error.hpp"
#include "sluice/runtime/stream.hpp"
#include "sluice/runtime/submission.hpp"

namespace sluice {
namespace {

// Memory of another device.
void require_reach(const command_queue& on, const storage& used, const command_info& info) {
    const std::string& theirs = used.owner().name();
    const std::string& ours = on.owner().name();
    const error_context context{info.name, ours, info.where};
    if (info.spans_devices && on.owner().is_beside(used.owner())) return;
    if (theirs == ours) throw error(errc::invalid_argument, "uses memory of another runtime's " + theirs, context);
    if (info.spans_devices) {
        throw error(errc::unsupported,
                    "there is no way from " + theirs + " to " + ours + " but by the host: download and upload",
                    context);
    }
    throw error(errc::invalid_argument, "uses memory of " + theirs + "; copy it to " + ours + " first", context);
}

[[noreturn]] void refuse_planned(const command_queue& on, const command_info& info) {
    throw error(errc::graph_refused,
                "uses memory inside a graph, whose contents are there only while the graph runs: make it an output",
                {info.name, on.owner().name(), info.where});
}

// What a command must wait for: gathered under the storage's guard, dealt with outside. Hardly ever more than a
// few.
class conflict_list {
public:
    void add(stream_point earlier) {
        if (count_ < few_.size()) {
            few_[count_++] = {earlier.where, earlier.upto};
        } else {
            more_.push_back(earlier);
        }
    }
    template <typename Function>
    void for_each(Function&& f) const {
        for (std::size_t i = 0; i < count_; ++i) f(stream_point{few_[i].where, few_[i].upto});
        for (const stream_point& each : more_) f(each);
    }

private:
    struct point {  // as stream_point, but not made null for each command
        command_queue* where;
        ticket upto;
    };
    std::array<point, 8> few_;
    std::size_t count_ = 0;
    std::vector<stream_point> more_;
};

}  // namespace

command_queue::command_queue(device& owner, std::size_t index)
    : owner_(owner),
      index_(index),
      number_(owner.runtime_.next_queue_number()),
      handle_(std::make_unique<stream>(*this)) {}

command_queue::command_queue(device& owner, command_recorder& recorder)
    : owner_(owner),
      index_(~std::size_t{0}),  // no stream of the device
      number_(index_),
      recorder_(&recorder),
      interpreter_(&recorder),
      handle_(std::make_unique<stream>(*this)) {}

command_queue::~command_queue() = default;

// Nothing runs, so nothing is ordered: the recorder draws its edges from the accesses.
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

template <typename Enqueue>
ticket command_queue::submit(command_info info, bool may_fail, detail::submission* by, Enqueue&& enqueue) {
    for (const memory_access& used : info.accesses) {
        if (used.where == nullptr) continue;
        if (&used.where->owner() != &owner_) require_reach(*this, *used.where, info);
        if (used.where->is_planned() && recorder_ == nullptr) refuse_planned(*this, info);
    }
    if (recorder_ != nullptr) return record(info, by, enqueue);
    detail::outcome_ref outcome;  // dropped after the lock
    const std::lock_guard lock(mutex_);
    owner_.throw_if_refusing();  // with the lock held: close() waits for whoever got through
    const ticket number = issued_.load(std::memory_order_relaxed) + 1;
    try {
        detail::outcome_set hangs_on;
        order(info, number, hangs_on);
        if (may_fail || !hangs_on.empty()) {
            outcome = std::move(hangs_on).merge(may_fail);
            info.outcome = outcome.get();
        }
        if (by != nullptr) {
            by->expect(*this, static_cast<bool>(outcome));
            if (by->name() != nullptr) info.operation = *by->name();
        }
        enqueue(info);
    } catch (...) {
        // Nothing was enqueued and no ticket used: what the histories said before holds again.
        for (const memory_access& used : info.accesses) {
            if (used.where != nullptr) used.where->revoke({this, number});
        }
        throw;
    }
    for (const memory_access& used : info.accesses) {
        if (used.where == nullptr) continue;
        if (outcome && used.mode == access_mode::write) used.where->hang_on(outcome);
        if (&used.where->owner() != &owner_) note_need({&used.where->owner(), {}, number});
    }
    if (by != nullptr) by->note({this, number}, outcome);
    issued_.store(number, std::memory_order_release);
    return number;
}

void command_queue::order(const command_info& info, ticket number, detail::outcome_set& hangs_on) {
    conflict_list conflicts;
    for (const memory_access& used : info.accesses) {
        if (used.where == nullptr) continue;
        if (&used.where->owner() != &owner_) {
            used.where->owner().throw_if_refusing();
            needs_.expect_one();
        }
        const detail::outcome_ref theirs = used.where->use({this, number}, used.mode, [&](const stream_point& earlier) {
            if (!is_after(earlier)) conflicts.add(earlier);
        });
        if (theirs) hangs_on.add(theirs);
    }
    conflicts.for_each([&](const stream_point& earlier) { order_after(earlier, number); });
}

bool command_queue::is_after(stream_point point) const noexcept {
    const std::size_t other = point.where->number();
    const ticket upto = point.where->reached(point.upto);
    return (other < waited_for_.size() && waited_for_[other] >= upto) || point.where->passed() >= upto;
}

void command_queue::order_after(stream_point point, ticket number) {
    if (is_after(point)) return;
    const std::size_t other = point.where->number();
    if (other >= waited_for_.size()) waited_for_.resize(other + 1, 0);
    device& there = point.where->owner();
    const bool is_abroad = &there != &owner_;
    if (is_abroad) {
        there.throw_if_refusing();
        needs_.expect_one();
    }
    waited_for_[other] = interpreter_->wait_for(point.where->interpreter(), point.where->reached(point.upto));
    if (is_abroad) note_need({&there, {point.where, waited_for_[other]}, number});
}

void command_queue::note_need(const detail::foreign_needs::need& one) noexcept {
    needs_.note(one);
    owner_.reaches_others_.store(true, std::memory_order_release);
    if (one.on->is_poisoned() && is_open(one)) owner_.poison(one.on->cause());
}

bool command_queue::is_open(const detail::foreign_needs::need& one) const noexcept {
    return passed() < one.by &&
           (one.awaited.where == nullptr || one.awaited.where->passed() < one.awaited.where->reached(one.awaited.upto));
}

bool command_queue::needs(const device& other) const noexcept {
    bool any = false;
    for_each_needed([&](const device& each) { any = any || &each == &other; });
    return any;
}

// A device that has failed may be found out only by asking it; so who asks us asks those that we hang on.
void command_queue::poll() noexcept {
    interpreter_->poll();
    if (owner_.reaches_others()) owner_.poll();
}

ticket command_queue::copy(const command_info& info, const copy_command& command, detail::submission* by) {
    return submit(info, false, by, [&](const command_info& full) { interpreter_->copy(full, command); });
}

ticket command_queue::fill(const command_info& info, const fill_command& command, detail::submission* by) {
    return submit(info, false, by, [&](const command_info& full) { interpreter_->fill(full, command); });
}

ticket command_queue::launch(const command_info& info, const launch_command& command, detail::submission* by) {
    if (!command.launches.empty() && recorder() == nullptr) {
        throw error(errc::graph_refused, "a kernel launches graphs only from inside a graph: compile the operation",
                    {info.name, owner_.name(), info.where});
    }
    return submit(info, false, by, [&](const command_info& full) { interpreter_->launch(full, command); });
}

ticket command_queue::library_call(const command_info& info, const library_command& command, detail::submission* by) {
    std::exception_ptr thrown;
    const bool runs_later = owner_.interpreter().runs_library_calls_later();
    const ticket number = submit(info, runs_later, by,
                                 [&](const command_info& full) { thrown = interpreter_->library_call(full, command); });
    if (thrown) {
        // The command counts, but what it should have written is not there; whoever reads that, later and elsewhere, is
        // told as well.
        const auto failed = detail::outcome::failed(thrown);
        for (const memory_access& used : info.accesses) {
            if (used.where != nullptr && used.mode == access_mode::write) used.where->hang_on(failed);
        }
        std::rethrow_exception(std::move(thrown));
    }
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
    const std::lock_guard lock(workspace_mutex_);
    if (!workspace_ || workspace_->capacity_bytes() < bytes) {
        // Doubling keeps the number of growths small; the old one is reused behind its last command.
        const std::size_t doubled = workspace_ ? 2 * workspace_->capacity_bytes() : 0;
        workspace_ = owner_.device_pool().allocate(std::max(bytes, doubled), this, {"workspace"});
        workspace_->holds_no_data();
    }
    return workspace_;
}

void command_queue::wait_for(stream_point point) {
    if (point.where == nullptr) return;
    if (!owner_.is_beside(point.where->owner())) {
        point.where->await(point.upto, point.where->owner().default_wait_mode());
        return;
    }
    if (point.where == this) return;
    const std::lock_guard lock(mutex_);
    owner_.throw_if_refusing();
    order_after(point, issued() + 1);
}

void command_queue::await(ticket upto, wait_mode mode) {
    upto = reached(upto);
    if (interpreter_->passed() >= upto) return;
    if (owner_.is_poisoned()) owner_.throw_if_refusing();  // with the first cause, and no call into a dead device
    // That another device has failed, ours does not tell: while commands here hang on one, all are asked.
    while (owner_.hangs_on_others() && interpreter_->needs_watching() && !detail::is_driven(owner_)) {
        owner_.poll();
        if (passed() >= upto) break;
        owner_.throw_if_poisoned();
        if (mode == wait_mode::block) std::this_thread::sleep_for(std::chrono::microseconds(50));
        if (mode == wait_mode::yield) std::this_thread::yield();
    }
    interpreter_->await(upto, mode);
}

void command_queue::close() noexcept {
    {
        const std::lock_guard lock(mutex_);
    }  // whoever was submitting has done so; the next one is refused
    try {
        await(issued(), owner_.default_wait_mode());
    } catch (...) {  // NOLINT(bugprone-empty-catch): a device that has faulted; its waiters are told
    }
    // A reference to our own device's memory: kept, it would keep the device for ever.
    const std::lock_guard lock(workspace_mutex_);
    workspace_ = {};
}

void command_queue::add_waiter(completion_waiter& waiter) noexcept {
    const ticket upto = waiter.upto;
    if (!owner_.is_poisoned()) release(passed());  // what others have found out
    waiters_.add(waiter);                          // from here on it may be gone
    if (waiters_.released() >= upto || !interpreter_->needs_watching()) return;
    {
        const std::lock_guard lock(mutex_);
        interpreter_->arm(upto);
    }
    if (is_watched_.exchange(true)) return;
    owner_.retain_runtime();  // until it is watched no more
    owner_.service().watch(*this);
}

std::unique_ptr<timed_mark> command_queue::mark() {
    const std::lock_guard lock(mutex_);
    owner_.throw_if_refusing();
    return interpreter_->mark();
}

// What stream leaves to us, so that it need not know the device.
storage_ref stream::allocate(std::size_t bytes, const command_info& info) { return queue_.allocate(bytes, info); }

storage_ref stream::allocate_host(std::size_t bytes, const command_info& info) {
    return queue_.allocate_host(bytes, info);
}

}  // namespace sluice
