// SPDX-License-Identifier: Apache-2.0
#include "sluice/base/detail/held_lock.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstdlib>

namespace sluice::detail {
namespace {

std::atomic<bool> is_checked{false};

struct held {
    std::array<const char*, 8> names{};  // of the first ones
    std::size_t count = 0;
};
thread_local held mine;

}  // namespace

void note_lock(const char* name) noexcept {
    if (mine.count < mine.names.size()) mine.names[mine.count] = name;
    ++mine.count;
}

// Locks need not be given up in the reverse order.
void forget_lock(const char* name) noexcept {
    --mine.count;
    const auto end = mine.names.begin() + static_cast<std::ptrdiff_t>(std::min(mine.count, mine.names.size() - 1));
    const auto found = std::find(mine.names.begin(), end, name);
    std::move(found == end ? end : found + 1, end + 1, found);
}

bool holds_a_lock() noexcept { return mine.count != 0; }

void check_locks_at_waits() noexcept { is_checked.store(true, std::memory_order_relaxed); }

void require_no_lock(std::string_view wait) noexcept {
    if (mine.count == 0 || !is_checked.load(std::memory_order_relaxed)) return;
    std::fprintf(stderr, "sluice: a thread waits for a device (%.*s) while it holds a lock of the library:",
                 static_cast<int>(wait.size()), wait.data());
    for (std::size_t i = 0; i < std::min(mine.count, mine.names.size()); ++i)
        std::fprintf(stderr, "%s %s", i == 0 ? "" : ",", mine.names[i]);
    std::fprintf(stderr, "\n");
    std::abort();
}

}  // namespace sluice::detail
