// SPDX-License-Identifier: Apache-2.0
// graph_launcher and self_launcher: kernel parameters that launch graphs from the device. See launchable_graph.hpp.
//
//     struct watch {
//         float limit;
//         SLUICE_KERNEL void operator()(index_1d at, view<const float> error, graph_launcher refit,
//                                       disjoint_view<int> refitted) const {
//             if (int* const said = refitted.at(at)) *said = error[0] > limit && refit.tail() ? 1 : 0;
//         }
//     };
//
// One thread calls a launch function. True: the launch is accepted. False: nothing is launched, because the graph still
// runs or waits to run, or because a limit is reached: while a graph runs, it launches at most 120 others that run
// concurrently with it, at most 255 graphs wait for the end of another, and it launches itself at most once.
//
// Kernels of a launchable graph launch others too. Then everything that a graph has launched must be over before the
// graph runs again, because it works in the same memory. So these launches always return false: sibling() in a
// launchable graph, and fire_and_forget() and sibling() of a graph that itself launches others. tail() launches it.
#pragma once

#include <cstddef>

#include "sluice/base/kernel.hpp"

namespace sluice {

namespace detail {

enum class launch_order : unsigned char { fire_and_forget, tail, sibling };

// For kernels on host threads: launches the graph (null: the running graph itself) from the graph that this thread
// runs.
bool launch_while_replaying(const void* graph, launch_order order) noexcept;

struct device_launch;

}  // namespace detail

// A kernel's parameter; its argument is a launchable_graph.
class graph_launcher {
public:
    // The graph runs concurrently with the launching graph, in no order with the rest of it. The launching graph is
    // complete only when the launched one is. Costs one launch by the device.
    SLUICE_KERNEL bool fire_and_forget() const {
        return !launches_others_ && launch(detail::launch_order::fire_and_forget);
    }
    // The graph runs after the launching graph and everything that this one launched to run concurrently. Several run
    // in the order of their launches. Costs one launch by the device.
    SLUICE_KERNEL bool tail() const { return launch(detail::launch_order::tail); }
    // The graph runs concurrently with the launching graph. The launching graph does not wait for it; the launcher of
    // the launching graph does. Costs one launch by the device.
    SLUICE_KERNEL bool sibling() const { return !launches_others_ && launch(detail::launch_order::sibling); }

private:
    friend struct detail::device_launch;
    SLUICE_KERNEL graph_launcher(const void* graph, bool launches_others)
        : graph_(graph), launches_others_(launches_others) {}

    SLUICE_KERNEL bool launch(detail::launch_order order) const {
#if defined(__CUDA_ARCH__)
        // Not null: the kernel runs in a graph that kernels launch.
        if (order == detail::launch_order::sibling && cudaGetCurrentGraphExec() != nullptr) return false;
        cudaStream_t launch_stream = cudaStreamGraphTailLaunch;
        if (order == detail::launch_order::fire_and_forget) launch_stream = cudaStreamGraphFireAndForget;
        if (order == detail::launch_order::sibling) launch_stream = cudaStreamGraphFireAndForgetAsSibling;
        return cudaGraphLaunch(static_cast<cudaGraphExec_t>(const_cast<void*>(graph_)), launch_stream) == cudaSuccess;
#else
        return detail::launch_while_replaying(graph_, order);
#endif
    }

    // No padding: the bytes of a launch are compared, and a copy need not keep those between members.
    const void* graph_;
    std::size_t launches_others_;
};

// A kernel's parameter and its argument: launches the graph that the kernel runs in, which must be a launchable one.
class self_launcher {
public:
    // The graph runs once more, after itself. Costs one launch by the device.
    SLUICE_KERNEL bool tail() const {
#if defined(__CUDA_ARCH__)
        return cudaGraphLaunch(cudaGetCurrentGraphExec(), cudaStreamGraphTailLaunch) == cudaSuccess;
#else
        return detail::launch_while_replaying(nullptr, detail::launch_order::tail);
#endif
    }

private:
    friend struct detail::device_launch;
    self_launcher() = default;
};

}  // namespace sluice
