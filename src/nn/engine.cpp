// SPDX-License-Identifier: Apache-2.0
#include "sluice/nn/engine.hpp"

#include <algorithm>
#include <deque>
#include <utility>

#include "sluice/runtime/device_future.hpp"
#include "sluice/runtime/transfer.hpp"

namespace sluice::nn {
namespace {

using batch_future = device_future<pending<std::vector<float>>>;

struct batch_under_way {
    std::size_t first;
    std::size_t lane;
    batch_future outputs;
};

// Of a batch's inputs: above it the device is busy with them for longer than the host is with the commands, and a graph
// would only add a copy.
constexpr std::size_t most_graph_bytes = std::size_t{1} << 20;
constexpr std::size_t most_replicas = 8;  // of that graph; further batches queue after them

// The batches of one lane in flight, oldest first; those at the front are known to have completed.
class lane_load {
public:
    void add(const batch_future& one) { under_way_.push_back(&one); }
    void remove_oldest() {
        under_way_.pop_front();
        if (over_ != 0) --over_;
    }
    std::size_t open() {
        while (over_ < under_way_.size() && under_way_[over_]->is_ready()) ++over_;
        return under_way_.size() - over_;
    }

private:
    std::deque<const batch_future*> under_way_;
    std::size_t over_ = 0;
};

// The lane with the fewest batches in flight, in rotation among equals.
std::size_t pick(std::vector<lane_load>& loads, std::size_t turn) {
    std::size_t best = turn % loads.size();
    if (loads.size() == 1) return best;
    std::size_t least = loads[best].open();
    for (std::size_t i = 1; i < loads.size() && least != 0; ++i) {
        const std::size_t each = (turn + i) % loads.size();
        const std::size_t theirs = loads[each].open();
        if (theirs < least) {
            least = theirs;
            best = each;
        }
    }
    return best;
}

// After a failure, waits for the batches in flight: their source may be destroyed right after.
void abandon(std::deque<batch_under_way>& under_way) noexcept {
    for (batch_under_way& each : under_way) {
        if (!each.outputs.valid()) continue;
        try {
            static_cast<void>(std::move(each.outputs).get());
        } catch (...) {  // NOLINT(bugprone-empty-catch): the first failure is on its way to the caller
        }
    }
}

}  // namespace

engine::engine(const engine_options& options) : options_(options) {
    if (options.batch == 0 || options.in_flight == 0) {
        throw error(errc::invalid_argument, "batches have at least one row, and at least one is in flight", {"engine"});
    }
}

void engine::add(plan network, scheduling_policy& policy) {
    const batch_function any_batch = [network](tensor<float> x) {
        return any_operation<pending<std::vector<float>>>(network.forward(std::move(x)).and_then(download));
    };
    batch_function whole_batch = any_batch;
    const bool is_small =
        options_.batch <= most_graph_bytes / sizeof(float) / std::max<std::size_t>(1, network.in_features());
    if (is_small && policy.next().owner().kind() == device_kind::cuda) {
        const auto graph = compile_forward(policy, network, options_.batch,
                                           {.replicas = std::min(options_.in_flight, most_replicas), .name = "batch"});
        whole_batch = [graph](tensor<float> x) {
            return any_operation<pending<std::vector<float>>>(graph(std::move(x)));
        };
    }
    lanes_.push_back({std::move(network), &policy, &policy.next().owner(), any_batch, std::move(whole_batch)});
}

void engine::warm_up(std::size_t rows) const {
    if (lanes_.empty()) throw error(errc::invalid_argument, "no device was added", {"engine"});
    std::deque<batch_under_way> under_way;
    try {
        // Of each size no more batches than there will be: warming up more would cost more than it saves.
        const std::size_t rest = rows % options_.batch;
        for (const auto& [count, batches] :
             {std::pair(options_.batch, rows / options_.batch), std::pair(rest, std::size_t{rest != 0 ? 1u : 0u})}) {
            for (std::size_t i = 0; i < std::min(options_.in_flight, batches); ++i) {
                const lane& next = lanes_[i % lanes_.size()];
                under_way.push_back(
                    {0, 0,
                     spawn(zeros<float>({count, next.network.in_features()}).and_then(function_for(next, count)),
                           *next.policy)});
            }
            for (; !under_way.empty(); under_way.pop_front())
                static_cast<void>(std::move(under_way.front().outputs).get());
        }
    } catch (...) {
        abandon(under_way);
        throw;
    }
}

void engine::run(std::size_t rows, const row_source& source, const row_sink& sink) const {
    if (lanes_.empty()) throw error(errc::invalid_argument, "no device was added", {"engine"});
    std::deque<batch_under_way> under_way;
    std::vector<lane_load> loads(lanes_.size());
    const auto finish_oldest = [&] {
        batch_under_way oldest = std::move(under_way.front());
        under_way.pop_front();
        loads[oldest.lane].remove_oldest();
        const std::vector<float> outputs = std::move(oldest.outputs).get();
        sink(oldest.first, outputs);
    };
    try {
        std::size_t turn = 0;
        for (std::size_t first = 0; first < rows; first += options_.batch) {
            if (under_way.size() == options_.in_flight) {
                // Half of them at once: this thread then sleeps and wakes less often.
                const std::size_t half = (options_.in_flight + 1) / 2;
                under_way[half - 1].outputs.wait();
                for (std::size_t i = 0; i < half; ++i) finish_oldest();
                // The progress of the others is known only after a poll.
                for (const lane& each : lanes_) {
                    if (lanes_.size() > 1) each.on->poll();
                }
            }
            const std::size_t number = pick(loads, turn++);
            const lane& next = lanes_[number];
            const std::size_t count = std::min(options_.batch, rows - first);
            under_way.push_back(
                {first, number, spawn(source(first, count).and_then(function_for(next, count)), *next.policy)});
            loads[number].add(under_way.back().outputs);
        }
        while (!under_way.empty()) finish_oldest();
    } catch (...) {
        abandon(under_way);
        throw;
    }
}

}  // namespace sluice::nn
