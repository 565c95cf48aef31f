#include "sluice/nn/engine.hpp"

#include <algorithm>
#include <deque>

#include "sluice/runtime/device_future.hpp"
#include "sluice/runtime/transfer.hpp"

namespace sluice::nn {
namespace {

using batch_future = device_future<pending<std::vector<float>>>;

struct batch_under_way {
    std::size_t first;
    batch_future outputs;
};

batch_future start(const plan& network, scheduling_policy& policy, any_operation<tensor<float>> rows) {
    return spawn(
        std::move(rows).and_then([&](tensor<float> x) { return network.forward(std::move(x)); }).and_then(download),
        policy);
}

// When something fails, the batches under way are waited for: their source may go right after.
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
        throw error(errc::invalid_argument, "batches have at least one row, and at least one is under way", {"engine"});
    }
}

void engine::add(plan network, scheduling_policy& policy) { lanes_.emplace_back(std::move(network), policy); }

void engine::warm_up(std::size_t rows) const {
    if (lanes_.empty()) throw error(errc::invalid_argument, "no device was added", {"engine"});
    std::deque<batch_under_way> under_way;
    try {
        for (const std::size_t count : {std::min(options_.batch, rows), rows % options_.batch}) {
            for (std::size_t i = 0; count != 0 && i < options_.in_flight; ++i) {
                const lane& next = lanes_[i % lanes_.size()];
                under_way.push_back(
                    {0, start(next.network, *next.policy, zeros<float>({count, next.network.in_features()}))});
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
    const auto finish_oldest = [&] {
        batch_under_way oldest = std::move(under_way.front());
        under_way.pop_front();
        const std::vector<float> outputs = std::move(oldest.outputs).get();
        sink(oldest.first, outputs);
    };
    try {
        std::size_t turn = 0;
        for (std::size_t first = 0; first < rows; first += options_.batch) {
            if (under_way.size() == options_.in_flight) {
                // Half of them at once: this thread sleeps and wakes less often.
                const std::size_t half = (options_.in_flight + 1) / 2;
                under_way[half - 1].outputs.wait();
                for (std::size_t i = 0; i < half; ++i) finish_oldest();
            }
            const lane& next = lanes_[turn++ % lanes_.size()];
            const std::size_t count = std::min(options_.batch, rows - first);
            under_way.push_back({first, start(next.network, *next.policy, source(first, count))});
        }
        while (!under_way.empty()) finish_oldest();
    } catch (...) {
        abandon(under_way);
        throw;
    }
}

}  // namespace sluice::nn
