// SPDX-License-Identifier: Apache-2.0
#include "c/made_here.hpp"

#include <pthread.h>

#include <atomic>
#include <string>

#include "sluice/base/error.hpp"

namespace sluice::c {
namespace {

// How many forks are between the first process and this one.
std::atomic<unsigned> forks{0};
const int watches_forks = pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1, std::memory_order_relaxed); });

}  // namespace

made_here::made_here() noexcept : forks_(forks.load(std::memory_order_relaxed)) { static_cast<void>(watches_forks); }

bool made_here::is_here() const noexcept { return forks_ == forks.load(std::memory_order_relaxed); }

void made_here::require(std::string_view function, std::string_view what) const {
    if (is_here()) return;
    throw error(errc::runtime_closed,
                std::string(what) +
                    " was made before this process was forked, and its threads are not here: make it "
                    "after the fork, or start the process with posix_spawn",
                {function});
}

}  // namespace sluice::c
