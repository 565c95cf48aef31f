#include "sluice/runtime/stream.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "sluice/runtime/device.hpp"
#include "sluice/runtime/error.hpp"

namespace sluice {
namespace {

[[noreturn]] void refuse_storage(const stream& on, const storage& used, const command_info& info) {
    throw error(errc::invalid_argument,
                "uses memory of " + used.owner().name() + "; copy it to " + on.owner().name() + " first",
                {info.name, on.owner().name(), info.where});
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
    owner_.throw_if_refusing();
    for (const access& used : info.accesses) {
        if (&used.where->owner() != &owner_) refuse_storage(*this, *used.where, info);
    }
    const std::lock_guard lock(mutex_);
    const ticket number = issued_.load(std::memory_order_relaxed) + 1;
    // The history first: when there is no memory to note an access, or the command is refused, nothing has
    // been enqueued and no ticket used.
    conflict_list conflicts;
    for (const access& used : info.accesses) {
        used.where->use({this, number}, used.mode, [&](const stream_point& earlier) {
            if (!is_after(earlier)) conflicts.add(earlier);
        });
    }
    conflicts.for_each([&](const stream_point& earlier) { order_after(earlier); });
    enqueue();
    issued_.store(number, std::memory_order_release);
    return number;
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
    return submit(info, [&] { interpreter_->library_call(info, command); });
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
    order_after(point);
}

void stream::await(ticket upto, wait_mode mode) {
    upto = reached(upto);
    if (interpreter_->passed() < upto) interpreter_->await(upto, mode);
}

std::unique_ptr<timed_mark> stream::mark() {
    owner_.throw_if_refusing();
    const std::lock_guard lock(mutex_);
    return interpreter_->mark();
}

}  // namespace sluice
