// SPDX-License-Identifier: Apache-2.0
#include "cuda/api/graph.hpp"

#include <algorithm>
#include <new>
#include <string>

#include "cuda/api/commands.hpp"
#include "cuda/api/copy_parameters.hpp"
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
std::string words_of(CUgraphExecUpdateResult result) {
    switch (result) {
        case CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED:
            return "cudaGraphExecUpdateErrorTopologyChanged, the nodes or edges have changed";
        case CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED:
            return "cudaGraphExecUpdateErrorNodeTypeChanged, a node is of another kind";
        case CU_GRAPH_EXEC_UPDATE_ERROR_FUNCTION_CHANGED:
            return "cudaGraphExecUpdateErrorFunctionChanged, a kernel has changed, and this driver cannot update it";
        case CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED:
            return "cudaGraphExecUpdateErrorParametersChanged, parameters have changed in a way that is not supported";
        case CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED:
            return "cudaGraphExecUpdateErrorNotSupported, something about a node cannot be updated";
        case CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE:
            return "cudaGraphExecUpdateErrorUnsupportedFunctionChange, a kernel has changed in a way that is not "
                   "supported";
        case CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED:
            return "cudaGraphExecUpdateErrorAttributesChanged, attributes of a node have changed";
        default: return "cudaGraphExecUpdateResult " + std::to_string(static_cast<int>(result));
    }
}

CUDA_MEMSET_NODE_PARAMS fill_parameters(const fill_command& command) noexcept {
    CUDA_MEMSET_NODE_PARAMS made{};
    made.dst = address(command.destination);
    made.value = command.value;
    made.elementSize = 1;
    made.width = command.bytes;
    made.height = 1;
    return made;
}

CUcontext current_context(const error_context& context) {
    static const auto current = driver_function<decltype(&cuCtxGetCurrent)>("cuCtxGetCurrent");
    CUcontext found = nullptr;
    check_driver(current(&found), "cuCtxGetCurrent", context);
    return found;
}

// Ends the capture on each path.
class open_capture {
public:
    // `makes_graph`: into a graph of its own, and not into an existing one.
    open_capture(CUstream_st* on, bool makes_graph) noexcept : on_(on), makes_graph_(makes_graph) {}
    open_capture(const open_capture&) = delete;  // the destructor ends the capture
    open_capture& operator=(const open_capture&) = delete;
    ~open_capture() {
        if (is_open_) static_cast<void>(close());
    }

    CUresult close() {
        static const auto end = driver_function<decltype(&cuStreamEndCapture)>("cuStreamEndCapture");
        is_open_ = false;
        CUgraph made = nullptr;
        const CUresult code = end(on_, &made);
        if (makes_graph_) graph_ = {made, destroy_graph{device_scope::innermost()}};
        return code;
    }
    CUgraph_st* graph() const noexcept { return graph_.get(); }

private:
    CUstream_st* on_;
    bool makes_graph_;
    bool is_open_ = true;
    graph_handle graph_;
};

}  // namespace

void destroy_graph::operator()(CUgraph_st* graph) const noexcept {
    static const auto destroy = driver_function<decltype(&cuGraphDestroy)>("cuGraphDestroy");
    const device_scope scope(*of, std::nothrow);
    if (scope.is_open()) static_cast<void>(destroy(graph));
}
void destroy_graph_exec::operator()(CUgraphExec_st* graph) const noexcept {
    static const auto destroy = driver_function<decltype(&cuGraphExecDestroy)>("cuGraphExecDestroy");
    const device_scope scope(*of, std::nothrow);
    if (scope.is_open()) static_cast<void>(destroy(graph));
}

graph_handle create_graph() {
    static const auto create = driver_function<decltype(&cuGraphCreate)>("cuGraphCreate");
    CUgraph made = nullptr;
    check_driver(create(&made, 0), "cuGraphCreate", {});
    return {made, destroy_graph{device_scope::innermost()}};
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
    static const auto add = driver_function<decltype(&cuGraphAddMemcpyNode)>("cuGraphAddMemcpyNode");
    const std::size_t pitch = std::max(command.rows.source_pitch, command.rows.destination_pitch);
    if (const std::size_t most = largest_pitch(context); command.rows.count != 1 && pitch > most) {
        throw error(errc::graph_refused,
                    "rows that begin " + std::to_string(pitch) +
                        " bytes apart, from or to host memory that is not "
                        "pinned: at most " +
                        std::to_string(most) + " in a graph; copy them before or after the graph",
                    context);
    }
    if (command.bytes == 0) return add_empty(to, after, context);
    const dependency_arrays arrays(after);
    const CUDA_MEMCPY3D what = copy_parameters(command);
    CUgraphNode made = nullptr;
    check_driver(add(&made, to, arrays.nodes(), arrays.size(), &what, current_context(context)), "cuGraphAddMemcpyNode",
                 context);
    return made;
}

graph_node_handle add_fill(CUgraph_st* to, graph_dependencies after, const fill_command& command,
                           const error_context& context) {
    static const auto add = driver_function<decltype(&cuGraphAddMemsetNode)>("cuGraphAddMemsetNode");
    const dependency_arrays arrays(after);
    const CUDA_MEMSET_NODE_PARAMS what = fill_parameters(command);
    CUgraphNode made = nullptr;
    check_driver(add(&made, to, arrays.nodes(), arrays.size(), &what, current_context(context)), "cuGraphAddMemsetNode",
                 context);
    return made;
}

graph_node_handle add_host_call(CUgraph_st* to, graph_dependencies after, void (*function)(void*), void* argument,
                                const error_context& context) {
    static const auto add = driver_function<decltype(&cuGraphAddHostNode)>("cuGraphAddHostNode");
    const dependency_arrays arrays(after);
    const CUDA_HOST_NODE_PARAMS what{function, argument};
    CUgraphNode made = nullptr;
    check_driver(add(&made, to, arrays.nodes(), arrays.size(), &what), "cuGraphAddHostNode", context);
    return made;
}

graph_node_handle add_empty(CUgraph_st* to, graph_dependencies after, const error_context& context) {
    static const auto add = driver_function<decltype(&cuGraphAddEmptyNode)>("cuGraphAddEmptyNode");
    const dependency_arrays arrays(after);
    CUgraphNode made = nullptr;
    check_driver(add(&made, to, arrays.nodes(), arrays.size()), "cuGraphAddEmptyNode", context);
    return made;
}

unsigned long long create_condition(CUgraph_st* in, bool initial, const error_context& context) {
    static const auto create =
        driver_function<decltype(&cuGraphConditionalHandleCreate)>("cuGraphConditionalHandleCreate", 12030);
    CUgraphConditionalHandle made = 0;
    check_driver(create(&made, in, current_context(context), initial ? 1 : 0, CU_GRAPH_COND_ASSIGN_DEFAULT),
                 "cuGraphConditionalHandleCreate", context);
    return made;
}

conditional_node add_conditional(CUgraph_st* to, graph_dependencies after, unsigned long long condition, bool repeats,
                                 const error_context& context) {
    CUgraphNodeParams what{};
    what.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
    what.conditional.handle = condition;
    what.conditional.type = repeats ? CU_GRAPH_COND_TYPE_WHILE : CU_GRAPH_COND_TYPE_IF;
    what.conditional.size = 1;
    what.conditional.ctx = current_context(context);
    const graph_node_handle node = add_node(to, after, what, "cuGraphAddNode", context);
    return {node, what.conditional.phGraph_out[0]};
}

std::vector<graph_node_handle> capture(CUgraph_st* to, graph_dependencies after, CUstream_st* on,
                                       const std::function<void()>& call, const error_context& context) {
    static const auto begin =
        driver_function<decltype(&cuStreamBeginCaptureToGraph)>("cuStreamBeginCaptureToGraph", 12030);
    static const auto get = driver_function<decltype(&cuStreamGetCaptureInfo)>("cuStreamGetCaptureInfo", 12030);
    const dependency_arrays arrays(after);
    check_driver(begin(on, to, arrays.nodes(), nullptr, arrays.size(), CU_STREAM_CAPTURE_MODE_RELAXED),
                 "cuStreamBeginCaptureToGraph", context);
    open_capture end(on, false);
    call();
    CUstreamCaptureStatus status{};
    const CUgraphNode* leaves = nullptr;
    std::size_t count = 0;
    check_driver(get(on, &status, nullptr, nullptr, &leaves, nullptr, &count), "cuStreamGetCaptureInfo", context);
    std::vector<graph_node_handle> made(leaves, leaves + count);
    check_driver(end.close(), "cuStreamEndCapture", context);
    return made;
}

graph_node_handle capture_as_node(CUgraph_st* to, graph_dependencies after, CUstream_st* on,
                                  const std::function<void()>& call, const error_context& context) {
    static const auto begin = driver_function<decltype(&cuStreamBeginCapture)>("cuStreamBeginCapture");
    static const auto add = driver_function<decltype(&cuGraphAddChildGraphNode)>("cuGraphAddChildGraphNode");
    check_driver(begin(on, CU_STREAM_CAPTURE_MODE_RELAXED), "cuStreamBeginCapture", context);
    open_capture end(on, true);
    call();
    check_driver(end.close(), "cuStreamEndCapture", context);
    const dependency_arrays arrays(after);
    CUgraphNode made = nullptr;
    check_driver(add(&made, to, arrays.nodes(), arrays.size(), end.graph()), "cuGraphAddChildGraphNode", context);
    return made;
}

graph_exec_handle instantiate(CUgraph_st* graph, bool for_kernels, const error_context& context) {
    static const auto make = driver_function<decltype(&cuGraphInstantiateWithParams)>("cuGraphInstantiateWithParams");
    CUgraphExec made = nullptr;
    CUDA_GRAPH_INSTANTIATE_PARAMS how{};
    if (for_kernels) how.flags = CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH;
    check_driver(make(&made, graph, &how), "cuGraphInstantiateWithParams", context);
    return {made, destroy_graph_exec{device_scope::innermost()}};
}

void begin_upload(CUgraphExec_st* graph, CUstream_st* on, const error_context& context) {
    static const auto upload_it = driver_function<decltype(&cuGraphUpload)>("cuGraphUpload");
    check_driver(upload_it(graph, on), "cuGraphUpload", context);
}

void upload(CUgraphExec_st* graph, CUstream_st* on, const error_context& context) {
    begin_upload(graph, on, context);
    synchronize(on);
}

std::optional<update_refusal> update(CUgraphExec_st* graph, CUgraph_st* to) {
    static const auto update_it = driver_function<decltype(&cuGraphExecUpdate)>("cuGraphExecUpdate");
    CUgraphExecUpdateResultInfo told{};
    const CUresult code = update_it(graph, to, &told);
    if (code == CUDA_SUCCESS) return std::nullopt;
    if (code != CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE) return update_refusal{category().message(code), nullptr};
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
    static const auto set =
        driver_function<decltype(&cuGraphExecMemcpyNodeSetParams)>("cuGraphExecMemcpyNodeSetParams");
    const CUDA_MEMCPY3D what = copy_parameters(command);
    check_driver(set(in, node, &what, current_context(context)), "cuGraphExecMemcpyNodeSetParams", context);
}

void set_fill(CUgraphExec_st* in, graph_node_handle node, const fill_command& command, const error_context& context) {
    static const auto set =
        driver_function<decltype(&cuGraphExecMemsetNodeSetParams)>("cuGraphExecMemsetNodeSetParams");
    const CUDA_MEMSET_NODE_PARAMS what = fill_parameters(command);
    check_driver(set(in, node, &what, current_context(context)), "cuGraphExecMemsetNodeSetParams", context);
}

void set_host_call(CUgraphExec_st* in, graph_node_handle node, void (*function)(void*), void* argument,
                   const error_context& context) {
    static const auto set = driver_function<decltype(&cuGraphExecHostNodeSetParams)>("cuGraphExecHostNodeSetParams");
    const CUDA_HOST_NODE_PARAMS what{function, argument};
    check_driver(set(in, node, &what), "cuGraphExecHostNodeSetParams", context);
}

bool is_kernel(graph_node_handle node, const error_context& context) {
    static const auto get = driver_function<decltype(&cuGraphNodeGetType)>("cuGraphNodeGetType");
    CUgraphNodeType type{};
    check_driver(get(node, &type), "cuGraphNodeGetType", context);
    return type == CU_GRAPH_NODE_TYPE_KERNEL;
}

void set_enabled(CUgraphExec_st* in, graph_node_handle node, bool enabled) {
    static const auto set = driver_function<decltype(&cuGraphNodeSetEnabled)>("cuGraphNodeSetEnabled");
    check_driver(set(in, node, enabled ? 1 : 0), "cuGraphNodeSetEnabled", {});
}

void launch(CUgraphExec_st* graph, CUstream_st* on, const error_context& context) {
    static const auto launch_graph = driver_function<decltype(&cuGraphLaunch)>("cuGraphLaunch");
    check_driver(launch_graph(graph, on), "cuGraphLaunch", context);
}

}  // namespace sluice::cuda::api
