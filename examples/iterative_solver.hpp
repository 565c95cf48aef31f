// SPDX-License-Identifier: Apache-2.0
// The pipeline of iterative_solver: Jacobi's method for 4 x[i] - x[i-1] - x[i+1] = b[i], as a compiled loop that ends
// on the device. The host launches it once and receives the solution; it reads no residual in between.
#pragma once

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "sluice/graph/control_flow.hpp"
#include "sluice/graph/executable_graph.hpp"
#include "sluice/sluice.hpp"

namespace iterative_solver {

using namespace sluice;

struct progress {
    int rounds;
    float residual;  // the largest of all rows, at the beginning of the last round
};

// The sum of x[i]'s neighbours; the elements beyond the ends count as 0.
SLUICE_KERNEL inline float neighbours(view<const float> x, std::size_t i) {
    return (i > 0 ? x[i - 1] : 0) + (i + 1 < x.size() ? x[i + 1] : 0);
}

SLUICE_KERNEL inline float largest_residual(view<const float> x, view<const float> b) {
    float largest = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
        const float off = b[i] + neighbours(x, i) - 4 * x[i];
        largest = off > largest ? off : (-off > largest ? -off : largest);
    }
    return largest;
}

struct jacobi {
    SLUICE_KERNEL void operator()(index_1d at, view<const float> x, view<const float> b,
                                  disjoint_view<float> next) const {
        if (float* const element = next.at(at)) *element = (b[at.value()] + neighbours(x, at.value())) / 4;
    }
};

// One thread reads all rows, counts the round, and decides whether the loop continues.
struct measure {
    float tolerance;
    SLUICE_KERNEL void operator()(index_1d at, view<const float> x, view<const float> b, loop_condition again,
                                  disjoint_view<progress> now) const {
        progress* const made = now.at(at);
        if (made == nullptr) return;
        *made = {made->rounds + 1, largest_residual(x, b)};
        again.set(made->residual > tolerance);
    }
};

// The new x is in other memory; the loop copies it back. The two kernels do not touch each other's outputs, so they may
// run concurrently.
inline auto round_of(const shared_tensor<float>& b, float tolerance) {
    return [=](loop_flag again, tensor<float> x, tensor<progress> so_far) {
        const shared_tensor<float> now(std::move(x));
        const auto one = each_of(so_far);
        return zip(uninitialized<float>(b->shape()).and_then([=](auto next) {
            const auto all = each_of(next);
            return launch(jacobi{}, all, now, b, std::move(next));
        }),
                   launch(measure{tolerance}, one, now, b, again, std::move(so_far)));
    };
}

inline std::vector<std::string> solve_all(std::size_t size, scheduling_policy& pool) {
    const auto solve = compile(
        pool, {.name = "jacobi"},
        [=](tensor<float> right_side) {
            const shared_tensor<float> b(std::move(right_side));
            return zip(zeros<float>({size}), zeros<progress>({1}))
                .and_then(
                    [=](auto x, auto so_far) { return do_while(round_of(b, 1e-3f), std::move(x), std::move(so_far)); })
                .and_then([](auto x, auto made) { return zip(download(std::move(x)), download(std::move(made))); });
        },
        host_input<float>({size}));

    std::vector<std::string> lines;
    for (const float scale : {1.f, 10.f, 0.f}) {
        // The right side whose solution is i * scale.
        std::vector<float> b(size);
        for (std::size_t i = 0; i < size; ++i) b[i] = 2 * scale * float(i);
        b.front() -= scale;
        b.back() += scale * float(size);
        const auto [x, made] = sync(solve(std::move(b)), pool);
        char text[96];
        std::snprintf(text, sizeof(text), "%d rounds, residual %.3g: x[1] = %.3f, x[%zu] = %.3f", made[0].rounds,
                      double(made[0].residual), double(x[1]), size - 1, double(x[size - 1]));
        lines.emplace_back(text);
    }
    return lines;
}

}  // namespace iterative_solver
