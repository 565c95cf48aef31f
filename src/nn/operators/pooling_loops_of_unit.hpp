// SPDX-License-Identifier: Apache-2.0
// The loops of pooling_loops.hpp, for a file that is compiled for one kind of vector unit and includes this once.
//
// Nothing here has external linkage, and no inline function of another header is called: the linker could take this
// file's instance of it for the whole program, on a processor without the unit.
#pragma once

#include <cstddef>

#include "nn/operators/pooling_loops.hpp"

namespace sluice::nn::operators {
namespace {

struct take_larger_number {
    [[gnu::always_inline]] static void take(float& to, float x) { to = ((x > to) | (x != x)) ? x : to; }
};
struct add_number {
    [[gnu::always_inline]] static void take(double& to, double x) { to += x; }
};

template <typename How, std::size_t Step, typename From, typename To>
void over_steps(const From* __restrict x, To* __restrict to, std::size_t count) noexcept {
    for (std::size_t i = 0; i < count; ++i) How::take(to[i], x[i * Step]);
}

// Steps that are known when this is compiled become loads of vectors.
template <typename How, typename From, typename To>
void over_any(const From* __restrict x, std::size_t step, To* __restrict to, std::size_t count) noexcept {
    switch (step) {
        case 1: return over_steps<How, 1>(x, to, count);
        case 2: return over_steps<How, 2>(x, to, count);
        case 3: return over_steps<How, 3>(x, to, count);
        default:
            for (std::size_t i = 0; i < count; ++i) How::take(to[i], x[i * step]);
    }
}

void add_a_line(const float* x, double* to, std::size_t count) noexcept { over_steps<add_number, 1>(x, to, count); }

constexpr pooling_loops pooling_loops_of_this_unit = {&over_any<take_larger_number, float, float>, &add_a_line,
                                                      &over_any<add_number, double, double>};

}  // namespace
}  // namespace sluice::nn::operators
