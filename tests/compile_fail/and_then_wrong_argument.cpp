// SPDX-License-Identifier: Apache-2.0
// The function must take the output of the operation.
#include <sluice/sluice.hpp>

struct unrelated {};

void make() {
#ifdef SLUICE_EXPECT_OK
    auto made = sluice::zeros<float>({4}).and_then([](sluice::tensor<float> x) { return sluice::value(std::move(x)); });
    static_cast<void>(made);
#else
    auto made = sluice::zeros<float>({4}).and_then([](unrelated x) { return sluice::value(x); });
    static_cast<void>(made);
#endif
}
