#include "sluice/runtime/stream.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "sluice/runtime/device.hpp"
#include "sluice/runtime/error.hpp"

namespace sluice {
namespace {

[[noreturn]] void refuse_storage(const stream& on, const storage& used, const command_info& info) {
    const std::string& theirs = used.owner().name();
    const std::string& ours = on.owner().name();
    throw error(errc::invalid_argument,
                theirs == ours ? "uses memory of another runtime's " + theirs
                               : "uses memory of " + theirs + "; copy it to " + ours + " first",
                {info.name, ours, info.where});
}

// What a command must wait for: gathered under the storage's guard, dealt with outside. Hardly ever more than a
// few.
class conflict_list {
public:
    void add(stream_point point) {
        if (count_ < few_.size()) {
            few_[count_++] = point;
        } else {
            more_.push_back(point);
        }
    }
    template <typename Function>
    void for_each(Function&& f) const {
        for (std::size_t i = 0; i < count_; ++i) f(few_[i]);
        for (const stream_point& point : more_) f(point);
    }

private:
    std::array<stream_point, 8> few_;
    std::size_t count_ = 0;
    std::vector<stream_point> more_;
};

}  // namespace

template <typename Enqueue>
ticket stream::submit(const command_info& info, Enqueue&& enqueue) {
    for (const memory_access& used : info.accesses) {
        if (used.where != nullptr && &used.where->owner() != &owner_) refuse_storage(*this, *used.where, info);
    }
    const std::lock_guard lock(mutex_);
    owner_.throw_if_refusing();  // with the lock held: close() waits for whoever got through
    const ticket number = issued_.load(std::memory_order_relaxed) + 1;
    try {
        order(info, number);
        enqueue();
    } catch (...) {
        // Nothing was enqueued and no ticket used: what the histories said before holds again.
        for (const memory_access& used : info.accesses) {
            if (used.where != nullptr) used.where->revoke({this, number});
        }
        throw;
    }
    issued_.store(number, std::memory_order_release);
    return number;
}

void stream::order(const command_info& info, ticket number) {
    conflict_list conflicts;
    for (const memory_access& used : info.accesses) {
        if (used.where == nullptr) continue;
        used.where->use({this, number}, used.mode, [&](const stream_point& earlier) {
            if (!is_after(earlier)) conflicts.add(earlier);
        });
    }
    conflicts.for_each([&](const stream_point& earlier) { order_after(earlier); });
}

bool stream::is_after(stream_point point) const noexcept {
    const std::size_t other = point.where->index();
    const ticket upto = point.where->reached(point.upto);
    return (other < waited_for_.size() && waited_for_[other] >= upto) || point.where->passed() >= upto;
}

void stream::order_after(stream_point point) {
    if (is_after(point)) return;
    const std::size_t other = point.where->index();
    if (other >= waited_for_.size()) waited_for_.resize(other + 1, 0);
    waited_for_[other] = interpreter_->wait_for(*point.where->interpreter_, point.where->reached(point.upto));
}

ticket stream::copy(const command_info& info, const copy_command& command) {
    return submit(info, [&] { interpreter_->copy(info, command); });
}

ticket stream::fill(const command_info& info, const fill_command& command) {
    return submit(info, [&] { interpreter_->fill(info, command); });
}

ticket stream::launch(const command_info& info, const launch_command& command) {
    return submit(info, [&] { interpreter_->launch(info, command); });
}

ticket stream::library_call(const command_info& info, const library_command& command) {
    std::exception_ptr thrown;
    const ticket number = submit(info, [&] { thrown = interpreter_->library_call(info, command); });
    if (thrown) std::rethrow_exception(std::move(thrown));
    return number;
}

ticket stream::host_call(const command_info& info, host_command command) {
    return submit(info, [&] { interpreter_->host_call(info, std::move(command)); });
}

storage_ref stream::allocate(std::size_t bytes, const command_info& info) {
    return owner_.device_pool().allocate(bytes, this, info);
}

storage_ref stream::allocate_host(std::size_t bytes, const command_info& info) {
    return owner_.host_pool().allocate(bytes, nullptr, info);
}

storage_ref stream::workspace(std::size_t bytes) {
    const std::lock_guard lock(workspace_mutex_);
    if (!workspace_ || workspace_->capacity_bytes() < bytes) {
        // Doubling keeps the number of growths small; the old one is reused behind its last command.
        const std::size_t doubled = workspace_ ? 2 * workspace_->capacity_bytes() : 0;
        workspace_ = allocate(std::max(bytes, doubled), {"workspace"});
    }
    return workspace_;
}

void stream::wait_for(stream_point point) {
    if (point.where == nullptr) return;
    if (&point.where->owner() != &owner_) {
        point.where->await(point.upto, point.where->owner().default_wait_mode());
        return;
    }
    if (point.where == this) return;
    const std::lock_guard lock(mutex_);
    owner_.throw_if_refusing();
    order_after(point);
}

void stream::await(ticket upto, wait_mode mode) {
    upto = reached(upto);
    if (interpreter_->passed() < upto) interpreter_->await(upto, mode);
}

void stream::close() noexcept {
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

std::unique_ptr<timed_mark> stream::mark() {
    const std::lock_guard lock(mutex_);
    owner_.throw_if_refusing();
    return interpreter_->mark();
}

}  // namespace sluice
