// SPDX-License-Identifier: Apache-2.0
#include "runtime/staying_work.hpp"

#include <algorithm>

#include "runtime/runtime_state.hpp"
#include "sluice/runtime/detail/command_queue.hpp"

namespace sluice::detail {

void staying_works::end_all_of(const device& on) noexcept {
    const std::lock_guard lock(mutex_);
    for (staying_work* const each : all_)
        if (&each->queue().owner() == &on) each->end();
}

ticket staying_works::last_to_wait_for(const command_queue& queue) const noexcept {
    // Read before the list: work that begins meanwhile is in the list before its ticket is issued.
    const ticket issued = queue.issued();
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::find_if(all_, [&](const staying_work* each) { return &each->queue() == &queue; });
    return found == all_.end() ? issued : std::min(issued, (*found)->before());
}

staying_works& runtime_state::staying_works_of(device& on) noexcept { return on.runtime_.staying; }

staying_works& staying_works_of(device& on) noexcept { return runtime_state::staying_works_of(on); }

}  // namespace sluice::detail
