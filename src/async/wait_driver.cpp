// SPDX-License-Identifier: Apache-2.0
#include "sluice/async/detail/wait_driver.hpp"

#include <thread>
#include <vector>

namespace sluice::detail {
namespace {

// For tasks that other threads of the program continue. Nothing drives those.
constexpr auto longest_wait = std::chrono::seconds(3);
constexpr auto nap = std::chrono::milliseconds(1);

std::vector<std::weak_ptr<wait_driver>>& drivers_here() {
    thread_local std::vector<std::weak_ptr<wait_driver>> all;
    return all;
}

// The drivers that still live.
std::vector<std::shared_ptr<wait_driver>> living() {
    std::erase_if(drivers_here(), [](const auto& each) { return each.expired(); });
    std::vector<std::shared_ptr<wait_driver>> all;
    for (const auto& each : drivers_here()) {
        if (auto one = each.lock()) all.push_back(std::move(one));
    }
    return all;
}

}  // namespace

void add_wait_driver(const std::shared_ptr<wait_driver>& driver) { drivers_here().push_back(driver); }

bool has_wait_driver() noexcept {
    for (const auto& each : drivers_here()) {
        if (!each.expired()) return true;
    }
    return false;
}

void drive_until(const std::function<bool()>& is_over) {
    const auto drivers = living();
    const auto end = std::chrono::steady_clock::now() + longest_wait;
    for (;;) {
        for (const auto& each : drivers) {
            if (each->run_until(is_over)) return;
        }
        if (std::chrono::steady_clock::now() >= end) break;
        std::this_thread::sleep_for(nap);
    }
    drivers.back()->give_up();
}

bool drive_until(const std::function<bool()>& is_over, std::chrono::steady_clock::time_point deadline) {
    return living().back()->run_until(is_over, deadline);
}

}  // namespace sluice::detail
