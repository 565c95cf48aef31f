// SPDX-License-Identifier: Apache-2.0
// transform maps values; to continue with an operation, use and_then.
#include <sluice/sluice.hpp>

void make() {
#ifdef SLUICE_EXPECT_OK
    auto made = sluice::value(1).and_then([](int x) { return sluice::value(x + 1); });
    static_cast<void>(made);
#else
    auto made = sluice::value(1).transform([](int x) { return sluice::value(x + 1); });
    static_cast<void>(made);
#endif
}
