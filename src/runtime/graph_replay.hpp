// A graph as a list that host threads replay, one node after the other: for devices that carry commands out by
// threads of ours.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "sluice/runtime/graph_program.hpp"

namespace sluice::detail {

// In which order the nodes of a graph, or of a part of one, run this time: any that its edges allow.
using replay_order = std::function<std::vector<std::uint32_t>(const command_graph&)>;

// What a command that runs the program takes with it; never changed while somebody else knows it.
struct replay_list {
    command_graph graph;
    std::vector<bool> is_disabled;  // empty: none is
    bool may_fail;                  // whether host calls or library calls are among the nodes, or launched graphs
    bool launches = true;           // whether kernels may launch graphs

    // Runs all of it on the calling thread, by default in the order of recording, and then what its kernels launched. A
    // node that comes after one that failed is not run. Returns the first failure.
    std::exception_ptr run(const native_stream& on, const replay_order& order = {}) const;
    // Its nodes only.
    std::exception_ptr run_nodes(const native_stream& on, const replay_order& order) const;
};

class replay_program final : public graph_program {
public:
    explicit replay_program(command_graph commands);

    const command_graph& commands() const noexcept override { return list_->graph; }
    void set_address(std::size_t node, std::size_t at, void* address) override;
    void update(command_graph to) override;
    graph_change flush() override { return std::exchange(change_, graph_change::none); }
    void set_enabled(std::size_t node, bool enabled) override;
    const void* launch_handle() const noexcept override { return list_->graph.is_for_kernels ? list_.get() : nullptr; }
    bool may_fail() const noexcept override { return list_->may_fail; }

    std::shared_ptr<const replay_list> list() const noexcept { return list_; }

private:
    replay_list& own();  // ours alone, to be changed

    std::shared_ptr<replay_list> list_;
    graph_change change_ = graph_change::none;
};

}  // namespace sluice::detail
