// SPDX-License-Identifier: Apache-2.0
// Compiled graphs on the simulator: correct graphs are clean in every order of their nodes, and faults inside a graph
// or around its launches are found.
#include <gmock/gmock.h>

#include <cstring>

#include "sim/pipelines.hpp"
#include "sim/saboteurs.hpp"
#include "sluice/runtime/command_graph.hpp"
#include "sluice/sim/explore.hpp"

namespace sluice::sim::graph_tests {
namespace {

using numbers = std::vector<float>;
constexpr std::size_t size = 8;
const shape flat{size};

auto added(shared_tensor<float> from, tensor<float> to) {
    const auto all = each_of(to);
    return launch(add_all{}, all, std::move(from), std::move(to));
}
auto copied(shared_tensor<float> from) {
    return zeros<float>(from->shape()).and_then([from](auto to) { return added(from, std::move(to)); });
}

struct copy_all {
    SLUICE_KERNEL void operator()(index_1d at, view<const float> from, disjoint_view<float> to) const {
        if (float* element = to.at(at)) *element = from[at.value()];
    }
};
// The same, but the destination is not written before.
auto relayed(shared_tensor<float> from) {
    return uninitialized<float>(from->shape()).and_then([from](auto to) {
        const auto all = each_of(to);
        return launch(copy_all{}, all, from, std::move(to));
    });
}

// Two arms, each from its own input through its own memory, and the sum of both.
auto two_arms(tensor<float> x, tensor<float> y) {
    return zip(copied(shared(std::move(x))), copied(shared(std::move(y))))
        .and_then([](auto a, auto b) { return added(shared(std::move(a)), std::move(b)); })
        .and_then(download);
}

auto compiled_arms(scheduling_policy& pool, graph_options options = {}) {
    return compile(pool, std::move(options), two_arms, host_input<float>(flat), host_input<float>(flat));
}

// Several launches in flight at once, on streams in round-robin order.
numbers run_arms(scheduling_policy& pool, std::size_t replicas) {
    const auto fast = compiled_arms(pool, {.replicas = replicas});
    std::vector<device_future<pending<numbers>>> running;
    for (int i = 0; i < 4; ++i) running.push_back(spawn(fast(ramp(size, float(i)), ramp(size)), pool));
    numbers all;
    for (auto& each : running) {
        const numbers one = std::move(each).get();
        all.insert(all.end(), one.begin(), one.end());
    }
    return all;
}

numbers expected_of_arms() {
    numbers all;
    for (int i = 0; i < 4; ++i) {
        const numbers x = ramp(size, float(i));
        const numbers y = ramp(size);
        for (std::size_t j = 0; j < size; ++j) all.push_back(x[j] + y[j]);
    }
    return all;
}

template <typename Pipeline>
finding fault_of(Pipeline pipeline, saboteur* planted = nullptr) {
    const exploration made = explore(pipeline, {.schedules = 1'000, .planted = planted});
    if (made.is_clean()) throw std::logic_error("nothing was found");
    return *made.found;
}

}  // namespace

TEST(graphs, are_clean_and_give_the_same_result_in_any_order_of_their_nodes) {
    for (const std::size_t replicas : {std::size_t{1}, std::size_t{2}}) {
        const auto pipeline = [&](scheduling_policy& pool) { return run_arms(pool, replicas); };
        const exploration made = explore(pipeline, {.schedules = 2'000});
        EXPECT_TRUE(made.is_clean()) << *made.found;
        simulator machine;
        EXPECT_EQ(run_arms(machine.pool(), replicas), expected_of_arms());
    }
}

TEST(graphs, report_the_breakdown_of_their_device) {
    const auto pipeline = [](scheduling_policy& pool) { return run_arms(pool, 2); };
    const exploration made = explore(pipeline, {.schedules = 1'000, .with_device_faults = true});
    EXPECT_TRUE(made.is_clean()) << *made.found;
    EXPECT_GT(made.faults, 500u);
}

// Host calls that share nothing run in one order, eagerly and in a graph, in every schedule.
TEST(graphs, host_calls_that_share_no_data_keep_their_order) {
    for (const bool compiled : {false, true}) {
        const exploration made = explore(
            [compiled](scheduling_policy& pool) {
                std::string order;
                const auto note = [&order](char what) { return host_call([&order, what] { order += what; }); };
                const auto work = [note] {
                    return note('a').and_then([note] { return note('b'); }).and_then([note] {
                        return zeros<float>(flat).and_then(download).and_then(
                            [note](auto landed) { return zip(note('c'), value(std::move(landed)), note('d')); });
                    });
                };
                if (compiled) {
                    sync(compile(pool, work)(), pool);
                } else {
                    sync(work(), pool);
                }
                return order;
            },
            {.schedules = 500});
        EXPECT_TRUE(made.is_clean()) << *made.found;
    }
}

TEST(graphs, with_host_calls_and_held_outputs_are_clean) {
    const auto pipeline = [](scheduling_policy& pool) {
        const auto sum = compile(
            pool,
            [](tensor<float> x) {
                return download(std::move(x)).and_then([](auto landed) {
                    return host_call(
                        [](const numbers& all) {
                            float made = 0;
                            for (const float each : all) made += each;
                            return made;
                        },
                        std::move(landed));
                });
            },
            device_input<float>(flat));
        const auto step =
            compile(pool, [](shared_tensor<float> x) { return copied(std::move(x)); }, shared_input<float>(flat));
        auto first = sync(upload(ramp(size)).and_then([&](auto x) { return step(std::move(x)); }), pool);
        auto held = shared(std::move(first));
        std::vector<device_future<pending<float>>> running;
        for (int i = 0; i < 3; ++i)
            running.push_back(spawn(step(held).and_then([sum](auto x) { return sum(std::move(x)); }), pool));
        numbers sums;
        for (auto& each : running) sums.push_back(std::move(each).get());
        return sums;
    };
    const exploration made = explore(pipeline, {.schedules = 1'000});
    EXPECT_TRUE(made.is_clean()) << *made.found;
}

// Both launches in the outer graph use the inner one's block of temporaries.
TEST(graphs, inside_a_graph_are_ordered_by_the_memory_that_they_share) {
    const auto pipeline = [](scheduling_policy& pool) {
        const auto inner = compile(
            pool,
            [](tensor<float> x) {
                return relayed(shared(std::move(x)))
                    .and_then([](auto a) { return relayed(shared(std::move(a))); })
                    .and_then([](auto b) { return relayed(shared(std::move(b))); })
                    .and_then([](auto c) { return relayed(shared(std::move(c))); });
            },
            device_input<float>(flat));
        if (inner.memory_bytes() != 2 * 256) throw std::logic_error("the inner graph's temporaries share no bytes");
        const auto outer = compile(
            pool,
            [inner](tensor<float> x, tensor<float> y) {
                return zip(inner(std::move(x)), inner(std::move(y)))
                    .and_then([](auto a, auto b) { return added(shared(std::move(a)), std::move(b)); })
                    .and_then(download);
            },
            host_input<float>(flat), host_input<float>(flat));
        return sync(outer(ramp(size, 1), ramp(size, 2)), pool);
    };
    const exploration made = explore(pipeline, {.schedules = 1'000});
    EXPECT_TRUE(made.is_clean()) << *made.found;
}

namespace {

// Removes the n-th edge of each graph.
class drops_edge final : public saboteur {
public:
    explicit drops_edge(std::size_t which) : which_(which) {}
    void spoils(command_graph& graph) override {
        std::size_t seen = 0;
        for (graph_node& node : graph.nodes) {
            if (which_ < seen + node.after.size() && which_ >= seen)
                return static_cast<void>(node.after.erase(node.after.begin() + static_cast<long>(which_ - seen)));
            seen += node.after.size();
        }
        is_beyond = true;
    }
    bool is_beyond = false;

private:
    std::size_t which_;
};

// Places the destination of the second upload at the address of the first, in the whole graph, like a planner that
// believes the first to be unused before the second begins.
class overlaps_temporaries final : public saboteur {
public:
    void spoils(command_graph& graph) override {
        std::vector<std::uintptr_t> uploads;
        for (const graph_node& node : graph.nodes) {
            const auto* const copy = std::get_if<copy_command>(&node.what);
            if (copy != nullptr && copy->direction == copy_direction::host_to_device)
                uploads.push_back(reinterpret_cast<std::uintptr_t>(copy->destination));
        }
        ASSERT_EQ(uploads.size(), 2u);
        const auto moved = [&](std::uintptr_t word) {
            return word >= uploads[1] && word < uploads[1] + size * sizeof(float) ? word - uploads[1] + uploads[0]
                                                                                  : word;
        };
        for (graph_node& node : graph.nodes) {
            if (auto* const copy = std::get_if<copy_command>(&node.what)) {
                copy->destination = reinterpret_cast<void*>(moved(reinterpret_cast<std::uintptr_t>(copy->destination)));
                copy->source = reinterpret_cast<void*>(moved(reinterpret_cast<std::uintptr_t>(copy->source)));
            }
            const auto closure = graph.closure(node);
            for (std::size_t at = 0; at + sizeof(std::uintptr_t) <= closure.size(); at += sizeof(std::uintptr_t)) {
                std::uintptr_t word = 0;
                std::memcpy(&word, closure.data() + at, sizeof(word));
                word = moved(word);
                std::memcpy(closure.data() + at, &word, sizeof(word));
            }
        }
    }
};

// Removes the first upload of each graph, so its destination is read without having been written.
class drops_a_write final : public saboteur {
public:
    void spoils(command_graph& graph) override {
        for (graph_node& node : graph.nodes) {
            const auto* const copy = std::get_if<copy_command>(&node.what);
            if (copy == nullptr || copy->direction != copy_direction::host_to_device) continue;
            node.what = fill_command{nullptr, 0, 0};
            node.writes.clear();
            return;
        }
    }
};

}  // namespace

// Every edge is necessary: whichever is missing is found.
TEST(graphs, with_any_edge_missing_are_a_race) {
    std::size_t edges = 0;
    for (;; ++edges) {
        drops_edge planted(edges);
        const auto pipeline = [](scheduling_policy& pool) { return run_arms(pool, 1); };
        const exploration made = explore(pipeline, {.schedules = 100, .planted = &planted});
        if (planted.is_beyond) {
            EXPECT_TRUE(made.is_clean()) << *made.found;
            break;
        }
        ASSERT_FALSE(made.is_clean()) << "edge " << edges;
        EXPECT_EQ(made.found->what, fault::race) << *made.found;
        EXPECT_THAT(made.found->message, testing::HasSubstr("no edge orders them"));
    }
    EXPECT_GE(edges, 7u);
}

TEST(graphs, whose_temporaries_overlap_in_time_and_space_are_a_race) {
    overlaps_temporaries planted;
    const finding found = fault_of([](scheduling_policy& pool) { return run_arms(pool, 1); }, &planted);
    EXPECT_EQ(found.what, fault::race) << found;
    EXPECT_EQ(found.first.name, "upload");
    EXPECT_FALSE(found.storage.empty());
}

TEST(graphs, that_read_memory_that_no_node_has_written_are_found) {
    drops_a_write planted;
    const finding found = fault_of([](scheduling_policy& pool) { return run_arms(pool, 1); }, &planted);
    EXPECT_EQ(found.what, fault::uninitialized_read) << found;
}

TEST(graphs, that_are_launched_without_a_wait_are_a_race) {
    const auto pipeline = [](scheduling_policy& pool) {
        const auto step = compile(
            pool.next().owner(), [](shared_tensor<float> x) { return copied(std::move(x)); },
            shared_input<float>(flat));
        stream a = pool.next(), b = pool.next();
        tensor<float> x(a, flat);
        set(a, x, 2);
        execution_context context(b);
        return contents(b, step(std::move(x)).submit(context));
    };
    EXPECT_TRUE(explore(pipeline, {.schedules = 1'000}).is_clean());
    drops_waits planted(2);
    EXPECT_EQ(fault_of(pipeline, &planted).what, fault::race);
}

TEST(graphs, whose_replicas_are_reused_without_a_wait_are_a_race) {
    drops_waits planted(2);
    EXPECT_EQ(fault_of([](scheduling_policy& pool) { return run_arms(pool, 1); }, &planted).what, fault::race);
}

}  // namespace sluice::sim::graph_tests
