// SPDX-License-Identifier: Apache-2.0
// The pipeline of watched_solver: a graph that checks each new right side and, on the device, launches the solver when
// the current solution is no longer good enough. The solver is a graph as well, which launches itself until the
// solution is good enough. The host launches only the first graph, and reads the results afterwards.
#pragma once

#include "iterative_solver.hpp"

namespace watched_solver {

using namespace sluice;
using iterative_solver::jacobi;
using iterative_solver::largest_residual;
using iterative_solver::progress;

// Another round follows while the residual of x is above the tolerance.
struct go_on {
    float tolerance;
    SLUICE_KERNEL void operator()(index_1d at, view<const float> x, view<const float> b, self_launcher solver,
                                  disjoint_view<progress> now) const {
        progress* const made = now.at(at);
        if (made == nullptr) return;
        *made = {made->rounds + 1, largest_residual(x, b)};
        if (made->residual > tolerance) static_cast<void>(solver.tail());
    }
};

// Checks whether there is anything to solve; if so, launches the solver to run after this graph.
struct watch {
    float tolerance;
    SLUICE_KERNEL void operator()(index_1d at, view<const float> x, view<const float> b, graph_launcher solver,
                                  disjoint_view<int> launched) const {
        if (int* const said = launched.at(at)) *said = largest_residual(x, b) > tolerance && solver.tail() ? 1 : 0;
    }
};

inline std::vector<std::string> follow_all(std::size_t size, scheduling_policy& pool) {
    const auto solver = launchable(
        pool, {.name = "solver"},
        [](self_launcher self, tensor<float> x, tensor<float> right_side, tensor<progress> so_far) {
            const shared_tensor<float> now(std::move(x)), b(std::move(right_side));
            const auto one = each_of(so_far);
            return zip(uninitialized<float>(b->shape()).and_then([=](auto next) {
                const auto all = each_of(next);
                return launch(jacobi{}, all, now, b, std::move(next));
            }),
                       copy(b), launch(go_on{1e-3f}, one, now, b, self, std::move(so_far)));
        },
        device_input<float>({size}), device_input<float>({size}), device_input<progress>({1}));
    sync(zip(zeros<float>({size}), zeros<float>({size}), zeros<progress>({1})).and_then([&](auto x, auto b, auto made) {
        return solver.set(std::move(x), std::move(b), std::move(made));
    }),
         pool);

    const auto look = compile(
        pool, {.name = "look"},
        [=](tensor<float> b) {
            const shared_tensor<float> to_solve(std::move(b));
            return solver.set<1>(to_solve)
                .and_then([=] { return zip(solver.get<0>(), uninitialized<int>({1})); })
                .and_then([=](auto x, auto said) {
                    const auto one = each_of(said);
                    return launch(watch{1e-3f}, one, std::move(x), to_solve, solver, std::move(said));
                })
                .and_then(download);
        },
        host_input<float>({size}));

    std::vector<std::string> lines;
    for (const float scale : {1.f, 1.f, 10.f, 10.00001f, 0.f}) {
        // The right side whose solution is i * scale.
        std::vector<float> b(size);
        for (std::size_t i = 0; i < size; ++i) b[i] = 2 * scale * float(i);
        b.front() -= scale;
        b.back() += scale * float(size);
        const bool launched = sync(look(std::move(b)), pool)[0] != 0;
        const auto [x, made] = sync(zip(solver.get<0>().and_then(download), solver.get<2>().and_then(download)), pool);
        char text[96];
        std::snprintf(text, sizeof(text), "%s: %d rounds so far, x[1] = %.3f, x[%zu] = %.3f",
                      launched ? "solved" : "still good", made[0].rounds, double(x[1]), size - 1, double(x[size - 1]));
        lines.emplace_back(text);
    }
    return lines;
}

}  // namespace watched_solver
