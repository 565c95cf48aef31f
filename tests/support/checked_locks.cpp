// SPDX-License-Identifier: Apache-2.0
// Linked into each test executable: a thread that waits for a device while it holds a lock of the library ends the
// program, with the names of both.
#include "sluice/base/detail/held_lock.hpp"

namespace {

[[maybe_unused]] const bool is_on = [] {
    sluice::detail::check_locks_at_waits();
    return true;
}();

}  // namespace
