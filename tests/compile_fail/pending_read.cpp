// SPDX-License-Identifier: Apache-2.0
// A value that the device still computes cannot be read, only waited for.
#include <sluice/sluice.hpp>

std::vector<int> make(sluice::device_future<sluice::pending<std::vector<int>>> later,
                      sluice::pending<std::vector<int>> now) {
#ifdef SLUICE_EXPECT_OK
    static_cast<void>(now);
    return std::move(later).get();
#else
    static_cast<void>(later);
    return *now;
#endif
}
