// SPDX-License-Identifier: Apache-2.0
// A chain runs once, whatever its operations are.
#include <sluice/sluice.hpp>

auto copy_of(sluice::scheduling_policy& pool) {
    auto chain = sluice::retry(2, [] { return sluice::value(1); }).and_then([](int x) { return sluice::value(x); });
#ifdef SLUICE_EXPECT_OK
    return sync(std::move(chain), pool);
#else
    return sync(chain, pool);
#endif
}
