// What a kernel launches graphs with, from the device. See launchable_graph.hpp.
//
//     struct watch {
//         float limit;
//         SLUICE_KERNEL void operator()(index_1d at, view<const float> error, graph_launcher refit,
//                                       disjoint_view<int> refitted) const {
//             if (int* const said = refitted.at(at)) *said = error[0] > limit && refit.tail() ? 1 : 0;
//         }
//     };
//
// One thread launches. True: accepted. False: nothing is launched, because the graph still runs or waits to, or because
// the device takes no more: a graph launches at most 120 others that run beside it while it runs, 255 may wait for the
// end of another, and it launches itself once at most.
#pragma once

#include "sluice/runtime/kernel.hpp"

namespace sluice {

namespace detail {

enum class launch_order : unsigned char { fire_and_forget, tail, sibling };

// For kernels on host threads: launches it from the graph that runs on this thread; null: that graph itself.
bool launch_while_replaying(const void* graph, launch_order order) noexcept;

struct device_launch;

}  // namespace detail

// A kernel's parameter; its argument is a launchable_graph.
class graph_launcher {
public:
    // It runs beside the launching graph, in no order with the rest of it. The launching graph is over when it is.
    SLUICE_KERNEL bool fire_and_forget() const { return launch(detail::launch_order::fire_and_forget); }
    // It runs behind the launching graph and all that this has launched to run beside it. Several, in the order of
    // their launches.
    SLUICE_KERNEL bool tail() const { return launch(detail::launch_order::tail); }
    // It runs beside the launching graph, which does not wait for it: whoever launched that one does.
    SLUICE_KERNEL bool sibling() const { return launch(detail::launch_order::sibling); }

private:
    friend struct detail::device_launch;
    SLUICE_KERNEL explicit graph_launcher(const void* graph) : graph_(graph) {}

    SLUICE_KERNEL bool launch(detail::launch_order order) const {
#if defined(__CUDA_ARCH__)
        cudaStream_t where = cudaStreamGraphTailLaunch;
        if (order == detail::launch_order::fire_and_forget) where = cudaStreamGraphFireAndForget;
        if (order == detail::launch_order::sibling) where = cudaStreamGraphFireAndForgetAsSibling;
        return cudaGraphLaunch(static_cast<cudaGraphExec_t>(const_cast<void*>(graph_)), where) == cudaSuccess;
#else
        return detail::launch_while_replaying(graph_, order);
#endif
    }

    const void* graph_;
};

// A kernel's parameter and its argument: of the graph that the kernel runs in, which must be a launchable one.
class self_launcher {
public:
    // The graph runs once more, behind itself.
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
