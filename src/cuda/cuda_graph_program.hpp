// SPDX-License-Identifier: Apache-2.0
// A command_graph as a CUDA graph: explicit nodes whose handles are kept, so that their parameters can be set; library
// calls are captured in place; conditions and loops become conditional nodes.
//
// Invariant: nodes_ are the nodes of the graph from which exec_ was instantiated, one for each of graph_'s nodes (of a
// library call, which may become several, one that comes after all of them). Every difference between graph_ and exec_
// is in dirty_, or must_rebuild_ is set.
//
// Setting parameters and updating affect later launches only: CUDA keeps the parameters of launches in flight. A launch
// keeps the program until it completes, with the graph that it runs and the functions of its host calls.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "cuda/api/graph.hpp"
#include "cuda/early_starts.hpp"
#include "cuda/graph_host_calls.hpp"
#include "cuda/root_chains.hpp"
#include "cuda/small_copy.hpp"
#include "sluice/runtime/graph_program.hpp"

namespace sluice {
class device;
}

namespace sluice::cuda {

class cuda_graph_program final : public graph_program {
public:
    cuda_graph_program(device& owner, const api::gpu_context& context, command_graph commands);

    const command_graph& commands() const noexcept override { return *graph_; }
    void set_address(std::size_t node, std::size_t at, void* address) override;
    void update(command_graph to) override;
    graph_change flush() override;
    void set_enabled(std::size_t node, bool enabled) override;
    bool is_enabled(std::size_t node) const noexcept override { return is_disabled_.empty() || !is_disabled_[node]; }
    void upload(const native_stream* on) override;
    const std::string& refusal() const noexcept override { return refusal_; }
    const void* launch_handle() const noexcept override { return graph_->is_for_kernels ? exec_.get() : nullptr; }
    bool may_fail() const noexcept override { return host_calls_ != nullptr; }

    // What launches run since the last flush. Each launch keeps this until it completes, because the program may have
    // another graph by then.
    struct running {
        std::shared_ptr<CUgraphExec_st> exec;
        std::shared_ptr<const command_graph> commands;  // own the memory that copies read, and the function's captures
    };
    const std::shared_ptr<const running>& now() const noexcept { return running_; }

    // The host calls of the launches from here to the next update.
    const std::shared_ptr<graph_host_calls>& host_calls() const noexcept { return host_calls_; }

private:
    struct built_node {
        api::graph_node_handle handle;
        // One kernel, also of a library call, that is no launch in clusters or cooperative one of the user's: a node
        // that waits by itself may start while it runs.
        bool is_kernel = false;
        // An edge from it or to it says so.
        bool has_early_edge = false;
        // See root_chains. A fill that another node makes has no handle.
        bool works_first = false;
        std::optional<std::uint32_t> made_by = {};
        std::vector<std::uint32_t> makes = {};
    };
    struct built {
        api::graph_handle graph;
        std::vector<built_node> nodes;
        std::shared_ptr<graph_host_calls> host_calls;
    };
    built build(const command_graph& from);
    // A loop around the nodes being built whose kernels set the condition: its mark and its handle.
    struct open_loop {
        std::uint64_t mark;
        unsigned long long handle;
    };
    // The condition of a loop whose body ends by setting it from a flag.
    struct flag_condition {
        unsigned long long handle = 0;
        const int* flag = nullptr;
    };
    void build_into(CUgraph_st* to, const command_graph& from, std::vector<built_node>& nodes,
                    graph_host_calls& host_calls, std::vector<open_loop>& loops, flag_condition condition,
                    bool is_inside);
    root_chains::kind kind_of(const graph_node& node) const noexcept;
    bool is_by_kernel(const copy_command& copy) const noexcept;
    api::graph_node_handle add_small_copy(CUgraph_st* to, api::graph_dependencies after,
                                          const small_copy_closure& closure, const error_context& context);
    bool is_left_out(std::size_t node, bool is_inside) const noexcept;
    small_copy_closure copy_of(const command_graph& from, std::size_t node, bool works_first, bool is_inside) const;
    small_fill_closure fills_of(const command_graph& from, std::span<const std::uint32_t> nodes, bool works_first,
                                bool is_inside) const;
    api::graph_node_handle add_launch(CUgraph_st* to, api::graph_dependencies after, const command_graph& from,
                                      const graph_node& node, const std::vector<open_loop>& loops);
    api::graph_node_handle add_part(CUgraph_st* to, api::graph_dependencies after, const graph_node& node,
                                    graph_host_calls& host_calls, std::vector<open_loop>& loops, bool is_inside);
    built_node add_library_call(CUgraph_st* to, api::graph_dependencies after, const command_graph& from,
                                const graph_node& node, const error_context& context, bool is_inside);
    void add_nothing(CUgraph_st* to, api::graph_node_handle after);
    api::graph_node_handle add_condition(CUgraph_st* to, api::graph_dependencies after, flag_condition condition);
    api::graph_exec_handle instantiate(CUgraph_st* graph);
    bool has_changes() const noexcept { return must_rebuild_ || !dirty_.empty(); }
    void upload_and_wait();
    std::string words_of(const api::update_refusal& refusal, const std::vector<built_node>& fresh) const;
    graph_change apply_changes();
    graph_change rebuild();
    using module_list = std::vector<std::shared_ptr<const void>>;
    static void keep_modules(const command_graph& of, module_list& in);
    static void keep_module(const launch_command& launch, module_list& in);
    void own(api::graph_exec_handle exec);
    void renew_host_calls();
    static bool stands_for_the_same(const built_node& a, const built_node& b) noexcept;
    bool set_node(std::size_t node);  // false: the command needs another kind of node
    void set_launch(std::size_t node, const launch_command& launch, const error_context& context);
    CUfunc_st* kernel_of(const launch_command& command, const error_context& context);
    error_context context_of(const graph_node& node) const noexcept;
    void mark(std::size_t node);

    device& owner_;
    const api::gpu_context& context_;
    std::shared_ptr<command_graph> graph_;
    std::unordered_map<const void*, CUfunc_st*> kernels_;
    // The modules whose functions native_ and exec_ run, or ran before an update. Destroyed after both.
    std::shared_ptr<module_list> modules_;
    api::graph_handle native_;
    std::vector<built_node> nodes_;
    std::shared_ptr<CUgraphExec_st> exec_;
    std::shared_ptr<const running> running_;
    std::shared_ptr<graph_host_calls> host_calls_;
    std::vector<std::size_t> dirty_;
    std::vector<bool> is_dirty_;
    std::vector<bool> is_disabled_;  // empty: no node is disabled
    struct known_kernel {
        const void* symbol = nullptr;
        CUfunc_st* kernel = nullptr;
    };
    std::vector<known_kernel> known_kernels_;  // by node
    std::string refusal_;
    std::string other_topology_;  // why the latest update must be instantiated
    std::string other_groups_;    // the same, where only clusters or cooperative launches have changed
    bool is_uploaded_ = false;
    bool must_rebuild_ = false;
    bool has_same_topology_ = true;
};

}  // namespace sluice::cuda
