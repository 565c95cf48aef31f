// SPDX-License-Identifier: Apache-2.0
// graph_replay: a graph as a list that a host thread replays, one node after the other. For devices whose commands our
// own threads execute.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "sluice/runtime/graph_program.hpp"

namespace sluice::detail {

// The order in which the nodes of a graph, or of a conditional body, run this time: any order that the edges allow.
using replay_order = std::function<std::vector<std::uint32_t>(const command_graph&)>;

// The list that a command which runs the program keeps. It never changes while it has several references.
struct replay_list {
    command_graph graph;
    std::vector<bool> is_disabled;  // by node; empty: no node is disabled
    bool may_fail;                  // whether the nodes include what may fail, or launches of graphs
    bool launches = true;           // whether kernels may launch graphs

    // Runs all nodes on the calling thread, by default in the order of recording, and then the graphs that its kernels
    // launched. A node with an edge from a failed or skipped one does not run. Returns the first failure.
    std::exception_ptr run(const native_stream& on, const replay_order& order = {}) const;
    // Runs only the nodes.
    std::exception_ptr run_nodes(const native_stream& on, const replay_order& order) const;
};

std::shared_ptr<replay_list> make_replay_list(command_graph graph, std::vector<bool> is_disabled = {});

// What kernels hold to launch a program: it stays the same while the program's list changes.
struct launch_target {
    const replay_list* now = nullptr;  // owned by the program
};

class replay_program final : public graph_program {
public:
    explicit replay_program(command_graph commands);

    const command_graph& commands() const noexcept override { return list_->graph; }
    void set_address(std::size_t node, std::size_t at, void* address) override;
    void update(command_graph to) override;
    // From here on kernels launch the new list: none of their launches may be in flight where it has changed. Where it
    // has not, they may be, on other threads.
    graph_change flush() override {
        if (target_.now != list_.get()) target_.now = list_.get();
        return std::exchange(change_, graph_change::none);
    }
    void set_enabled(std::size_t node, bool enabled) override;
    bool is_enabled(std::size_t node) const noexcept override {
        return list_->is_disabled.empty() || !list_->is_disabled[node];
    }
    const std::string& refusal() const noexcept override { return refusal_; }
    const void* launch_handle() const noexcept override { return list_->graph.is_for_kernels ? &target_ : nullptr; }
    bool may_fail() const noexcept override { return list_->may_fail; }

    std::shared_ptr<const replay_list> list() const noexcept { return list_; }

private:
    replay_list& own();  // the list, or a copy of it, with no other reference: it may be changed

    std::shared_ptr<replay_list> list_;
    launch_target target_{list_.get()};
    graph_change change_ = graph_change::none;
    std::string refusal_;
};

}  // namespace sluice::detail
