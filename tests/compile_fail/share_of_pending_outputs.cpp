// SPDX-License-Identifier: Apache-2.0
// Pending values among several outputs cannot be opened once for all users.
#include <sluice/sluice.hpp>

#include <vector>

auto share_both() {
    using namespace sluice;
    auto both = zip(upload(std::vector<float>{1}).and_then(download), upload(std::vector<float>{2}).and_then(download));
#ifdef SLUICE_EXPECT_OK
    auto [first, second] = unzip(std::move(both));
    return zip(share(std::move(first)), share(std::move(second)));
#else
    return share(std::move(both));
#endif
}
