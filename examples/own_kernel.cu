// SPDX-License-Identifier: Apache-2.0
// own_kernel: the second program of README. A line, clipped, over a vector, checked against the same in plain C++.
#include <sluice/sluice.hpp>

#include <cmath>
#include <cstdio>

using namespace sluice;

struct clipped_line {  // a * x + b, at least low and at most high
    SLUICE_KERNEL void operator()(index_1d at, float a, float b, float low, float high, disjoint_view<float> x) const {
        if (float* element = x.at(at)) *element = std::fmin(std::fmax(a * *element + b, low), high);
    }
};

auto clipped(std::vector<float> x) {
    return upload(std::move(x))
        .and_then([](auto y) { return launch(clipped_line{}, each_of(y), 2.f, 1.f, -3.f, 3.f, std::move(y)); })
        .and_then(download);
}

int main() {
    runtime machine;
    round_robin pool(machine.default_device(), 4);

    std::vector<float> x;
    for (int i = -8; i <= 8; ++i) x.push_back(0.5f * static_cast<float>(i));
    const std::vector<float> y = sync(clipped(x), pool);
    std::size_t right = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
        const float expected = std::fmin(std::fmax(2.f * x[i] + 1.f, -3.f), 3.f);
        right += y[i] == expected;
        std::printf("%g%s", y[i], i + 1 < x.size() ? " " : "\n");
    }
    std::printf("%zu of %zu right\n", right, x.size());
    return right == x.size() ? 0 : 1;
}
