// SPDX-License-Identifier: Apache-2.0
#include "trace/traced_stream.hpp"

#include <exception>
#include <string>
#include <utility>

#include "sluice/runtime/detail/command_queue.hpp"
#include "sluice/runtime/row_copy.hpp"

namespace sluice::detail {
namespace {

// With more outstanding commands than this, each new one settles some, so that their marks can be reused.
constexpr std::size_t enough_outstanding = 256;
constexpr std::size_t settled_at_once = 4;
// How often the device is polled while passed() does not advance by itself.
constexpr std::size_t commands_between_polls = 64;

trace_kind kind_of(copy_direction direction) noexcept {
    switch (direction) {
        case copy_direction::host_to_device: return trace_kind::host_to_device;
        case copy_direction::device_to_host: return trace_kind::device_to_host;
        case copy_direction::device_to_device: break;
    }
    return trace_kind::device_to_device;
}

}  // namespace

// Called with the stream's lock held, like everything that enqueues.
template <typename Enqueue>
void traced_stream::record(const command_info& info, trace_kind kind, std::size_t bytes, Enqueue&& enqueue) {
    std::unique_ptr<timed_mark> start = begin();
    enqueue();
    end(info, kind, bytes, std::move(start));
}

// Null when nothing is to be recorded.
std::unique_ptr<timed_mark> traced_stream::begin() noexcept {
    if (!log_->has_room()) return nullptr;
    try {
        if (!track_->clock().has_base()) track_->clock().set_base(*inner_, owner_);
        return inner_->mark();
    } catch (...) {  // the device has a fault: the command itself will report it
        return nullptr;
    }
}

// The command has been enqueued, so this must not fail.
void traced_stream::end(const command_info& info, trace_kind kind, std::size_t bytes,
                        std::unique_ptr<timed_mark> start) noexcept {
    if (start == nullptr) return log_->count_dropped(1);
    bool is_kept = false;
    try {
        traced_command command{info.name, std::string(info.operation), info.location, owner_.issued() + 1, kind, bytes};
        const std::size_t outstanding = track_->add({std::move(command), std::move(start), inner_->mark()});
        is_kept = true;
        log_->count_kept();
        settle_some(outstanding);
    } catch (...) {
        if (!is_kept) log_->count_dropped(1);
    }
}

void traced_stream::settle_some(std::size_t outstanding) {
    if (outstanding <= enough_outstanding || !track_->clock().is_running()) return;
    if (outstanding % commands_between_polls == 0) inner_->poll();
    const ticket passed = inner_->passed();
    // The end mark of the last command that has passed may not have passed yet.
    if (passed > 1) log_->count_dropped(track_->settle(passed - 1, settled_at_once));
}

void traced_stream::copy(const command_info& info, const copy_command& command) {
    record(info, kind_of(command.direction), copied_bytes(command), [&] { inner_->copy(info, command); });
}

void traced_stream::fill(const command_info& info, const fill_command& command) {
    record(info, trace_kind::fill, command.bytes, [&] { inner_->fill(info, command); });
}

void traced_stream::launch(const command_info& info, const launch_command& command) {
    record(info, trace_kind::kernel, 0, [&] { inner_->launch(info, command); });
}

std::exception_ptr traced_stream::library_call(const command_info& info, const library_command& command) {
    std::exception_ptr thrown;
    record(info, trace_kind::library_call, 0, [&] { thrown = inner_->library_call(info, command); });
    return thrown;
}

void traced_stream::host_call(const command_info& info, host_command command) {
    record(info, trace_kind::host_call, 0, [&] { inner_->host_call(info, std::move(command)); });
}

void traced_stream::graph(const command_info& info, const graph_command& command) {
    record(info, trace_kind::graph, 0, [&] { inner_->graph(info, command); });
}

ticket traced_stream::order_after(stream_interpreter& other, ticket upto) {
    auto& from = static_cast<traced_stream&>(other);  // of the same runtime, so of the same decoration
    const ticket covered = inner_->order_after(*from.inner_, upto);
    if (&from.owner_.owner() == &owner_.owner() && log_->has_room()) {  // a trace draws arrows within a device
        try {
            track_->add_wait(from.owner_.index(), upto);
        } catch (...) {  // NOLINT(bugprone-empty-catch): no memory to record it; the stream waits all the same
        }
    }
    return covered;
}

}  // namespace sluice::detail
