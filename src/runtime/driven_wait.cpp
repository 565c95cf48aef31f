// SPDX-License-Identifier: Apache-2.0
#include "sluice/runtime/detail/driven_wait.hpp"

#include "runtime/completion_service.hpp"
#include "sluice/runtime/device.hpp"

namespace sluice::detail {

bool is_driven(device& home) noexcept { return home.service().driver() != nullptr; }

void drive_until(device& home, const std::function<bool()>& is_over) {
    home.service().driver()->run_until(is_over, timer::clock::time_point::max());
}

}  // namespace sluice::detail
