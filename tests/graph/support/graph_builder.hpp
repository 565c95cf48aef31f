// SPDX-License-Identifier: Apache-2.0
// Builds command graphs by hand, for tests of the code that reads them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sluice/runtime/command_graph.hpp"

namespace sluice::testing {

class graph_builder {
public:
    // The names must outlive the graph.
    std::uint32_t memory(std::string_view name, std::size_t bytes) {
        made_.memory.push_back({name, bytes, true});
        return static_cast<std::uint32_t>(made_.memory.size() - 1);
    }

    std::uint32_t add(std::string_view name, graph_node::command what, std::vector<graph_edge> after = {},
                      std::vector<std::uint32_t> reads = {}, std::vector<std::uint32_t> writes = {},
                      std::string operation = {}) {
        made_.nodes.push_back({std::move(what),
                               name,
                               std::move(operation),
                               {},
                               std::move(after),
                               std::move(reads),
                               std::move(writes),
                               0});
        return static_cast<std::uint32_t>(made_.nodes.size() - 1);
    }
    std::uint32_t kernel(std::string_view name, std::vector<graph_edge> after = {},
                         std::vector<std::uint32_t> reads = {}, std::vector<std::uint32_t> writes = {}) {
        launch_command launch;
        launch.grid = {4, 1, 1};
        launch.block = {256, 1, 1};
        return add(name, launch, std::move(after), std::move(reads), std::move(writes));
    }
    std::uint32_t loop(std::string_view name, command_graph body, std::vector<graph_edge> after = {},
                       std::vector<std::uint32_t> reads = {}) {
        conditional_command part;
        part.what = conditional_command::kind::repeatedly;
        part.body = std::make_shared<const command_graph>(std::move(body));
        return add(name, std::move(part), std::move(after), std::move(reads));
    }

    command_graph take() { return std::move(made_); }

private:
    command_graph made_;
};

// An upload, a fill and a library call that needs both, a loop with a kernel in it, and a download.
inline command_graph sample_graph() {
    graph_builder build;
    const auto x = build.memory("input", 16384), hidden = build.memory("zeros", 4096), y = build.memory("host", 4096);
    const auto up = build.add("upload", copy_command{nullptr, nullptr, 16384, copy_direction::host_to_device, {}}, {},
                              {}, {x}, "images");
    const auto zero = build.add("zeros", fill_command{nullptr, 0, 4096}, {}, {}, {hidden});
    const auto product =
        build.add("gemm", library_command{},
                  {{up, x, edge_reason::read_after_write}, {zero, hidden, edge_reason::write_after_write}}, {x},
                  {hidden}, "layer 1");
    graph_builder inner;
    const auto first = inner.kernel("relu", {}, {}, {hidden});
    inner.kernel("scale", {{first, hidden, edge_reason::write_after_write, true}}, {x}, {hidden});
    const auto loop =
        build.loop("repeat_while", inner.take(), {{product, hidden, edge_reason::read_after_write}}, {hidden});
    build.add("copy", copy_command{nullptr, nullptr, 4096, copy_direction::device_to_host, {}},
              {{loop, hidden, edge_reason::read_after_write}}, {hidden}, {y});
    build.add("overwrite", copy_command{nullptr, nullptr, 16384, copy_direction::device_to_device, {}},
              {{product, x, edge_reason::write_after_read}}, {}, {x});
    return build.take();
}

}  // namespace sluice::testing
