// SPDX-License-Identifier: Apache-2.0
#include "cuda/api/graph.hpp"

#include <algorithm>
#include <string>

#include "cuda/api/commands.hpp"
#include "cuda/api/driver.hpp"
#include "cuda/api/group_attributes.hpp"

namespace sluice::cuda::api {
namespace {

// Dependencies in the driver's form: two arrays, the second only if an edge is programmatic.
class dependency_arrays {
public:
    explicit dependency_arrays(graph_dependencies after) {
        for (const graph_dependency& each : after) {
            nodes_.push_back(each.node);
            CUgraphEdgeData edge{};
            if (each.is_programmatic) {
                has_programmatic_ = true;
                edge.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
                edge.type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
            }
            edges_.push_back(edge);
        }
    }
    const CUgraphNode* nodes() const noexcept { return nodes_.empty() ? nullptr : nodes_.data(); }
    const CUgraphEdgeData* edges() const noexcept { return has_programmatic_ ? edges_.data() : nullptr; }
    std::size_t size() const noexcept { return nodes_.size(); }

private:
    std::vector<CUgraphNode> nodes_;
    std::vector<CUgraphEdgeData> edges_;
    bool has_programmatic_ = false;
};

graph_node_handle add_node(CUgraph_st* to, graph_dependencies after, CUgraphNodeParams& what, std::string_view call,
                           const error_context& context) {
    // Takes edge data; available since CUDA 12.3.
    static const auto add = driver_function<decltype(&cuGraphAddNode)>("cuGraphAddNode", 12030);
    const dependency_arrays arrays(after);
    CUgraphNode made = nullptr;
    check_driver(add(&made, to, arrays.nodes(), arrays.edges(), arrays.size(), &what), call, context);
    return made;
}

CUDA_KERNEL_NODE_PARAMS kernel_parameters(CUfunc_st* kernel, const launch_command& command, void** arguments) {
    CUDA_KERNEL_NODE_PARAMS made{};
    made.func = kernel;
    made.gridDimX = command.grid.x;
    made.gridDimY = command.grid.y;
    made.gridDimZ = command.grid.z;
    made.blockDimX = command.block.x;
    made.blockDimY = command.block.y;
    made.blockDimZ = command.block.z;
    made.sharedMemBytes = static_cast<unsigned>(command.shared_bytes);
    made.kernelParams = arguments;
    return made;
}

void set_group(CUgraphNode node, CUfunc_st* kernel, const launch_command& command, const error_context& context) {
    if (!sluice::detail::is_group(command)) return;
    static const auto set = driver_function<decltype(&cuGraphKernelNodeSetAttribute)>("cuGraphKernelNodeSetAttribute");
    const auto attributes = group_attributes(kernel, command, context);
    for (const CUlaunchAttribute& each : attributes.all())
        check_driver(set(node, each.id, &each.value), "cuGraphKernelNodeSetAttribute", context);
}

// Codes that a newer driver adds have no words here.
std::string words_of(cudaGraphExecUpdateResult result) {
    switch (result) {
        case cudaGraphExecUpdateErrorTopologyChanged:
            return "cudaGraphExecUpdateErrorTopologyChanged, the nodes or edges have changed";
        case cudaGraphExecUpdateErrorNodeTypeChanged:
            return "cudaGraphExecUpdateErrorNodeTypeChanged, a node is of another kind";
        case cudaGraphExecUpdateErrorFunctionChanged:
            return "cudaGraphExecUpdateErrorFunctionChanged, a kernel has changed, and this driver cannot update it";
        case cudaGraphExecUpdateErrorParametersChanged:
            return "cudaGraphExecUpdateErrorParametersChanged, parameters have changed in a way that is not supported";
        case cudaGraphExecUpdateErrorNotSupported:
            return "cudaGraphExecUpdateErrorNotSupported, something about a node cannot be updated";
        case cudaGraphExecUpdateErrorUnsupportedFunctionChange:
            return "cudaGraphExecUpdateErrorUnsupportedFunctionChange, a kernel has changed in a way that is not "
                   "supported";
        case cudaGraphExecUpdateErrorAttributesChanged:
            return "cudaGraphExecUpdateErrorAttributesChanged, attributes of a node have changed";
        default: return "cudaGraphExecUpdateResult " + std::to_string(static_cast<int>(result));
    }
}

cudaMemcpy3DParms row_parameters(const copy_command& command) noexcept {
    const copied_rows& rows = command.rows;
    cudaMemcpy3DParms made{};
    made.srcPtr = {const_cast<void*>(command.source), rows.source_pitch, command.bytes, rows.count};
    made.dstPtr = {command.destination, rows.destination_pitch, command.bytes, rows.count};
    made.extent = {command.bytes, rows.count, 1};
    made.kind = kind_of(command.direction);
    return made;
}

cudaMemsetParams fill_parameters(const fill_command& command) noexcept {
    cudaMemsetParams made{};
    made.dst = command.destination;
    made.value = command.value;
    made.elementSize = 1;
    made.width = command.bytes;
    made.height = 1;
    return made;
}

}  // namespace

void destroy_graph::operator()(CUgraph_st* graph) const noexcept { static_cast<void>(cudaGraphDestroy(graph)); }
void destroy_graph_exec::operator()(CUgraphExec_st* graph) const noexcept {
    static_cast<void>(cudaGraphExecDestroy(graph));
}

graph_handle create_graph() {
    cudaGraph_t made = nullptr;
    check(cudaGraphCreate(&made, 0), "cudaGraphCreate");
    return graph_handle(made);
}

graph_node_handle add_kernel(CUgraph_st* to, graph_dependencies after, CUfunc_st* kernel, const launch_command& command,
                             const error_context& context) {
    static const auto add = driver_function<decltype(&cuGraphAddKernelNode)>("cuGraphAddKernelNode");
    launch_arguments arguments(command);
    const CUDA_KERNEL_NODE_PARAMS what = kernel_parameters(kernel, command, arguments.get());
    const dependency_arrays arrays(after);
    CUgraphNode made = nullptr;
    if (arrays.edges() == nullptr) {
        check_driver(add(&made, to, arrays.nodes(), arrays.size(), &what), "cuGraphAddKernelNode", context);
        set_group(made, kernel, command, context);
        return made;
    }
    CUgraphNodeParams all{};
    all.type = CU_GRAPH_NODE_TYPE_KERNEL;
    all.kernel.func = what.func;
    all.kernel.gridDimX = what.gridDimX;
    all.kernel.gridDimY = what.gridDimY;
    all.kernel.gridDimZ = what.gridDimZ;
    all.kernel.blockDimX = what.blockDimX;
    all.kernel.blockDimY = what.blockDimY;
    all.kernel.blockDimZ = what.blockDimZ;
    all.kernel.sharedMemBytes = what.sharedMemBytes;
    all.kernel.kernelParams = arguments.get();
    made = add_node(to, after, all, "cuGraphAddNode", context);
    set_group(made, kernel, command, context);
    return made;
}

graph_node_handle add_copy(CUgraph_st* to, graph_dependencies after, const copy_command& command,
                           const error_context& context) {
    const dependency_arrays arrays(after);
    cudaGraphNode_t made = nullptr;
    if (command.rows.count != 1) {
        const std::size_t pitch = std::max(command.rows.source_pitch, command.rows.destination_pitch);
        if (const std::size_t most = largest_pitch(context); pitch > most) {
            throw error(errc::graph_refused,
                        "rows that begin " + std::to_string(pitch) +
                            " bytes apart, from or to host memory that is not "
                            "pinned: at most " +
                            std::to_string(most) + " in a graph; copy them before or after the graph",
                        context);
        }
        const cudaMemcpy3DParms what = row_parameters(command);
        check(cudaGraphAddMemcpyNode(&made, to, arrays.nodes(), arrays.size(), &what), "cudaGraphAddMemcpyNode",
              context);
        return made;
    }
    check(cudaGraphAddMemcpyNode1D(&made, to, arrays.nodes(), arrays.size(), command.destination, command.source,
                                   command.bytes, kind_of(command.direction)),
          "cudaGraphAddMemcpyNode1D", context);
    return made;
}

graph_node_handle add_fill(CUgraph_st* to, graph_dependencies after, const fill_command& command,
                           const error_context& context) {
    const dependency_arrays arrays(after);
    const cudaMemsetParams what = fill_parameters(command);
    cudaGraphNode_t made = nullptr;
    check(cudaGraphAddMemsetNode(&made, to, arrays.nodes(), arrays.size(), &what), "cudaGraphAddMemsetNode", context);
    return made;
}

graph_node_handle add_host_call(CUgraph_st* to, graph_dependencies after, void (*function)(void*), void* argument,
                                const error_context& context) {
    const dependency_arrays arrays(after);
    const cudaHostNodeParams what{function, argument};
    cudaGraphNode_t made = nullptr;
    check(cudaGraphAddHostNode(&made, to, arrays.nodes(), arrays.size(), &what), "cudaGraphAddHostNode", context);
    return made;
}

graph_node_handle add_empty(CUgraph_st* to, graph_dependencies after, const error_context& context) {
    const dependency_arrays arrays(after);
    cudaGraphNode_t made = nullptr;
    check(cudaGraphAddEmptyNode(&made, to, arrays.nodes(), arrays.size()), "cudaGraphAddEmptyNode", context);
    return made;
}

unsigned long long create_condition(CUgraph_st* in, bool initial, const error_context& context) {
    cudaGraphConditionalHandle made = 0;
    check(cudaGraphConditionalHandleCreate(&made, in, initial ? 1 : 0, cudaGraphCondAssignDefault),
          "cudaGraphConditionalHandleCreate", context);
    return made;
}

conditional_node add_conditional(CUgraph_st* to, graph_dependencies after, unsigned long long condition, bool repeats,
                                 const error_context& context) {
    CUgraphNodeParams what{};
    what.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
    what.conditional.handle = condition;
    what.conditional.type = repeats ? CU_GRAPH_COND_TYPE_WHILE : CU_GRAPH_COND_TYPE_IF;
    what.conditional.size = 1;
    static const auto current = driver_function<decltype(&cuCtxGetCurrent)>("cuCtxGetCurrent");
    check_driver(current(&what.conditional.ctx), "cuCtxGetCurrent", context);
    const graph_node_handle node = add_node(to, after, what, "cuGraphAddNode", context);
    return {node, what.conditional.phGraph_out[0]};
}

std::vector<graph_node_handle> capture(CUgraph_st* to, graph_dependencies after, CUstream_st* on,
                                       const std::function<void()>& call, const error_context& context) {
    const dependency_arrays arrays(after);
    check(cudaStreamBeginCaptureToGraph(on, to, arrays.nodes(), nullptr, arrays.size(), cudaStreamCaptureModeRelaxed),
          "cudaStreamBeginCaptureToGraph", context);
    struct capture_end {
        CUstream_st* on;
        bool is_open = true;
        cudaError_t close() {
            is_open = false;
            cudaGraph_t graph = nullptr;  // the graph that the capture was begun for
            return cudaStreamEndCapture(on, &graph);
        }
        ~capture_end() {
            if (is_open && close() != cudaSuccess) static_cast<void>(cudaGetLastError());
        }
    } end{on};
    call();
    cudaStreamCaptureStatus status{};
    const cudaGraphNode_t* leaves = nullptr;
    std::size_t count = 0;
    check(cudaStreamGetCaptureInfo(on, &status, nullptr, nullptr, &leaves, nullptr, &count), "cudaStreamGetCaptureInfo",
          context);
    std::vector<graph_node_handle> made(leaves, leaves + count);
    check(end.close(), "cudaStreamEndCapture", context);
    return made;
}

graph_exec_handle instantiate(CUgraph_st* graph, bool for_kernels, const error_context& context) {
    cudaGraphExec_t made = nullptr;
    cudaGraphInstantiateParams how{};
    if (for_kernels) how.flags = cudaGraphInstantiateFlagDeviceLaunch;
    const cudaError_t code = cudaGraphInstantiateWithParams(&made, graph, &how);
    check(code, "cudaGraphInstantiateWithParams", context);
    return graph_exec_handle(made);
}

void begin_upload(CUgraphExec_st* graph, CUstream_st* on, const error_context& context) {
    check(cudaGraphUpload(graph, on), "cudaGraphUpload", context);
}

void upload(CUgraphExec_st* graph, CUstream_st* on, const error_context& context) {
    begin_upload(graph, on, context);
    synchronize(on);
}

std::optional<update_refusal> update(CUgraphExec_st* graph, CUgraph_st* to) {
    cudaGraphExecUpdateResultInfo told{};
    const cudaError_t code = cudaGraphExecUpdate(graph, to, &told);
    if (code == cudaSuccess) return std::nullopt;
    static_cast<void>(cudaGetLastError());
    if (code != cudaErrorGraphExecUpdateFailure)
        return update_refusal{std::string(cudaGetErrorName(code)) + ", " + cudaGetErrorString(code), nullptr};
    return update_refusal{words_of(told.result), told.errorNode};
}

void set_kernel(CUgraphExec_st* in, graph_node_handle node, CUfunc_st* kernel, const launch_command& command,
                const error_context& context) {
    static const auto set =
        driver_function<decltype(&cuGraphExecKernelNodeSetParams)>("cuGraphExecKernelNodeSetParams");
    launch_arguments arguments(command);
    const CUDA_KERNEL_NODE_PARAMS what = kernel_parameters(kernel, command, arguments.get());
    check_driver(set(in, node, &what), "cuGraphExecKernelNodeSetParams", context);
}

void set_copy(CUgraphExec_st* in, graph_node_handle node, const copy_command& command, const error_context& context) {
    check(cudaGraphExecMemcpyNodeSetParams1D(in, node, command.destination, command.source, command.bytes,
                                             kind_of(command.direction)),
          "cudaGraphExecMemcpyNodeSetParams1D", context);
}

void set_fill(CUgraphExec_st* in, graph_node_handle node, const fill_command& command, const error_context& context) {
    const cudaMemsetParams what = fill_parameters(command);
    check(cudaGraphExecMemsetNodeSetParams(in, node, &what), "cudaGraphExecMemsetNodeSetParams", context);
}

void set_host_call(CUgraphExec_st* in, graph_node_handle node, void (*function)(void*), void* argument,
                   const error_context& context) {
    const cudaHostNodeParams what{function, argument};
    check(cudaGraphExecHostNodeSetParams(in, node, &what), "cudaGraphExecHostNodeSetParams", context);
}

void set_enabled(CUgraphExec_st* in, graph_node_handle node, bool enabled) {
    check(cudaGraphNodeSetEnabled(in, node, enabled ? 1 : 0), "cudaGraphNodeSetEnabled");
}

void launch(CUgraphExec_st* graph, CUstream_st* on, const error_context& context) {
    static const auto launch_graph = driver_function<decltype(&cuGraphLaunch)>("cuGraphLaunch");
    check_driver(launch_graph(graph, on), "cuGraphLaunch", context);
}

}  // namespace sluice::cuda::api
