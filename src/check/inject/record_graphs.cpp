// SPDX-License-Identifier: Apache-2.0
// Calls that build, instantiate and launch graphs.
#include <algorithm>

#include "check/inject/recorder.hpp"

namespace sluice::check {
namespace {

// The keys that each kind of node has. `what` is the kind.
template <typename Params>
void begin_node(recorder& to, const Params& with, const char* what) {
    const std::uint64_t graph = to.graph(with.hGraph);
    std::vector<std::uint64_t> after;
    for (std::size_t i = 0; i < with.numDependencies; ++i) after.push_back(to.node(graph, with.dependencies[i]));
    const std::uint64_t node = to.new_node(graph, *with.phGraphNode);
    to.begin("node");
    to.to().number("graph", graph);
    to.to().number("node", node);
    to.to().text("kind", what);
    to.to().begin_list("after");
    for (const std::uint64_t each : after) to.to().element(each);
    to.to().end_list();
}

template <typename Params>
void write_other_node(recorder& to, const Params& with) {
    begin_node(to, with, "empty");
    to.to().end();
}

template <typename Params, typename Kernel>
void write_kernel_node(recorder& to, const driver_call& call, const Params& with, const Kernel& kernel) {
    if (kernel.func == nullptr) {  // a CUkernel, whose parameters have other functions
        to.unseen_once("nodes of kernels of libraries");
        return write_other_node(to, with);
    }
    const std::uint64_t function = to.kernel(call, kernel.func);
    begin_node(to, with, "kernel");
    to.to().number("function", function);
    to.arguments(kernel.func, kernel.kernelParams, kernel.extra);
    to.to().end();
}

template <typename Params>
void write_copy_node(recorder& to, const Params& with, const CUDA_MEMCPY3D& copy) {
    if (copy.Depth > 1) {
        to.unseen_once("nodes that copy several slices");
        return write_other_node(to, with);
    }
    begin_node(to, with, "copy");
    if (!copied_rows(copy, 0, to.to(), "direction")) {
        to.unseen_once("copies of CUDA arrays");
        return write_other_node(to, with);
    }
    to.to().end();
}

template <typename Params, typename Fill>
void write_fill_node(recorder& to, const Params& with, const Fill& fill) {
    begin_node(to, with, "fill");
    const std::uint64_t bytes = std::uint64_t{fill.elementSize} * fill.width;
    to.to().number("to", fill.dst);
    to.to().number("bytes", bytes);
    to.to().number("rows", fill.height);
    to.to().number("to_pitch", std::max<std::uint64_t>(fill.pitch, bytes));
    to.to().end();
}

template <typename Params>
void write_host_node(recorder& to, const Params& with) {
    begin_node(to, with, "host_func");
    to.to().end();
}

constexpr const char* other_kinds = "nodes of other kinds than kernel, copy, fill, host and empty";

// It keeps its place in the order.
template <typename Params>
void write_node_of_other_kind(recorder& to, const driver_call& call) {
    to.unseen_once(other_kinds);
    write_other_node(to, call.as<Params>());
}

template <typename Params>
void write_any_node(recorder& to, const driver_call& call) {
    const auto& with = call.as<Params>();
    const CUgraphNodeParams& node = *with.nodeParams;
    switch (node.type) {
        case CU_GRAPH_NODE_TYPE_KERNEL: return write_kernel_node(to, call, with, node.kernel);
        case CU_GRAPH_NODE_TYPE_MEMCPY: return write_copy_node(to, with, node.memcpy.copyParams);
        case CU_GRAPH_NODE_TYPE_MEMSET: return write_fill_node(to, with, node.memset);
        case CU_GRAPH_NODE_TYPE_HOST: return write_host_node(to, with);
        case CU_GRAPH_NODE_TYPE_EMPTY: return write_other_node(to, with);
        default: return write_node_of_other_kind<Params>(to, call);
    }
}

template <typename Params>
void write_edges(recorder& to, const driver_call& call) {
    const auto& with = call.as<Params>();
    const std::uint64_t graph = to.graph(with.hGraph);
    for (std::size_t i = 0; i < with.numDependencies; ++i) {
        const std::uint64_t first = to.node(graph, with.from[i]), second = to.node(graph, with.to[i]);
        to.begin("edge");
        to.to().number("graph", graph);
        to.to().number("from", first);
        to.to().number("to", second);
        to.to().end();
    }
}

template <typename Params>
void write_instantiate(recorder& to, const driver_call& call) {
    const auto& with = call.as<Params>();
    const std::uint64_t graph = to.graph(with.hGraph), exec = to.new_exec(*with.phGraphExec);
    to.begin("instantiate");
    to.to().number("graph", graph);
    to.to().number("exec", exec);
    to.to().end();
}

}  // namespace

std::vector<handler> graph_handlers() {
    using R = recorder;
    using C = driver_call;
    return {
        {"cuGraphCreate",
         [](R& to, const C& call) {
             const auto& with = call.as<cuGraphCreate_params>();
             const std::uint64_t graph = to.new_graph(*with.phGraph);
             to.begin("graph");
             to.to().number("graph", graph);
             to.to().end();
         }},
        {"cuGraphAddKernelNode_v2",
         [](R& to, const C& call) {
             const auto& with = call.as<cuGraphAddKernelNode_v2_params>();
             write_kernel_node(to, call, with, *with.nodeParams);
         }},
        {"cuGraphAddMemcpyNode",
         [](R& to, const C& call) {
             const auto& with = call.as<cuGraphAddMemcpyNode_params>();
             write_copy_node(to, with, *with.copyParams);
         }},
        {"cuGraphAddMemsetNode",
         [](R& to, const C& call) {
             const auto& with = call.as<cuGraphAddMemsetNode_params>();
             write_fill_node(to, with, *with.memsetParams);
         }},
        {"cuGraphAddHostNode", [](R& to, const C& call) { write_host_node(to, call.as<cuGraphAddHostNode_params>()); }},
        {"cuGraphAddEmptyNode",
         [](R& to, const C& call) { write_other_node(to, call.as<cuGraphAddEmptyNode_params>()); }},
        {"cuGraphAddNode", write_any_node<cuGraphAddNode_params>},
        {"cuGraphAddNode_v2", write_any_node<cuGraphAddNode_v2_params>},
        {"cuGraphAddDependencies", write_edges<cuGraphAddDependencies_params>},
        {"cuGraphAddDependencies_v2", write_edges<cuGraphAddDependencies_v2_params>},
        {"cuGraphInstantiate_v2", write_instantiate<cuGraphInstantiate_v2_params>},
        {"cuGraphInstantiateWithFlags", write_instantiate<cuGraphInstantiateWithFlags_params>},
        {"cuGraphInstantiateWithParams", write_instantiate<cuGraphInstantiateWithParams_params>},
        {"cuGraphLaunch",
         [](R& to, const C& call) {
             const auto& with = call.as<cuGraphLaunch_params>();
             const std::uint64_t stream = to.stream(call, with.hStream), exec = to.exec(with.hGraph);
             to.begin("graph_launch");
             to.to().number("exec", exec);
             to.to().number("stream", stream);
             to.to().end();
         }},
        {"cuGraphDestroy",
         [](R& to, const C& call) {
             const CUgraph handle = call.as<cuGraphDestroy_params>().hGraph;
             const std::uint64_t graph = to.graph(handle);
             to.begin("graph_destroy");
             to.to().number("graph", graph);
             to.to().end();
             to.forget(handle);
         },
         true},
        {"cuGraphExecDestroy",
         [](R& to, const C& call) {
             const CUgraphExec handle = call.as<cuGraphExecDestroy_params>().hGraphExec;
             const std::uint64_t exec = to.exec(handle);
             to.begin("exec_destroy");
             to.to().number("exec", exec);
             to.to().end();
             to.forget(handle);
         },
         true},
        {"cuGraphAddChildGraphNode", write_node_of_other_kind<cuGraphAddChildGraphNode_params>},
        {"cuGraphAddMemAllocNode", write_node_of_other_kind<cuGraphAddMemAllocNode_params>},
        {"cuGraphAddMemFreeNode", write_node_of_other_kind<cuGraphAddMemFreeNode_params>},
        {"cuGraphAddEventRecordNode", write_node_of_other_kind<cuGraphAddEventRecordNode_params>},
        {"cuGraphAddEventWaitNode", write_node_of_other_kind<cuGraphAddEventWaitNode_params>},
        {"cuGraphRemoveDependencies"},
        {"cuGraphRemoveDependencies_v2"},
        {"cuGraphDestroyNode"},
        {"cuGraphClone"},
        {"cuGraphExecUpdate_v2"},
        {"cuGraphExecNodeSetParams"},
        {"cuGraphExecKernelNodeSetParams_v2"},
        {"cuGraphExecMemcpyNodeSetParams"},
        {"cuGraphExecMemsetNodeSetParams"},
        {"cuGraphKernelNodeSetParams_v2"},
        {"cuGraphMemcpyNodeSetParams"},
        {"cuGraphMemsetNodeSetParams"},
    };
}

}  // namespace sluice::check
