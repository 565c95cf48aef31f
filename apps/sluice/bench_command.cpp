// SPDX-License-Identifier: Apache-2.0
#include "bench_command.hpp"

#include <algorithm>
#include <chrono>
#include <deque>
#include <memory>
#include <utility>

#include "network_file.hpp"
#include "process_guard.hpp"
#include "sluice/base/error.hpp"
#include "sluice/devices/device_set.hpp"
#include "sluice/graph/executable_graph.hpp"
#include "sluice/io/write_file.hpp"
#include "sluice/nn/network.hpp"
#include "sluice/runtime/device_future.hpp"
#include "sluice/runtime/runtime.hpp"
#include "sluice/runtime/sync.hpp"

namespace sluice::app {
namespace {

using clock = std::chrono::steady_clock;

[[noreturn]] void refuse(const std::string& why) { throw error(errc::invalid_argument, why, {"bench"}); }

double seconds_between(clock::time_point from, clock::time_point to) {
    return std::chrono::duration<double>(to - from).count();
}

struct bench_times {
    double seconds, warm_up_seconds;
};

// One call after the other.
template <typename Call>
latency_summary measure_latency(const Call& call, scheduling_policy& pool, const bench_times& times,
                                const signal_guard& guard) {
    const auto warm_up = clock::now();
    do {
        static_cast<void>(sync(call(), pool));
        guard.check();
    } while (seconds_between(warm_up, clock::now()) < times.warm_up_seconds);
    std::vector<double> seconds;
    const auto begin = clock::now();
    for (auto start = begin; seconds.size() < most_calls && seconds_between(begin, start) < times.seconds;) {
        static_cast<void>(sync(call(), pool));
        const auto end = clock::now();
        seconds.push_back(seconds_between(start, end));
        guard.check();
        start = clock::now();
    }
    return summarize(std::move(seconds));
}

// Keeps `in_flight` calls in flight, also before and after the time that is measured: the calls that end in it count.
template <typename Call>
throughput_summary measure_throughput(const Call& call, scheduling_policy& pool, std::size_t in_flight,
                                      const bench_times& times, const signal_guard& guard) {
    std::deque<decltype(spawn(call(), pool))> under_way;
    const auto take_oldest = [&] {
        auto oldest = std::move(under_way.front());
        under_way.pop_front();
        static_cast<void>(std::move(oldest).get());
        guard.check();
    };
    const auto run_for = [&](double seconds) {
        std::size_t taken = 0;
        const auto begin = clock::now();
        do {
            while (under_way.size() < in_flight) under_way.push_back(spawn(call(), pool));
            take_oldest();
            ++taken;
        } while (seconds_between(begin, clock::now()) < seconds || taken < in_flight);
        return taken;
    };
    run_for(times.warm_up_seconds);
    throughput_summary made{.calls = 0, .seconds = 0, .in_flight = in_flight};
    const auto begin = clock::now();
    made.calls = run_for(times.seconds);
    made.seconds = seconds_between(begin, clock::now());
    while (!under_way.empty()) take_oldest();
    return made;
}

// The devices of the words, each once, in their order.
std::vector<device*> devices_of(const runtime& machine, const std::vector<std::string>& words) {
    std::vector<device*> found;
    const auto add = [&](device& each) {
        if (std::ranges::find(found, &each) == found.end()) found.push_back(&each);
    };
    if (words.empty()) add(machine.default_device());
    for (const std::string& word : words) {
        if (word == "all") {
            for (device* const each : machine.devices()) add(*each);
        } else {
            add(machine.find(word));
        }
    }
    return found;
}

class bench_run {
public:
    bench_run(const bench_options& options, const signal_guard& guard)
        : options_(options),
          guard_(guard),
          times_{options.seconds.value_or(default_bench_seconds),
                 options.warm_up_seconds.value_or(default_warm_up_seconds)} {}

    void measure(device& on, const nn::model& model) {
        const std::size_t workers = static_cast<std::size_t>(on.properties().compute_units);
        const std::size_t in_flight = options_.in_flight != 0         ? options_.in_flight
                                      : on.kind() == device_kind::cpu ? 2 * workers
                                                                      : 4;
        round_robin one(on, 1), many(on, in_flight);
        const nn::network network = sync(nn::make_network(model), one);
        if (!inputs_) {
            inputs_.emplace(network.inputs(), options_.inputs, [&](std::size_t i) { return network.is_host_input(i); });
            result_.inputs = inputs_->source();
            if (options_.plot && !inputs_->has_batch()) {
                refuse("--plot draws figures over the batch size; the inputs of this network have no dimension for it");
            }
        }
        const std::vector<std::size_t> as_it_is{1};
        for (const std::size_t rows : inputs_->has_batch() ? options_.batches : as_it_is) {
            bench_case next;
            next.device = on.name();
            next.hardware = on.properties().name;
            if (inputs_->has_batch()) next.batch = rows;
            const auto call = [network, inputs = inputs_->of_batch(rows)] { return network.run(inputs); };
            measure(call, one, many, in_flight, std::move(next));
        }
    }
    bench_result take() { return std::move(result_); }

private:
    template <typename Call>
    void measure(const Call& call, scheduling_policy& one, scheduling_policy& many, std::size_t in_flight,
                 bench_case next) {
        next.latency = measure_latency(call, one, times_, guard_);
        next.throughput = measure_throughput(call, many, in_flight, times_, guard_);
        result_.cases.push_back(next);
        next.way = call_way::graph;
        next.latency = {};
        next.throughput = {};
        try {
            const auto alone = compile(one, call);
            next.latency = measure_latency([&] { return alone(); }, one, times_, guard_);
            const auto side_by_side = compile(many, graph_options{.replicas = in_flight}, call);
            next.throughput = measure_throughput([&] { return side_by_side(); }, many, in_flight, times_, guard_);
        } catch (const error& failure) {
            const bool is_refused = failure.code() == errc::graph_refused || failure.code() == errc::unsupported;
            if (!is_refused) throw;
            next.why_not = failure.what();
        }
        result_.cases.push_back(std::move(next));
    }

    const bench_options& options_;
    const signal_guard& guard_;
    const bench_times times_;
    std::optional<sample_inputs> inputs_;
    bench_result result_;
};

}  // namespace

std::string_view to_string(call_way way) noexcept { return way == call_way::sync ? "sync" : "graph"; }

bench_result bench(const bench_options& options) {
    if (options.plot && options.plot->empty()) refuse("--plot: the name is empty");
    const nn::model model = load_model(options.model, options.network);
    const bool needs_gpus = options.devices.empty() || std::ranges::any_of(options.devices, [](const auto& word) {
                                return !word.starts_with("cpu");
                            });
    const runtime machine({.cuda = needs_gpus});
    const std::vector<device*> devices = devices_of(machine, options.devices);
    const signal_guard guard;  // before a file exists that a signal would leave on the disk
    std::optional<io::atomic_file> plot;
    if (options.plot) plot.emplace(*options.plot);
    bench_run run(options, guard);
    for (device* const each : devices) run.measure(*each, model);
    bench_result result = run.take();
    guard.check();
    if (plot) io::write_file(*plot, [&](std::ostream& to) { write_plot(options, result, to); });
    return result;
}

}  // namespace sluice::app
