// SPDX-License-Identifier: Apache-2.0
// guards_aside: while it exists, the calling thread's guards (sluice/base/run_guard.hpp) are not asked. For commands
// that a thread runs while it waits: they may be others', who would receive what a guard throws, and where no command
// can fail there is no such caller. A guard made meanwhile is asked.
//
// Thread safety: it belongs to the thread that made it, and ends before the guards that were there.
#pragma once

#include <utility>

#include "sluice/base/run_guard.hpp"

namespace sluice::detail {

class guards_aside {
public:
    guards_aside() noexcept : before_(std::exchange(run_guard::innermost_, nullptr)) {}
    guards_aside(const guards_aside&) = delete;  // a scope
    guards_aside& operator=(const guards_aside&) = delete;
    ~guards_aside() { run_guard::innermost_ = before_; }

private:
    run_guard* const before_;
};

}  // namespace sluice::detail
