// SPDX-License-Identifier: Apache-2.0
// A copy of device memory is a command, and must be written as copy(...).
#include <sluice/sluice.hpp>

void make(sluice::tensor<float> x) {
#ifdef SLUICE_EXPECT_OK
    sluice::tensor<float> y = std::move(x);
#else
    sluice::tensor<float> y = x;
#endif
}
