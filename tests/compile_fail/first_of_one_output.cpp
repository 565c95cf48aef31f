// SPDX-License-Identifier: Apache-2.0
// first and last choose among several outputs.
#include <sluice/sluice.hpp>

void make() {
#ifdef SLUICE_EXPECT_OK
    auto made = sluice::zip(sluice::value(1), sluice::value(2)).first();
#else
    auto made = sluice::value(1).first();
#endif
    static_cast<void>(made);
}
