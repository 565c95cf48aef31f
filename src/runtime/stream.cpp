#include "sluice/runtime/stream.hpp"

#include <algorithm>
#include <new>

#include "sluice/runtime/device.hpp"
#include "sluice/runtime/error.hpp"

namespace sluice {
namespace {

[[noreturn]] void refuse_storage(const stream& on, const storage& used, const command_info& info) {
    throw error(errc::invalid_argument,
                "uses memory of " + used.owner().name() + "; copy it to " + on.owner().name() + " first",
                {info.name, on.owner().name(), info.where});
}

}  // namespace

template <typename Enqueue>
ticket stream::submit(const command_info& info, Enqueue&& enqueue) {
    owner_.throw_if_refusing();
    for (const access& used : info.accesses) {
        if (&used.where->owner() != &owner_) refuse_storage(*this, *used.where, info);
    }
    const std::lock_guard lock(mutex_);
    for (const access& used : info.accesses) {
        used.where->for_each_conflict(*this, used.mode, [&](const stream_point& earlier) { order_after(earlier); });
    }
    enqueue();  // throws: nothing happened, no ticket was used
    const ticket number = issued_.load(std::memory_order_relaxed) + 1;
    issued_.store(number, std::memory_order_release);
    for (const access& used : info.accesses) remember(*used.where, used.mode, number);
    return number;
}

// The command is on its way: that it uses the storage must not get lost, even without memory to note it.
void stream::remember(storage& used, access_mode mode, ticket number) {
    try {
        used.add_access({this, number}, mode);
    } catch (const std::bad_alloc&) {
        interpreter_->await(number, wait_mode::block);
    }
}

void stream::order_after(stream_point point) {
    if (point.where == this) return;
    const std::size_t other = point.where->index();
    if (other < waited_for_.size() && waited_for_[other] >= point.upto) return;
    if (point.where->passed() >= point.upto) return;
    if (other >= waited_for_.size()) waited_for_.resize(other + 1, 0);
    waited_for_[other] = interpreter_->wait_for(*point.where->interpreter_, point.upto);
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
    const std::lock_guard lock(mutex_);
    order_after(point);
}

void stream::await(ticket upto, wait_mode mode) {
    if (interpreter_->passed() < upto) interpreter_->await(upto, mode);
}

std::unique_ptr<timed_mark> stream::mark() {
    owner_.throw_if_refusing();
    const std::lock_guard lock(mutex_);
    return interpreter_->mark();
}

}  // namespace sluice
