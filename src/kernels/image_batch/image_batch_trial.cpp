// SPDX-License-Identifier: Apache-2.0
#include "kernels/image_batch/image_batch_trial.hpp"

#include <algorithm>
#include <limits>

#include "cuda/early_starts.hpp"

namespace sluice::kernels {

bool convolution_trial::measure(const batch_call& call, const image_step& step, convolution_way& by,
                                void* workspace) const {
    constexpr int calls = 8, rounds = 3;
    try {
        const step_run run(call, workspace, libraries_, kernels_, stream_.get());
        run(step, by);  // loads what has to be loaded
        cuda::api::synchronize(stream_.get());
        const cuda::api::graph_handle graph = cuda::api::create_graph();
        static_cast<void>(cuda::api::capture(
            graph.get(), {}, stream_.get(),
            [&] {
                for (int i = 0; i < calls; ++i) {
                    const cuda::early_starts scope(starts_early_ && i != 0);
                    run(step, by);
                }
            },
            image_batch_context));
        const cuda::api::graph_exec_handle exec = cuda::api::instantiate(graph.get(), false, image_batch_context);
        cuda::api::launch(exec.get(), stream_.get(), image_batch_context);
        by.microseconds = std::numeric_limits<double>::infinity();
        for (int i = 0; i < rounds; ++i) {
            cuda::api::record(from_.get(), stream_.get());
            cuda::api::launch(exec.get(), stream_.get(), image_batch_context);
            cuda::api::record(to_.get(), stream_.get());
            cuda::api::synchronize(to_.get());
            const double took = 1e3 * static_cast<double>(cuda::api::elapsed_milliseconds(from_.get(), to_.get()));
            by.microseconds = std::min(by.microseconds, took / calls);
        }
        return true;
    } catch (const device_error&) {
        return false;
    }
}

}  // namespace sluice::kernels
