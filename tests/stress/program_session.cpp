// SPDX-License-Identifier: Apache-2.0
#include <exception>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "sluice/base/error.hpp"
#include "sluice/runtime/device_future.hpp"
#include "sluice/runtime/scheduling_policy.hpp"
#include "sluice/runtime/sync.hpp"
#include "sluice/runtime/transfer.hpp"
#include "sluice/sim/explore.hpp"
#include "stress/operations.hpp"
#include "stress/sessions.hpp"

namespace sluice::stress {

namespace {

shared_tensor<float> on_device(const values& x, const shape& of, scheduling_policy& pool) {
    return shared_tensor<float>(sync(upload(values(x), of), pool));
}

std::string difference(const char* which, const values& wanted, const values& got) {
    if (wanted.size() != got.size()) {
        return std::string(which) + ": " + std::to_string(got.size()) + " elements instead of " +
               std::to_string(wanted.size());
    }
    std::size_t wrong = 0, first = 0;
    for (std::size_t i = wanted.size(); i-- > 0;) {
        if (wanted[i] != got[i]) {
            ++wrong;
            first = i;
        }
    }
    return std::string(which) + ": " + std::to_string(wrong) + " of " + std::to_string(wanted.size()) +
           " elements are wrong; element " + std::to_string(first) + " is " + std::to_string(got[first]) +
           " instead of " + std::to_string(wanted[first]);
}

// The device memory that a session's programs share, with a copy on the host.
struct world {
    world(scheduling_policy& pool, generator& numbers, std::size_t width_) : width(width_) {
        const shape all{width, width};
        for (int i = 0; i < 2; ++i) {
            captured.push_back(random_values(numbers, width * width));
            with.captured.push_back(on_device(captured.back(), all, pool));
        }
        for (std::size_t i = 0; i < 3; ++i) {  // of different sizes, the largest last
            const std::size_t count = (1 + i * 40) * width;
            selection.push_back(random_values(numbers, count));
            with.selection.push_back(on_device(selection.back(), {count}, pool));
        }
    }

    std::size_t width;
    std::vector<values> captured, selection;
    surroundings with;
};

program random_program_of(generator& numbers, const world& in, const session_options& options) {
    program_limits limits;
    limits.depth = 2 + below(numbers, 4);
    limits.control = below(numbers, 3) == 0 && options.control;
    limits.pointers = below(numbers, 3) == 0 && options.pointers;
    limits.host = below(numbers, 2) == 0;
    limits.inner = in.with.inner != nullptr;
    limits.selection = options.selection;
    return random_program(numbers(), in.width, limits);
}

// One launch in flight, with its expected results.
struct launch_in_flight {
    device_future<outputs> future;
    results wanted;
    std::string location;
};

class launcher {
public:
    launcher(device& on, const world& in, std::uint64_t seed, std::uint64_t session, report& found)
        : device_(on),
          in_(in),
          numbers_(seed),
          session_(session),
          found_(found),
          pool_(on, 3, {.replays = below(numbers_, 2) == 0}) {}
    launcher(const launcher&) = delete;  // launches in flight refer to it
    launcher& operator=(const launcher&) = delete;

    scheduling_policy& pool() noexcept { return pool_; }
    generator& numbers() noexcept { return numbers_; }

    void eager(const program& what, const std::string& location) {
        const arguments given = next_arguments();
        launch(what, given, location, [&](auto owned, auto read) {
            auto host = sync(upload(values(given.host), {what.width, what.width}), pool_);
            return make_function(what, in_.with)(std::move(owned), std::move(read), std::move(host), given.s, given.k);
        });
        found_.count("eager");
    }

    void launched(const program& what, const compiled& graph, const std::string& location) {
        const arguments given = next_arguments();
        launch(what, given, location, [&](auto owned, auto read) {
            return graph(std::move(owned), std::move(read), given.host, given.s, given.k);
        });
        found_.count("launches");
    }

    // Launches the inner graph by itself, while other threads launch graphs that contain it.
    void inner_alone() {
        const arguments given = next_arguments();
        const shape all{in_.width, in_.width};
        auto x = sync(upload(values(given.owned), all), pool_);
        const auto got =
            sync((*in_.with.inner)(std::move(x), on_device(given.read, all, pool_), given.s).and_then(download), pool_);
        const values wanted = evaluate_inner(given.owned, given.read, in_.width, given.s);
        if (got != wanted) found_.failed(session_, "inner graph alone", difference("output", wanted, got));
        found_.count("inner alone");
    }

    std::optional<compiled> compile(const program& what) {
        try {
            found_.count("compiled");
            return compile_program(device_, what, in_.with, 1 + below(numbers_, 3));
        } catch (const error& refused) {
            if (!may_refuse(what, refused)) throw;
            found_.count("refused");
            return {};
        }
    }

    // Updates the graph to another program; returns whether the update was accepted.
    bool update(const compiled& graph, const program& what) {
        try {
            graph.update(make_function(what, in_.with));
            found_.count("updates");
            return true;
        } catch (const error& refused) {
            if (!may_refuse(what, refused)) throw;
            found_.count("refused");
            return false;
        }
    }

    void finish_all() {
        while (!open_.empty()) finish(below(numbers_, open_.size()));
    }

private:
    static bool may_refuse(const program& what, const error& refused) {
        return what.may_be_refused && refused.code() == errc::graph_refused;
    }

    arguments next_arguments() {
        arguments made = random_arguments(numbers_, in_.width);
        if (below(numbers_, 2) == 0) {
            made.s = s_;
            made.k = k_;
        }
        s_ = made.s;
        k_ = made.k;
        return made;
    }

    template <typename Make>
    void launch(const program& what, const arguments& given, const std::string& location, Make make) {
        const shape all{what.width, what.width};
        results wanted = evaluate(what, given, in_.captured, in_.selection);
        try {
            auto owned = sync(upload(values(given.owned), all), pool_);
            auto read = on_device(given.read, all, pool_);
            open_.push_back({spawn(make(std::move(owned), std::move(read)), pool_), std::move(wanted), location});
        } catch (const error& refused) {
            if (!may_refuse(what, refused)) throw;
            found_.count("refused");
        }
        if (!open_.empty() && below(numbers_, 6) == 0) {  // drops a future
            open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(below(numbers_, open_.size())));
        }
        while (open_.size() > below(numbers_, 4)) finish(below(numbers_, open_.size()));
    }

    void finish(std::size_t index) {
        launch_in_flight one = std::move(open_[index]);
        open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(index));
        auto [result, downloaded, chosen] = std::move(one.future).get();
        const values got = sync(download(std::move(result)), pool_);
        compare(one, "result", one.wanted.result, got);
        compare(one, "download", one.wanted.downloaded, downloaded);
        compare(one, "selection", one.wanted.chosen, chosen);
    }
    void compare(const launch_in_flight& one, const char* which, const values& wanted, const values& got) {
        if (wanted != got) found_.failed(session_, one.location, difference(which, wanted, got));
    }

    device& device_;
    const world& in_;
    generator numbers_;
    std::uint64_t session_;
    report& found_;
    round_robin pool_;
    std::vector<launch_in_flight> open_;
    float s_ = 0;
    int k_ = 0;
};

template <typename Work>
void guarded(report& found, std::uint64_t seed, const std::string& location, Work work) {
    try {
        work();
    } catch (const std::exception& problem) {
        found.failed(seed, location, problem.what());
    }
}

}  // namespace

void run_programs(device& on, const session_options& options, report& found) {
    generator numbers(options.seed);
    const std::size_t width = 2 + below(numbers, below(numbers, 3) == 0 ? 63 : 15);
    round_robin pool(on, 2);
    world in(pool, numbers, width);
    if (below(numbers, 3) != 0 && options.inner) {
        in.with.inner = std::make_shared<inner_graph>(compile_inner(on, width, 1 + below(numbers, 2)));
    }

    std::vector<program> programs;
    std::vector<compiled> graphs;
    launcher first(on, in, numbers(), options.seed, found);
    const auto alone = [&] {
        for (int i = 0; i < 3; ++i) {
            program what = random_program_of(numbers, in, options);
            for (int again = 0; again < 8; ++again) first.eager(what, "eager, program " + std::to_string(i));
            if (auto graph = first.compile(what)) {
                first.launched(what, *graph, "compiled, program " + std::to_string(i));
                programs.push_back(std::move(what));
                graphs.push_back(std::move(*graph));
            }
        }
        first.finish_all();
    };
    guarded(found, options.seed, "alone", alone);

    const auto run_thread = [&](std::size_t index, std::uint64_t seed) {
        launcher mine(on, in, seed, options.seed, found);
        program own = random_program_of(mine.numbers(), in, options);
        std::optional<compiled> own_graph = mine.compile(own);
        const std::string by = " by thread " + std::to_string(index);
        for (int i = 0; i < 8; ++i) {
            if (!graphs.empty()) {
                const std::size_t which = below(mine.numbers(), graphs.size());
                mine.launched(programs[which], graphs[which], "launch of program " + std::to_string(which) + by);
            }
            if (own_graph) mine.launched(own, *own_graph, "its own program" + by);
            const std::size_t chance = below(mine.numbers(), 4);
            if (chance == 0 && in.with.inner) mine.inner_alone();
            // Again and again: half of the pools replay what repeats.
            for (std::size_t again = 0; chance == 1 && again < 6; ++again) mine.eager(own, "eager" + by);
            if (chance == 2 && own_graph) {
                program other = random_program_of(mine.numbers(), in, options);
                if (mine.update(*own_graph, other)) own = std::move(other);
            }
        }
        mine.finish_all();
    };
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < options.threads; ++i) {
        threads.emplace_back([&, i, seed = numbers()] {
            guarded(found, options.seed, "thread " + std::to_string(i), [&] { run_thread(i, seed); });
        });
    }
}

void run_inner(device& on, const session_options& options, report& found) {
    generator numbers(options.seed);
    const std::size_t width = 40 + below(numbers, 100);
    round_robin pool(on, 2);
    world in(pool, numbers, width);
    in.with.inner = std::make_shared<inner_graph>(compile_inner(on, width, 1));
    program what;
    what.width = width;
    what.nodes = {{.what = step::owned_input}, {.what = step::inner, .left = 0}, {.what = step::cleared}};
    what.result = 1;
    what.downloaded = 2;
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < options.threads; ++i) {
        threads.emplace_back([&, seed = numbers()] {
            guarded(found, options.seed, "one inner graph", [&] {
                launcher mine(on, in, seed, options.seed, found);
                const auto graph = mine.compile(what);
                for (int round = 0; round < 50; ++round) mine.launched(what, *graph, "one inner graph");
                mine.finish_all();
            });
        });
    }
}

void simulate_programs(const session_options& options, report& found) {
    generator numbers(options.seed);
    const std::size_t width = 2 + below(numbers, 6);
    const std::uint64_t seed = numbers();
    const std::size_t replicas = 1 + below(numbers, 2);
    const bool has_inner = below(numbers, 2) == 0 && options.inner;
    results wanted;
    const auto pipeline = [&](scheduling_policy& pool) {
        generator again(seed);
        world in(pool, again, width);
        device& on = pool.next().owner();
        if (has_inner) in.with.inner = std::make_shared<inner_graph>(compile_inner(on, width, replicas));
        const program what = random_program_of(again, in, options);
        const arguments given = random_arguments(again, width);
        wanted = evaluate(what, given, in.captured, in.selection);
        const shape all{width, width};
        const auto run = [&](auto&& operation) {
            auto [result, downloaded, chosen] = spawn(std::forward<decltype(operation)>(operation), pool).get();
            return results{sync(download(std::move(result)), pool), std::move(downloaded), std::move(chosen)};
        };
        const auto owned = [&] { return sync(upload(values(given.owned), all), pool); };
        const auto read = on_device(given.read, all, pool);
        std::vector<results> got;
        got.push_back(run(make_function(what, in.with)(owned(), read, sync(upload(values(given.host), all), pool),
                                                       given.s, given.k)));
        try {
            const compiled graph = compile_program(on, what, in.with, replicas);
            for (int i = 0; i < 2; ++i) got.push_back(run(graph(owned(), read, given.host, given.s, given.k)));
        } catch (const error& refused) {
            if (!what.may_be_refused || refused.code() != errc::graph_refused) throw;
        }
        for (const results& each : got) {
            if (each != wanted)
                found.failed(options.seed, "simulated", difference("result", wanted.result, each.result));
        }
    };
    guarded(found, options.seed, "simulated", [&] {
        const auto explored = sim::explore(pipeline, {.schedules = 3, .seed = options.seed});
        found.count("simulated schedules", explored.schedules);
        explored.require_clean();
    });
}

}  // namespace sluice::stress
