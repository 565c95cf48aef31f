// SPDX-License-Identifier: Apache-2.0
// A task is consumed by awaiting it: one with a name must be moved.
#include "sluice/async/task.hpp"

namespace {
sluice::task<int> answer() { co_return 42; }

sluice::task<int> ask() {
    auto named = answer();
#ifdef SLUICE_EXPECT_OK
    co_return co_await std::move(named);
#else
    co_return co_await named;
#endif
}
}  // namespace

int main() { return ask().valid() ? 0 : 1; }
