// SPDX-License-Identifier: Apache-2.0
// The pipeline of two_halves. One buffer is split, and two streams work on its halves at the same time: each copies its
// numbers to the device, runs a kernel on them and copies the results back.
#pragma once

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "sluice/sluice.hpp"

namespace two_halves {

using namespace sluice;

// Newton's method: x becomes the square root of x.
struct square_root {
    int rounds;
    SLUICE_KERNEL void operator()(index_1d at, disjoint_view<float> x) const {
        float* const element = x.at(at);
        if (element == nullptr) return;
        const float square = *element;
        float root = square < 1 ? 1 : square;
        for (int i = 0; i < rounds; ++i) root = 0.5f * (root + square / root);
        *element = root;
    }
};

inline auto roots(tensor<float> half, host_buffer<float> squares, int rounds) {
    return named("copy in", upload_to(std::move(half), std::move(squares)))
        .and_then([rounds](auto x) {
            const auto all = each_of(x);
            return launch(square_root{rounds}, all, std::move(x));
        })
        .and_then(download);
}

// In memory that the device reads at full speed.
inline host_buffer<float> squares(stream user, std::size_t first, std::size_t count) {
    host_buffer<float> all(user, count);
    float* next = all.write().data();
    for (std::size_t i = first; i < first + count; ++i) *next++ = static_cast<float>(i) * static_cast<float>(i);
    return all;
}

// What the streams computed, and how the halves begin and end.
inline std::vector<std::string> run(std::size_t size, int rounds, scheduling_policy& pool) {
    auto [low, high] = split<2>(sync(uninitialized<float>({size}), pool));
    const std::size_t half = low.size();
    host_buffer<float> below = squares(pool.next(), 0, half), above = squares(pool.next(), half, size - half);
    auto first = spawn(roots(std::move(low), std::move(below), rounds), pool);    // on one stream
    auto second = spawn(roots(std::move(high), std::move(above), rounds), pool);  // on the next one
    const std::vector<float> lower = std::move(first).get(), upper = std::move(second).get();
    const auto line = [](const char* name, const std::vector<float>& x) {
        return std::string(name) + std::to_string(x.size()) + " roots, from " + std::to_string(x.front()) + " to " +
               std::to_string(x.back());
    };
    return {line("low:  ", lower), line("high: ", upper)};
}

}  // namespace two_halves
