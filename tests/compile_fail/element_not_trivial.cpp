// SPDX-License-Identifier: Apache-2.0
// Device memory holds bytes. Elements with constructors, or with pointers that they own, are refused.
#include <sluice/sluice.hpp>

#include <string>

void make(sluice::scheduling_policy& pool) {
#ifdef SLUICE_EXPECT_OK
    sluice::sync(sluice::zeros<int>({4}), pool);
#else
    sluice::sync(sluice::zeros<std::string>({4}), pool);
#endif
}
