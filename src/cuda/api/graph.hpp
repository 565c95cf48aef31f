// SPDX-License-Identifier: Apache-2.0
// Every call that Sluice makes about graphs, with its error mapping; see runtime.hpp.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cuda/api/runtime.hpp"

struct CUfunc_st;
struct CUgraph_st;
struct CUgraphNode_st;
struct CUgraphExec_st;

namespace sluice::cuda::api {

// They destroy on any thread, while the context is usable.
struct destroy_graph {
    const gpu_context* of = nullptr;
    void operator()(CUgraph_st* graph) const noexcept;
};
struct destroy_graph_exec {
    const gpu_context* of = nullptr;
    void operator()(CUgraphExec_st* graph) const noexcept;
};
using graph_handle = std::unique_ptr<CUgraph_st, destroy_graph>;
using graph_exec_handle = std::unique_ptr<CUgraphExec_st, destroy_graph_exec>;
using graph_node_handle = CUgraphNode_st*;  // owned by its graph

graph_handle create_graph();

// A node that comes before another.
struct graph_dependency {
    graph_node_handle node;
    bool is_programmatic = false;  // the later node may start before that one, a kernel, has ended
};
using graph_dependencies = std::span<const graph_dependency>;

graph_node_handle add_kernel(CUgraph_st* to, graph_dependencies after, CUfunc_st* kernel, const launch_command& command,
                             const error_context& context);
graph_node_handle add_copy(CUgraph_st* to, graph_dependencies after, const copy_command& command,
                           const error_context& context);
graph_node_handle add_fill(CUgraph_st* to, graph_dependencies after, const fill_command& command,
                           const error_context& context);
graph_node_handle add_host_call(CUgraph_st* to, graph_dependencies after, void (*function)(void*), void* argument,
                                const error_context& context);
// A node that does nothing: a join of several nodes.
graph_node_handle add_empty(CUgraph_st* to, graph_dependencies after, const error_context& context);
// Runs `body`, an empty graph that the caller fills, if (or as long as) the handle's value is not 0.
struct conditional_node {
    graph_node_handle node;
    CUgraph_st* body;
};
// `initial`: the value when the graph is launched.
unsigned long long create_condition(CUgraph_st* in, bool initial, const error_context& context);
conditional_node add_conditional(CUgraph_st* to, graph_dependencies after, unsigned long long condition, bool repeats,
                                 const error_context& context);

// Captures the work that `call` enqueues on the stream as nodes after `after`; returns the nodes without successors. If
// `call` throws, the stream's capture is ended.
std::vector<graph_node_handle> capture(CUgraph_st* to, graph_dependencies after, CUstream_st* on,
                                       const std::function<void()>& call, const error_context& context);
// The same as one node, which contains a graph. For the bodies of conditional nodes: when a capture into a body is
// lost, because the call has waited for the stream, the driver crashes as the graph around it is destroyed (driver
// 580).
graph_node_handle capture_as_node(CUgraph_st* to, graph_dependencies after, CUstream_st* on,
                                  const std::function<void()>& call, const error_context& context);

// `for_kernels`: kernels can launch it, too.
graph_exec_handle instantiate(CUgraph_st* graph, bool for_kernels, const error_context& context);
// Uploads the graph to the device; otherwise the first launch does it. Blocks.
void upload(CUgraphExec_st* graph, CUstream_st* on, const error_context& context);
// Enqueues the upload, and does not wait for it.
void begin_upload(CUgraphExec_st* graph, CUstream_st* on, const error_context& context);
// Why the driver refuses an update.
struct update_refusal {
    std::string why;                   // with the name of the driver's result
    graph_node_handle node = nullptr;  // of the new graph; null when the driver names none
};
std::optional<update_refusal> update(CUgraphExec_st* graph, CUgraph_st* to);
// Keeps the node's cluster and whether it is cooperative, which CUDA cannot change.
void set_kernel(CUgraphExec_st* in, graph_node_handle node, CUfunc_st* kernel, const launch_command& command,
                const error_context& context);
// Of one row before and after: the driver sets no others.
void set_copy(CUgraphExec_st* in, graph_node_handle node, const copy_command& command, const error_context& context);
void set_fill(CUgraphExec_st* in, graph_node_handle node, const fill_command& command, const error_context& context);
void set_host_call(CUgraphExec_st* in, graph_node_handle node, void (*function)(void*), void* argument,
                   const error_context& context);
void set_enabled(CUgraphExec_st* in, graph_node_handle node, bool enabled);
bool is_kernel(graph_node_handle node, const error_context& context);
void launch(CUgraphExec_st* graph, CUstream_st* on, const error_context& context);

}  // namespace sluice::cuda::api
