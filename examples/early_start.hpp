// SPDX-License-Identifier: Apache-2.0
// The pipeline of early_start: two kernels, of which the second starts while the first still runs (programmatic
// dependent launch). The second kernel's preamble computes something that does not depend on the first; then the kernel
// waits, and reads the first kernel's result.
#pragma once

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "sluice/graph/executable_graph.hpp"
#include "sluice/sluice.hpp"

namespace early_start {

using namespace sluice;

struct halve {
    SLUICE_KERNEL void operator()(index_1d at, disjoint_view<float> x) const {
        dependency_trigger();  // the next kernel may start its preamble
        if (float* const element = x.at(at)) *element /= 2;
    }
};

struct weigh {
    SLUICE_KERNEL void operator()(index_1d at, view<const float> x, disjoint_view<float> y) const {
        float weight = 1;
        for (std::size_t i = 0; i < at.value() % 8; ++i) weight *= 2;
        dependency_wait();  // from here on all writes of earlier kernels are visible
        if (float* const element = y.at(at)) *element = weight * x[at.value()];
    }
};

inline auto halve_and_weigh(tensor<float> x) {
    const shape size = x.shape();
    const auto all = each_of(x);
    return zip(launch(halve{}, all, std::move(x)), uninitialized<float>(size))
        .and_then([](auto halved, auto y) {
            const auto each = each_of(y).early_start();
            return launch(weigh{}, each, std::move(halved), std::move(y));
        })
        .and_then(download);
}

// Eager and compiled: the graph has a programmatic edge between the two kernels.
inline std::vector<std::string> run_both(scheduling_policy& pool) {
    const auto describe = [](const char* how, const std::vector<float>& y) {
        std::string line = how;
        for (const float each : y) {
            char text[32];
            std::snprintf(text, sizeof(text), " %g", double(each));
            line += text;
        }
        return line;
    };
    const std::vector<float> x{2, 4, 6, 8, 10, 12, 14, 16};
    const auto fast =
        compile(pool, [](tensor<float> given) { return halve_and_weigh(std::move(given)); }, host_input<float>({8}));
    return {describe("eager:    ", sync(upload(x).and_then(halve_and_weigh), pool)),
            describe("compiled: ", sync(fast(x), pool))};
}

}  // namespace early_start
