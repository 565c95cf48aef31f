// SPDX-License-Identifier: Apache-2.0
// A combinator consumes its operation.
#include <sluice/sluice.hpp>

void make() {
    auto one = sluice::value(1);
#ifdef SLUICE_EXPECT_OK
    auto made = std::move(one).and_then([](int x) { return sluice::value(x); });
    static_cast<void>(made);
#else
    auto made = one.and_then([](int x) { return sluice::value(x); });
    static_cast<void>(made);
#endif
}
