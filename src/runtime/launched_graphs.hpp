// Graphs that kernels launch while a graph is replayed by a host thread: the same order and the same limits as on a
// GPU.
#pragma once

#include "runtime/graph_replay.hpp"

namespace sluice::detail {

// Runs the list, then what it launched to run beside it, then what it launched to run behind it; of those, each with
// all that it launches itself. On the calling thread. Returns the first failure, after which nothing more is begun.
std::exception_ptr run_with_what_it_launches(const replay_list& list, const native_stream& on,
                                             const replay_order& order);

}  // namespace sluice::detail
