// SPDX-License-Identifier: Apache-2.0
// What differs for a stream that replays what repeats (stream_options::replays): it keeps commands until the operation
// has been submitted. Nothing else may see that. So whatever enqueues something else, looks at the stream's progress,
// or lets other code use the stream, submits the kept commands first; and progress is counted up to in_driver(), not up
// to the last ticket.
#include <algorithm>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

#include "cuda/api/error.hpp"
#include "cuda/cuda_graph_program.hpp"
#include "cuda/cuda_stream.hpp"
#include "cuda/small_copy.hpp"
#include "runtime/group_launch.hpp"
#include "sluice/runtime/detail/command_queue.hpp"
#include "sluice/runtime/device.hpp"
#include "sluice/runtime/row_copy.hpp"

namespace sluice::cuda {

native_stream cuda_stream::native() const noexcept {
    if (replay_ != nullptr) {
        is_handed_out_.store(true, std::memory_order_relaxed);
        const_cast<cuda_stream*>(this)->submit_kept();
    }
    return own_native();
}

ticket cuda_stream::in_driver() const noexcept {
    const ticket issued = owner_.issued();
    return replay_ == nullptr ? issued : std::min(issued, in_driver_.load(std::memory_order_acquire));
}

void cuda_stream::submit_kept() noexcept {
    if (replay_ == nullptr) return;
    std::vector<std::shared_ptr<const void>> retired;
    {
        const std::lock_guard lock(replay_mutex_);
        submit_kept_locked();
        if (replay_->has_retired()) retired = replay_->take_retired();
    }
    try {
        for (const auto& each : retired) keep_for_next_command(each);
    } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): the driver frees a graph after its last launch
    }
}

// The tickets of kept commands are issued. So whatever goes wrong here ends the device: else their waiters would never
// hear of it.
void cuda_stream::submit_kept_locked() noexcept {
    try {
        const api::device_scope scope(context_);
        replay_->submit(handle_);
    } catch (const device_error& error) {
        lose_kept(error);
    } catch (...) {
        owner_.owner().poison(std::current_exception());
    }
    count_kept_as_submitted();
}

void cuda_stream::lose_kept(const device_error& error) noexcept {
    if (api::is_fatal(error)) return report_fault(error.code().value(), "the launch of commands that repeat");
    owner_.owner().poison(std::current_exception());  // the other GPUs go on
}

void cuda_stream::count_kept_as_submitted() noexcept {
    const ticket before = in_driver_.load(std::memory_order_relaxed);
    in_driver_.store(std::max(before, replay_->last_kept()), std::memory_order_release);
}

void cuda_stream::drop_kept() noexcept {
    if (replay_ == nullptr) return;
    const std::lock_guard lock(replay_mutex_);
    replay_->drop();
}

// A command that may fail has an outcome, which someone settles.
bool cuda_stream::may_keep(const command_info& info) const noexcept {
    return replay_ != nullptr && info.of_operation && !info.may_fail && !is_handed_out_.load(std::memory_order_relaxed);
}

// False: enqueue_now() is to follow, or, when the command can never be kept, what was kept is submitted.
bool cuda_stream::keep(const command_info& info, const launch_command& launch, bool runs_kernels) {
    bool is_kept = false;
    const ticket number = owner_.issued() + 1;
    try {
        const api::device_scope scope(context_);
        CUfunc_st* const kernel = find_kernel(launch, {info.name, owner_.owner().name(), info.location});
        const std::lock_guard lock(replay_mutex_);
        try {
            is_kept = replay_->keep(number, kernel, launch, handle_);
        } catch (const device_error& error) {  // of commands that were kept
            lose_kept(error);
            throw;
        }
        if (!is_kept) count_kept_as_submitted();
    } catch (const device_error& error) {
        notice(error);
        throw;
    }
    if (is_kept) in_flight_.note(number, info, runs_kernels);
    return is_kept;
}

bool cuda_stream::keep_launch(const command_info& info, const launch_command& command) {
    const bool is_plain = command.function == nullptr && command.launches.empty() && !sluice::detail::is_group(command);
    if (is_plain) return keep(info, command, true);
    submit_kept();
    return false;
}

bool cuda_stream::keep_copy(const command_info& info, const copy_command& copy) {
    const void* const on_host = copy.direction == copy_direction::host_to_device ? copy.source : copy.destination;
    if (copy.bytes != 0 && copy.rows.count == 1 && copy.source_device == nullptr && is_small_copy(copy) &&
        is_pinned_block(info, on_host)) {
        const small_copy_closure closure{copy.destination, copy.source, copy.bytes};
        return keep(info, small_copy(closure), false);
    }
    submit_kept();
    return false;
}

bool cuda_stream::keep_fill(const command_info& info, const fill_command& fill) {
    if (is_small_fill(fill)) {
        small_fill_closure closure{};
        closure.areas[0] = {fill.destination, fill.bytes, fill.value};
        closure.count = 1;
        return keep(info, small_fill(closure), false);
    }
    submit_kept();
    return false;
}

// Whether the address is in a block of the device's pinned memory that the command names.
bool cuda_stream::is_pinned_block(const command_info& info, const void* data) const noexcept {
    const auto address = reinterpret_cast<std::uintptr_t>(data);
    for (const memory_access& each : info.accesses) {
        if (each.memory == nullptr || each.memory->is_foreign()) continue;
        if (&each.memory->pool() != &owner_.owner().host_pool()) continue;
        const auto begin = reinterpret_cast<std::uintptr_t>(each.memory->data());
        if (address >= begin && address - begin < each.memory->capacity_bytes()) return true;
    }
    return false;
}

}  // namespace sluice::cuda
