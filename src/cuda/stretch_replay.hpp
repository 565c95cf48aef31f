// SPDX-License-Identifier: Apache-2.0
// stretch_replay: the commands that a stream keeps while an operation is submitted, and the graphs that replay them
// when the operation has been submitted. One graph for each stretch that repeats (repeated_stretches.hpp): a chain of
// kernels, whose arguments are set where they differ from those of the launch before.
//
// Thread safety: none; the stream guards it.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "cuda/api/graph.hpp"
#include "cuda/repeated_stretches.hpp"
#include "sluice/runtime/ticket.hpp"

struct CUfunc_st;

namespace sluice::cuda {

class stretch_replay {
public:
    // `with_early_starts`: whether kernels of the device can start before the kernel before them has ended.
    explicit stretch_replay(bool with_early_starts) : with_early_starts_(with_early_starts) {}

    // The next command of the operation, a launch of a kernel without clusters. True: it is kept, with a copy of its
    // arguments. False: the caller enqueues it now. In both cases commands that cannot be kept any longer have been
    // enqueued on the stream before.
    bool keep(ticket number, CUfunc_st* kernel, const launch_command& command, CUstream_st* on);
    // Enqueues the kept commands, as one graph where all of them are a stretch that repeats. A call that throws has
    // enqueued some of them.
    void submit(CUstream_st* on);
    // Forgets the kept commands.
    void drop() noexcept { kept_.clear(); }

    // The number of the last command that was kept, perhaps enqueued meanwhile; 0 before the first.
    ticket last_kept() const noexcept { return last_kept_; }
    // Graphs that no later stretch uses. The caller keeps them until the stream's commands so far are complete.
    std::vector<std::shared_ptr<const void>> take_retired() noexcept { return std::exchange(retired_, {}); }
    bool has_retired() const noexcept { return !retired_.empty(); }

private:
    // The bytes of arguments, one closure after the other, each aligned for every type.
    class closure_list {
    public:
        std::size_t add(const void* closure, std::size_t bytes);
        std::byte* at(std::size_t offset) noexcept { return reinterpret_cast<std::byte*>(all_.data()) + offset; }
        void clear() noexcept { all_.clear(); }

    private:
        std::vector<std::max_align_t> all_;
    };
    struct kept_command {
        repeated_step step;
        std::size_t closure;  // its offset
    };
    struct program {
        api::graph_handle graph;
        api::graph_exec_handle exec;
        std::vector<api::graph_node_handle> nodes;
        std::vector<std::size_t> offsets;
        closure_list closures;  // what the nodes have
    };

    launch_command command_of(const repeated_step& step, const void* closure) const noexcept;
    void retire(std::shared_ptr<program> unused) noexcept;
    void enqueue_each(CUstream_st* on);
    bool replay(program& with, CUstream_st* on);
    std::shared_ptr<program> build(const repeated_stretches::steps& all) const;

    const bool with_early_starts_;
    repeated_stretches stretches_;
    std::array<std::shared_ptr<program>, repeated_stretches::most_known> programs_;
    std::vector<kept_command> kept_;
    closure_list closures_;
    ticket last_kept_ = 0;
    std::vector<std::shared_ptr<const void>> retired_;
};

}  // namespace sluice::cuda
