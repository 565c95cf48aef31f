// SPDX-License-Identifier: Apache-2.0
// launched_graphs: runs the graphs that kernels launch while a host thread replays a graph, in the same order and with
// the same limits as on a GPU.
#pragma once

#include "runtime/graph_replay.hpp"

namespace sluice::detail {

// Runs, on the calling thread: the list, then the graphs that it launched to run concurrently, then those that it
// launched to run after it; each of them with all that it launches itself. Returns the first failure, after which no
// graph is started.
std::exception_ptr run_with_launched_graphs(const replay_list& list, const native_stream& on,
                                            const replay_order& order);

}  // namespace sluice::detail
