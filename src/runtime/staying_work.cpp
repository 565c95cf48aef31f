// SPDX-License-Identifier: Apache-2.0
#include "runtime/staying_work.hpp"

#include "runtime/runtime_state.hpp"
#include "sluice/runtime/detail/command_queue.hpp"

namespace sluice::detail {

void staying_works::end_all_of(const device& on) noexcept {
    const std::lock_guard lock(mutex_);
    for (staying_work* const each : all_)
        if (&each->queue().owner() == &on) each->end();
}

staying_works& runtime_state::staying_works_of(device& on) noexcept { return on.runtime_.staying; }

staying_works& staying_works_of(device& on) noexcept { return runtime_state::staying_works_of(on); }

}  // namespace sluice::detail
