// SPDX-License-Identifier: Apache-2.0
// runtime_options::log: which events the program's logger receives, and that a logger cannot break anything.
#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "conformance/backend.hpp"
#include "conformance/kernels.hpp"
#include "sluice/kernels/elementwise.hpp"

namespace sluice::conformance::log_tests {
namespace {

struct noted {
    log_level level;
    log_event event;
    std::string device, name, message;
    std::size_t bytes;
};

class logs : public conformance_test {
protected:
    // What the logger of a runtime received; without a lock, because a runtime makes one call at a time.
    using notes = std::shared_ptr<std::vector<noted>>;

    runtime_options options_with(log_function log) {
        runtime_options all = GetParam().options;
        all.log = std::move(log);
        return all;
    }
    static log_function into(notes all) {
        return [all = std::move(all)](const log_entry& entry) {
            all->push_back({entry.level, entry.event, std::string(entry.device), std::string(entry.name),
                            std::string(entry.message), entry.bytes});
        };
    }
    static std::vector<noted> of(const notes& all, log_event event) {
        std::vector<noted> found;
        std::ranges::copy_if(*all, std::back_inserter(found), [&](const noted& each) { return each.event == event; });
        return found;
    }

    const notes told = std::make_shared<std::vector<noted>>();
};
INSTANTIATE_TEST_SUITE_P(, logs, testing::ValuesIn(enrolled_backends()), backend_name);

auto stepped(unsigned addend) {
    return full<unsigned>({100}, 1)
        .and_then([addend](auto x) { return step(std::move(x), addend); })
        .and_then(download);
}
auto stepped_twice() {
    return full<unsigned>({100}, 1)
        .and_then([](auto x) { return step(std::move(x), 1); })
        .and_then([](auto x) { return step(std::move(x), 2); })
        .and_then(download);
}
using numbers_operation = any_operation<pending<std::vector<unsigned>>>;

}  // namespace

TEST_P(logs, each_device_is_named) {
    const runtime machine(options_with(into(told)));
    const auto found = of(told, log_event::device_found);
    const std::vector<device*> all = machine.devices();
    ASSERT_EQ(found.size(), all.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
        EXPECT_EQ(found[i].device, all[i]->name());
        EXPECT_EQ(found[i].name, all[i]->properties().name);
        EXPECT_EQ(found[i].bytes, all[i]->properties().memory_bytes);
        EXPECT_EQ(found[i].level, log_level::info);
        EXPECT_NE(found[i].message.find(all[i]->name()), std::string::npos) << found[i].message;
    }
    const auto none = of(told, log_event::no_gpu);
    ASSERT_EQ(none.size(), machine.why_no_gpu().empty() ? 0u : 1u);
    for (const noted& each : none) EXPECT_NE(each.message.find(machine.why_no_gpu()), each.message.npos);
}

TEST_P(logs, a_workspace_is_told_when_it_grows) {
    runtime machine(options_with(into(told)));
    single_stream pool(machine.find(GetParam().device));
    const stream home = pool.next();
    static_cast<void>(home.workspace(1000));
    static_cast<void>(home.workspace(100));
    ASSERT_EQ(of(told, log_event::workspace_grown).size(), 1u);
    const std::size_t first = home.workspace(1)->capacity_bytes();
    EXPECT_EQ(of(told, log_event::workspace_grown)[0].bytes, first);
    static_cast<void>(home.workspace(first + 1));
    const auto all = of(told, log_event::workspace_grown);
    ASSERT_EQ(all.size(), 2u);
    EXPECT_EQ(all[1].bytes, home.workspace(1)->capacity_bytes());
    EXPECT_EQ(all[1].device, GetParam().device);
    EXPECT_EQ(all[1].level, log_level::debug);
}

TEST_P(logs, graphs_are_told_when_they_are_instantiated_and_updated) {
    runtime machine(options_with(into(told)));
    device& there = machine.find(GetParam().device);
    round_robin pool(there, 2);
    const auto graph =
        compile(there, {.replicas = 2, .name = "steps"}, std::function<numbers_operation()>([] { return stepped(1); }));
    const auto made = of(told, log_event::graph_instantiated);
    ASSERT_EQ(made.size(), 2u);
    for (const noted& each : made) {
        EXPECT_EQ(each.name, "steps");
        EXPECT_EQ(each.device, there.name());
        EXPECT_EQ(each.level, log_level::debug);
    }
    for (int i = 0; i < 4; ++i) sluice::sync(graph(), pool);
    EXPECT_EQ(told->size(), of(told, log_event::device_found).size() + of(told, log_event::no_gpu).size() + 2)
        << "launches are no events";

    EXPECT_EQ(graph.update([] { return stepped(7); }), graph_change::parameters);
    auto updates = of(told, log_event::graph_updated);
    ASSERT_EQ(updates.size(), 1u);
    EXPECT_EQ(updates[0].level, log_level::debug);
    EXPECT_EQ(updates[0].name, "steps");

    EXPECT_EQ(graph.update([] { return stepped_twice(); }), graph_change::instantiated);
    updates = of(told, log_event::graph_updated);
    ASSERT_EQ(updates.size(), 2u);
    EXPECT_EQ(updates[1].level, log_level::info);
    EXPECT_EQ(of(told, log_event::graph_instantiated).size(), 4u);
}

TEST_P(logs, a_fault_is_told_once_with_its_first_cause) {
    {
        runtime machine(options_with(into(told)));
        device& there = machine.find(GetParam().device);
        there.poison(std::make_exception_ptr(std::runtime_error("the first\ncause")));
        there.poison(std::make_exception_ptr(std::runtime_error("another")));
    }
    // A fault of a GPU is a fault of all GPUs: each is reported.
    const auto all = of(told, log_event::device_fault);
    const auto here = std::ranges::count(all, GetParam().device, &noted::device);
    EXPECT_EQ(here, 1);
    for (const noted& each : all) {
        EXPECT_EQ(each.level, log_level::critical);
        EXPECT_NE(each.message.find("is lost: the first\\x0acause"), std::string::npos) << each.message;
    }
}

TEST_P(logs, a_logger_that_throws_breaks_nothing) {
    int calls = 0;
    runtime machine(options_with([&](const log_entry&) {
        ++calls;
        throw std::runtime_error("the disk is full");
    }));
    device& there = machine.find(GetParam().device);
    single_stream pool(there);
    const auto graph = compile(there, std::function<numbers_operation()>([] { return stepped(1); }));
    const auto before = sluice::sync(stepped(1), pool);
    EXPECT_EQ(sluice::sync(graph(), pool), before);
    static_cast<void>(pool.next().workspace(1000));
    EXPECT_EQ(graph.update([] { return stepped_twice(); }), graph_change::instantiated);
    EXPECT_EQ(sluice::sync(graph(), pool), sluice::sync(stepped_twice(), pool));
    EXPECT_GE(calls, 4);
}

TEST_P(logs, what_happens_inside_the_logger_is_not_told) {
    int calls = 0;
    log_function log;
    log = [&](const log_entry&) {
        ++calls;
        const runtime inner(runtime_options{.cuda = false, .log = log});
    };
    const runtime machine(options_with(log));
    EXPECT_EQ(static_cast<std::size_t>(calls), machine.devices().size() + (machine.why_no_gpu().empty() ? 0 : 1));
}

TEST_P(logs, the_logger_ends_with_the_runtime) {
    std::optional<tensor<unsigned>> outlives;
    {
        runtime machine(options_with(into(told)));
        single_stream pool(machine.find(GetParam().device));
        outlives = sluice::sync(full<unsigned>({100}, 1), pool);
        EXPECT_GT(told.use_count(), 1);
    }
    EXPECT_EQ(told.use_count(), 1);
}

TEST_P(logs, one_call_is_made_at_a_time) {
    runtime machine(options_with(into(told)));
    device& there = machine.find(GetParam().device);
    constexpr std::size_t threads = 4, growths = 5;
    {
        std::vector<std::jthread> all;
        for (std::size_t i = 0; i < threads; ++i) {
            all.emplace_back([&] {
                single_stream pool(there);
                const stream mine = pool.next();
                for (std::size_t n = 0; n < growths; ++n)
                    static_cast<void>(mine.workspace(mine.workspace(1)->capacity_bytes() + 1));
            });
        }
    }
    // A stream that was returned and leased again has its workspace already.
    const std::size_t grown = of(told, log_event::workspace_grown).size();
    EXPECT_GE(grown, threads * growths);
    EXPECT_LE(grown, threads * (growths + 1));
}

}  // namespace sluice::conformance::log_tests
