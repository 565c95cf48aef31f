// SPDX-License-Identifier: Apache-2.0
#include "sluice/runtime/stream.hpp"

#include <utility>

#include "sluice/runtime/detail/command_queue.hpp"
#include "sluice/runtime/detail/wait_checks.hpp"
#include "sluice/runtime/device.hpp"

namespace sluice {

std::string_view detail::device_name(stream on) noexcept { return on.owner().name(); }

device& stream::owner() const noexcept { return queue_->owner(); }
std::size_t stream::index() const noexcept { return queue_->index(); }
native_stream stream::native() const noexcept { return queue_->interpreter().native(); }
bool stream::is_recording() const noexcept { return queue_->recorder() != nullptr; }

ticket stream::copy(const command_info& info, const copy_command& command) const {
    return queue_->copy(info, command, by_);
}
ticket stream::fill(const command_info& info, const fill_command& command) const {
    return queue_->fill(info, command, by_);
}
ticket stream::launch(const command_info& info, const launch_command& command) const {
    return queue_->launch(info, command, by_);
}
ticket stream::library_call(const command_info& info, const library_command& command) const {
    return queue_->library_call(info, command, by_);
}
ticket stream::host_call(const command_info& info, host_command command) const {
    return queue_->host_call(info, std::move(command), by_);
}
ticket stream::graph(const command_info& info, const graph_command& command) const {
    return queue_->graph(info, command, by_);
}

storage_ref stream::allocate(std::size_t bytes, const command_info& info) const {
    return queue_->allocate(bytes, info);
}
storage_ref stream::allocate_host(std::size_t bytes, const command_info& info) const {
    return queue_->allocate_host(bytes, info);
}
storage_ref stream::workspace(std::size_t bytes) const { return queue_->workspace(bytes); }

ticket stream::issued() const noexcept { return queue_->issued(); }
ticket stream::passed() const noexcept { return queue_->passed(); }
void stream::poll() const noexcept { queue_->poll(); }
void stream::order_after(stream_point point) const { queue_->order_after(point); }
void stream::wait(ticket upto, wait_mode mode) const {
    detail::require_may_wait(point(upto), "wait");
    queue_->wait(upto, mode);
}
std::unique_ptr<timed_mark> stream::mark() const { return queue_->mark(); }

}  // namespace sluice
