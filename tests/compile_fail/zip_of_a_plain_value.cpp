// SPDX-License-Identifier: Apache-2.0
// zip takes operations; a plain value must be wrapped.
#include <sluice/sluice.hpp>

void make() {
#ifdef SLUICE_EXPECT_OK
    auto made = sluice::zip(sluice::value(1), sluice::value(2));
    static_cast<void>(made);
#else
    sluice::zip(sluice::value(1), 2);
#endif
}
