// SPDX-License-Identifier: Apache-2.0
// A kernel of the user's, and an operation of the library.
#include <sluice/sluice.hpp>

#include <cstdio>

struct increment {
    SLUICE_KERNEL void operator()(sluice::index_1d at, sluice::disjoint_view<float> x) const {
        if (float* const element = x.at(at)) *element += 1;
    }
};

int main() {
    sluice::runtime machine;
    sluice::single_stream pool(machine.default_device());
    const std::vector<float> total = sluice::sync(
        sluice::upload(std::vector<float>{1, 2, 3})
            .and_then([](auto x) { return sluice::launch(increment{}, sluice::each_of(x), std::move(x)); })
            .and_then([](sluice::tensor<float> x) { return sluice::sum(std::move(x)); })
            .and_then(sluice::download),
        pool);
    std::printf("%g\n", total.at(0));
    return total == std::vector<float>{9} ? 0 : 1;
}
