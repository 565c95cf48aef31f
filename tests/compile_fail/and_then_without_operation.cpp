// SPDX-License-Identifier: Apache-2.0
// and_then continues with an operation; a function on values is for transform.
#include <sluice/sluice.hpp>

void make() {
#ifdef SLUICE_EXPECT_OK
    auto made = sluice::value(1).and_then([](int x) { return sluice::value(x + 1); });
    static_cast<void>(made);
#else
    auto made = sluice::value(1).and_then([](int x) { return x + 1; });
    static_cast<void>(made);
#endif
}
