// SPDX-License-Identifier: Apache-2.0
#include "sluice/nn/engine.hpp"

#include <algorithm>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "nn/batch_calls.hpp"
#include "nn/prepared_network.hpp"
#include "sluice/graph/executable_graph.hpp"
#include "sluice/runtime/device_future.hpp"
#include "sluice/runtime/transfer.hpp"

namespace sluice::nn {
namespace {

using batch_future = device_future<pending<std::vector<any_tensor>>>;
using group_future = device_future<std::tuple<>>;

// Of a batch's inputs: above it the device is busy with them for longer than the host is with the commands, and a graph
// would only add a copy.
constexpr std::size_t most_graph_bytes = std::size_t{1} << 20;
constexpr std::size_t most_replicas = 8;  // of that graph; further batches queue after them

}  // namespace

// A batch, or a group of them: one of the futures is there.
struct engine::in_flight_command {
    std::size_t first;
    std::size_t rows;
    std::optional<batch_future> batch = {};
    std::optional<group_future> group = {};
    std::shared_ptr<std::vector<float>> room = {};  // the outputs of the group; null where the caller has them
    std::size_t lane = 0;

    void wait() const { batch ? batch->wait() : group->wait(); }
    bool is_ready() const { return batch ? batch->is_ready() : group->is_ready(); }
    // Afterwards it has no future that is valid.
    void abandon() noexcept {
        try {
            if (batch && batch->valid()) static_cast<void>(std::move(*batch).get());
            if (group && group->valid()) std::move(*group).get();
        } catch (...) {  // NOLINT(bugprone-empty-catch): the first failure is on its way to the caller
        }
    }
};

namespace {

// The commands of one lane in flight, oldest first; those at the front are known to have completed.
template <typename Command>
class lane_load {
public:
    void add(const Command& one) { under_way_.push_back(&one); }
    void remove_oldest() {
        under_way_.pop_front();
        if (over_ != 0) --over_;
    }
    std::size_t open() {
        while (over_ < under_way_.size() && under_way_[over_]->is_ready()) ++over_;
        return under_way_.size() - over_;
    }

private:
    std::deque<const Command*> under_way_;
    std::size_t over_ = 0;
};

// The lane with the fewest commands in flight, in rotation among equals.
template <typename Load>
std::size_t pick(std::vector<Load>& loads, std::size_t turn) {
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

// After a failure, waits for the commands in flight: their source may be destroyed right after.
template <typename Command>
void abandon(std::deque<Command>& under_way) noexcept {
    for (Command& each : under_way) each.abandon();
}

void require_fit(std::size_t values, std::size_t rows, std::size_t width, std::string_view what) {
    if (values == rows * width) return;
    throw error(errc::shape_mismatch,
                std::string(what) + " of " + std::to_string(rows) + " rows of " + std::to_string(width) +
                    " must have " + std::to_string(rows * width) + " values, they have " + std::to_string(values),
                {"engine"});
}

[[noreturn]] void refuse(const network& what, const std::string& why) {
    throw error(errc::shape_mismatch, what.inside().from().path.string() + ": the network " + why, {"engine"});
}

// Of a row that goes in, and of one that comes out.
std::pair<std::size_t, std::size_t> features_of(const network& what, std::size_t batch) {
    const std::string accepted = "; an engine runs networks with one input f32 [rows, features] and one such output";
    if (what.inputs().size() != 1 || what.outputs().size() != 1)
        refuse(what, "has " + std::to_string(what.inputs().size()) + " inputs and " +
                         std::to_string(what.outputs().size()) + " outputs" + accepted);
    const value_info& input = what.inputs().front();
    if (input.type != io::dtype::f32 || !input.shape || input.shape->size() != 2 || !input.shape->back().length ||
        *input.shape->back().length == 0)
        refuse(what, "has another input than that" + accepted);
    const std::size_t in = *input.shape->back().length;
    const std::vector<any_tensor> outputs = what.infer({any_tensor::of_shape(io::dtype::f32, {batch, in})});
    const any_tensor& output = outputs.front();
    if (output.type() != io::dtype::f32 || output.shape().size() != 2 || output.shape()[0] != batch)
        refuse(what, "gives " + to_string(output) + " for " + std::to_string(batch) + " rows" + accepted);
    return {in, output.shape()[1]};
}

}  // namespace

engine::engine(const engine_options& options) : options_(options) {
    if (options.batch == 0 || options.in_flight == 0) {
        throw error(errc::invalid_argument, "batches have at least one row, and at least one is in flight", {"engine"});
    }
}

void engine::add(network what, scheduling_policy& policy) {
    const auto [in, out] = features_of(what, options_.batch);
    if (!lanes_.empty() && (in != in_ || out != out_))
        refuse(what, "takes " + std::to_string(in) + " features a row and gives " + std::to_string(out) +
                         "; the network of the first device takes " + std::to_string(in_) + " and gives " +
                         std::to_string(out_));
    const batch_function any_batch = [what](tensor<float> x) {
        std::vector<any_tensor> inputs;
        inputs.emplace_back(std::move(x));
        return any_operation<answer>(what.run(std::move(inputs)));
    };
    batch_function whole_batch = any_batch;
    const bool is_small = options_.batch <= most_graph_bytes / sizeof(float) / in;
    if (is_small && policy.next().owner().kind() == device_kind::cuda) {
        const auto graph = compile(
            policy, {.replicas = std::min(options_.in_flight, most_replicas), .name = "batch"},
            [any_batch](tensor<float> x) { return any_batch(std::move(x)); },
            device_input<float>({options_.batch, in}));
        whole_batch = [graph](tensor<float> x) { return any_operation<answer>(graph(std::move(x))); };
    }
    lanes_.push_back({&policy, &policy.next().owner(), any_batch, std::move(whole_batch),
                      std::make_shared<detail::batch_calls>(std::move(what), in, out),
                      std::make_shared<detail::batch_time>()});
    in_ = in;
    out_ = out;
}

void engine::require_lanes() const {
    if (lanes_.empty()) throw error(errc::invalid_argument, "no device was added", {"engine"});
}

engine::in_flight_command engine::submit(const lane& to, std::size_t first, std::size_t count,
                                         any_operation<tensor<float>> rows) const {
    return {first, count, spawn(std::move(rows).and_then(function_for(to, count)), *to.policy)};
}

void engine::warm_up(std::size_t rows) const {
    require_lanes();
    std::deque<in_flight_command> under_way;
    try {
        // Of each size no more batches than there will be: warming up more would cost more than it saves.
        const std::size_t rest = rows % options_.batch;
        for (const auto& [count, batches] :
             {std::pair(options_.batch, rows / options_.batch), std::pair(rest, std::size_t{rest != 0 ? 1u : 0u})}) {
            if (batches == 0) continue;
            std::vector<const lane*> by_operations;
            for (const lane& each : lanes_)
                if (!each.calls->of_rows(count, batches)) by_operations.push_back(&each);
            for (std::size_t i = 0; !by_operations.empty() && i < std::min(options_.in_flight, batches); ++i) {
                const lane& next = *by_operations[i % by_operations.size()];
                under_way.push_back(submit(next, 0, count, zeros<float>({count, in_})));
            }
            for (; !under_way.empty(); under_way.pop_front())
                static_cast<void>(std::move(*under_way.front().batch).get());
        }
    } catch (...) {
        abandon(under_way);
        throw;
    }
}

template <typename Submit, typename Take>
void engine::run_window(std::size_t rows, const Submit& submit, const Take& take) const {
    std::deque<in_flight_command> under_way;
    std::vector<lane_load<in_flight_command>> loads(lanes_.size());
    const auto finish_oldest = [&] {
        in_flight_command oldest = std::move(under_way.front());
        under_way.pop_front();
        loads[oldest.lane].remove_oldest();
        take(oldest);
    };
    try {
        std::size_t turn = 0;
        for (std::size_t first = 0; first < rows;) {
            if (under_way.size() == options_.in_flight) {
                // Half of them at once: this thread then sleeps and wakes less often.
                const std::size_t half = (options_.in_flight + 1) / 2;
                under_way[half - 1].wait();
                for (std::size_t i = 0; i < half; ++i) finish_oldest();
                // The progress of the others is known only after a poll.
                for (const lane& each : lanes_) {
                    if (lanes_.size() > 1) each.on->poll();
                }
            }
            const std::size_t number = pick(loads, turn++);
            under_way.push_back(submit(lanes_[number], first));
            under_way.back().lane = number;
            first += under_way.back().rows;
            loads[number].add(under_way.back());
        }
        while (!under_way.empty()) finish_oldest();
    } catch (...) {
        abandon(under_way);
        throw;
    }
}

void engine::run(std::size_t rows, const host_row_source& source, const row_sink& sink) const {
    require_lanes();
    run(rows, source, sink, nullptr);
}

void engine::run(std::span<const float> inputs, std::span<float> outputs) const {
    require_lanes();
    const std::size_t in = in_, out = out_, rows = inputs.size() / in;
    require_fit(inputs.size(), rows, in, "the inputs");
    require_fit(outputs.size(), rows, out, "the outputs");
    const std::less<const float*> before;
    if (rows != 0 && before(inputs.data(), outputs.data() + outputs.size()) &&
        before(outputs.data(), inputs.data() + inputs.size()))
        throw error(errc::invalid_argument, "the outputs overlap the inputs", {"engine"});
    run(
        rows, [&](std::size_t first, std::size_t count) { return inputs.subspan(first * in, count * in); },
        [&](std::size_t first, std::span<const float> part) {
            std::ranges::copy(part, outputs.begin() + static_cast<std::ptrdiff_t>(first * out));
        },
        outputs.data());
}

void engine::run(std::size_t rows, const host_row_source& source, const row_sink& sink, float* room) const {
    // Whatever happens, the commands that use the caller's memory have ended before this returns.
    struct ended_commands {
        std::shared_ptr<detail::open_commands> open = std::make_shared<detail::open_commands>();
        ~ended_commands() { open->wait_until_none(); }
    } const commands;
    std::vector<std::shared_ptr<std::vector<float>>> free_rooms;
    std::size_t workers = 0;
    for (const lane& each : lanes_) {
        if (each.on->kind() == device_kind::cpu)
            workers += static_cast<std::size_t>(std::max(1, each.on->properties().compute_units));
    }

    const auto submit_group = [&](const lane& to, std::size_t first, std::shared_ptr<detail::calls_of_rows> batch) {
        const std::size_t left = rows - first;
        const std::size_t batches = to.time->batches_of_command((left - 1) / options_.batch + 1, workers);
        std::size_t count = std::min(left, batches * options_.batch);
        std::shared_ptr<detail::calls_of_rows> rest;
        if (count > options_.batch && count % options_.batch != 0) {
            rest = to.calls->of_rows(count % options_.batch);
            if (!rest) count -= count % options_.batch;
        }
        const host_rows given = source(first, count);
        require_fit(given.values().size(), count, in_, "the inputs");
        in_flight_command made{first, count};
        float* to_outputs = room == nullptr ? nullptr : room + first * out_;
        if (room == nullptr) {
            if (free_rooms.empty()) {
                made.room = std::make_shared<std::vector<float>>();
            } else {
                made.room = std::move(free_rooms.back());
                free_rooms.pop_back();
            }
            made.room->resize(count * out_);
            to_outputs = made.room->data();
        }
        made.group = detail::spawn_batches({given.values().data(), given.owner(), made.room, to_outputs, count, in_,
                                            out_, std::move(batch), std::move(rest)},
                                           to.time, commands.open, *to.policy);
        return made;
    };
    run_window(
        rows,
        [&](const lane& to, std::size_t first) {
            const std::size_t count = std::min(options_.batch, rows - first);
            if (auto calls = to.calls->of_rows(count, (rows - first) / count))
                return submit_group(to, first, std::move(calls));
            const host_rows given = source(first, count);
            require_fit(given.values().size(), count, in_, "the inputs");
            // Without an owner an upload copies the rows at once. A CPU's worker needs no such copy, and is waited for.
            std::shared_ptr<const void> owner = given.owner();
            if (owner == nullptr && to.on->kind() == device_kind::cpu)
                owner = std::make_shared<const detail::open_command>(commands.open);
            return submit(to, first, count, upload(given.values(), std::move(owner), shape{count, in_}));
        },
        [&](in_flight_command& ended) {
            if (ended.batch) {
                const std::vector<any_tensor> outputs = std::move(*ended.batch).get();
                require_fit(outputs.front().elements(), ended.rows, out_, "the network's outputs");
                return sink(ended.first, outputs.front().values<float>());
            }
            std::move(*ended.group).get();
            if (ended.room == nullptr) return;
            sink(ended.first, *ended.room);
            free_rooms.push_back(std::move(ended.room));
        });
}

}  // namespace sluice::nn
