// SPDX-License-Identifier: Apache-2.0
#include "sluice/runtime/detail/part_context.hpp"

#include <algorithm>

#include "runtime/runtime_state.hpp"
#include "sluice/runtime/detail/command_queue.hpp"

namespace sluice::detail {
namespace {

bool is_lent(const memory_pool& pool) {
    const memory_pool::statistics now = pool.usage();
    return now.in_use_bytes > now.own_bytes;
}

bool is_busy(const command_queue* queue) { return queue->passed() < queue->issued(); }

bool may_give_memory(device& asked) {
    asked.poll();
    if (asked.is_poisoned()) return false;  // its memory is never handed out again
    return is_lent(asked.device_pool()) || is_lent(asked.host_pool()) ||
           std::ranges::any_of(asked.all_queues(), is_busy);
}

}  // namespace

bool part_context::may_memory_come() const {
    return std::ranges::any_of(owner().runtime_.devices, [](const auto& each) { return may_give_memory(*each); });
}

}  // namespace sluice::detail
