#include "runtime/launched_graphs.hpp"

#include <algorithm>
#include <ranges>
#include <utility>

#include "sluice/runtime/graph_launcher.hpp"

namespace sluice::detail {
namespace {

// CUDA's limits.
constexpr std::size_t most_beside = 120;  // launched by one run of a graph
constexpr std::size_t most_behind = 255;  // waiting at a time

// One run of a graph, and what its kernels have launched so far.
struct graph_run {
    const replay_list* graph;
    graph_run* launcher;
    std::vector<const replay_list*> beside = {};
    std::vector<const replay_list*> behind = {};
    bool launches_itself = false;
};

// One command on the thread that carries it out: the graph that the host launched, and all that comes of it.
class command_run {
public:
    command_run(const native_stream& on, const replay_order& order)
        : on_(on), order_(order), outer_(std::exchange(on_this_thread, this)) {}
    command_run(const command_run&) = delete;  // its thread knows it
    command_run& operator=(const command_run&) = delete;
    ~command_run() { on_this_thread = outer_; }

    static command_run* here() noexcept { return on_this_thread; }

    std::exception_ptr run(const replay_list& first) {
        graph_run host{nullptr, nullptr, {&first}};  // where siblings of the first graph belong
        launched_.push_back(&first);
        return run_beside(host);
    }

    bool launch(const replay_list* graph, launch_order order) {
        graph_run& from = *innermost_;
        const bool is_itself = graph == nullptr;
        if (is_itself) {
            graph = from.graph;
            if (!graph->graph.is_for_kernels || from.launches_itself) return false;
        } else if (std::ranges::find(launched_, graph) != launched_.end()) {
            return false;
        }
        if (order == launch_order::tail) {
            if (waiting_ == most_behind) return false;
            from.behind.push_back(graph);
            ++waiting_;
        } else {
            graph_run& beside = order == launch_order::sibling ? *from.launcher : from;
            if (beside.beside.size() == most_beside) return false;
            beside.beside.push_back(graph);
        }
        if (is_itself) {
            from.launches_itself = true;
        } else {
            launched_.push_back(graph);
        }
        return true;
    }

private:
    std::exception_ptr run_beside(graph_run& of) {
        for (std::size_t i = 0; i < of.beside.size(); ++i) {
            if (std::exception_ptr failure = run_row(*of.beside[i], of)) return failure;
        }
        return {};
    }

    // A graph and those behind it, however many rounds that takes: what waits behind one of them comes before what
    // waited already.
    std::exception_ptr run_row(const replay_list& first, graph_run& launcher) {
        std::vector<const replay_list*> row{&first};  // the next one last
        for (;;) {
            graph_run now{row.back(), &launcher};
            row.pop_back();
            graph_run* const outer = std::exchange(innermost_, &now);
            std::exception_ptr failure = now.graph->run_nodes(on_, order_);
            if (!failure) failure = run_beside(now);
            innermost_ = outer;
            if (failure) return failure;
            if (!now.launches_itself) std::erase(launched_, now.graph);
            row.insert(row.end(), now.behind.rbegin(), now.behind.rend());
            if (row.empty()) return {};
            --waiting_;
        }
    }

    static inline thread_local command_run* on_this_thread = nullptr;

    const native_stream& on_;
    const replay_order& order_;
    command_run* const outer_;
    graph_run* innermost_ = nullptr;
    std::vector<const replay_list*> launched_;  // waiting or running
    std::size_t waiting_ = 0;                   // behind others
};

}  // namespace

std::exception_ptr run_with_what_it_launches(const replay_list& list, const native_stream& on,
                                             const replay_order& order) {
    try {
        return command_run(on, order).run(list);
    } catch (...) {  // short of memory, for the lists of what is to run
        return std::current_exception();
    }
}

bool launch_while_replaying(const void* graph, launch_order order) noexcept {
    command_run* const here = command_run::here();
    try {
        return here != nullptr && here->launch(static_cast<const replay_list*>(graph), order);
    } catch (...) {  // short of memory
        return false;
    }
}

}  // namespace sluice::detail
