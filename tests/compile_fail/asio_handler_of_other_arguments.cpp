// SPDX-License-Identifier: Apache-2.0
// A handler takes the exception and the value.
#include <sluice/asio.hpp>

void wait(sluice::device_future<sluice::pending<std::vector<int>>> later) {
#ifdef SLUICE_EXPECT_OK
    sluice::async_wait(std::move(later), [](std::exception_ptr, std::vector<int>) {});
#else
    sluice::async_wait(std::move(later), [](std::vector<int>) {});
#endif
}
