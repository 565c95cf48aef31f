// SPDX-License-Identifier: Apache-2.0
// An operation runs once; only what is shared can be copied.
#include <sluice/sluice.hpp>

#include <vector>

auto copy_of(sluice::scheduling_policy& pool) {
#ifdef SLUICE_EXPECT_OK
    auto operation = share(sluice::upload(std::vector<float>{1}));
#else
    auto operation = sluice::upload(std::vector<float>{1});
#endif
    return sync(operation, pool);
}
