// SPDX-License-Identifier: Apache-2.0
// Faults of every kind are planted in the pipeline, or between the runtime and the device. The simulator finds each of
// them, and finds nothing in the same pipeline without the fault.
#include <gtest/gtest.h>

#include <array>

#include "sim/pipelines.hpp"
#include "sim/saboteurs.hpp"
#include "sluice/sim/explore.hpp"

namespace sluice::sim::planted_faults_tests {
namespace {

using numbers = std::vector<float>;
using pipeline = std::function<numbers(simulator& machine, scheduling_policy& pool)>;

struct planted_fault {
    std::string name;
    fault expected;
    pipeline faulty;
    std::shared_ptr<saboteur> by = nullptr;  // null: the fault is in the pipeline itself
    pipeline twin = faulty;
    std::shared_ptr<saboteur> twins_saboteur = nullptr;
};
void PrintTo(const planted_fault& each, std::ostream* out) { *out << each.name; }

constexpr std::size_t size = 8;
const shape flat{size};

// Pipelines that are correct unless a saboteur interferes. Streams are numbered in order: a is 0, b is 1, c is 2.

numbers read_after_write(simulator&, scheduling_policy& pool) {
    stream a = pool.next(), b = pool.next();
    const tensor<float> x(a, flat);
    tensor<float> y(b, flat);
    set(b, y, 1);
    set(a, x, 2);
    add(b, x, y);
    return contents(b, std::move(y));
}

numbers write_after_read(simulator&, scheduling_policy& pool) {
    stream a = pool.next(), b = pool.next();
    const tensor<float> x(b, flat);
    tensor<float> y(b, flat);
    set(b, x, 2);
    set(b, y, 1);
    add(b, x, y);
    set(a, x, 3);
    return contents(b, std::move(y));
}

numbers write_after_write(simulator&, scheduling_policy& pool) {
    stream a = pool.next(), b = pool.next();
    tensor<float> x(a, flat);
    set(a, x, 2);
    set(b, x, 3);
    return contents(b, std::move(x));
}

numbers last_of_two_writes(simulator&, scheduling_policy& pool) {
    stream a = pool.next(), b = pool.next(), c = pool.next();
    const tensor<float> x(a, flat), z(c, flat);
    tensor<float> y(b, flat);
    set(b, y, 1);
    set(c, z, 1);
    set(a, x, 2);
    set(a, x, 3);
    add(b, x, y);
    return contents(b, std::move(y));
}

numbers there_and_back(simulator&, scheduling_policy& pool) {
    stream a = pool.next(), b = pool.next();
    tensor<float> x(a, flat);
    const tensor<float> y(b, flat);
    set(b, y, 1);
    set(a, x, 2);
    add(b, x, y);
    add(a, y, x);
    return contents(a, std::move(x));
}

numbers write_again_when_refused(simulator&, scheduling_policy& pool) {
    stream a = pool.next(), b = pool.next();
    tensor<float> x(a, flat);
    set(a, x, 2);
    const std::array accesses{memory_access{x.memory(), access_mode::write}};
    const auto clear = [&] { b.fill({"clear", accesses}, {x.device_data(), 0, x.size_bytes()}); };
    try {
        clear();
    } catch (const error&) {
        clear();
    }
    return contents(b, std::move(x));
}

numbers shared_by_batches(simulator&, scheduling_policy& pool) {
    auto weights = share(upload(ramp(dim * dim), {dim, dim}));
    auto vector = share(upload(ramp(dim)));
    const auto batch = [&](float start) {
        return zip(weights, vector).and_then([start](auto w0, auto w1) {
            return forward(ramp(dim * dim, start), w0, w1);
        });
    };
    auto first = spawn(batch(0), pool);
    auto second = spawn(batch(1), pool);
    numbers all = std::move(first).get();
    const numbers more = std::move(second).get();
    all.insert(all.end(), more.begin(), more.end());
    return all;
}

numbers host_memory_in_turn(simulator&, scheduling_policy& pool) {
    stream a = pool.next();
    host_buffer<float> from(a, size);
    for (float& each : from.write()) each = 1;
    execution_context context(a);
    tensor<float> first = upload(std::move(from), flat).submit(context);
    host_buffer<float> next(a, size);
    for (float& each : next.write()) each = 2;
    tensor<float> second = upload(std::move(next), flat).submit(context);
    add(a, second, first);
    return contents(a, std::move(first));
}

numbers read_by_the_host(simulator&, scheduling_policy& pool) {
    stream a = pool.next();
    const host_buffer<float> to(a, size);
    const std::array accesses{memory_access{to.memory(), access_mode::write}};
    a.fill({"clear", accesses}, {to.device_data(), 0, size * sizeof(float)});
    const auto values = to.read();
    return {values.begin(), values.end()};
}

numbers opened(simulator&, scheduling_policy& pool) { return sync(upload(ramp(size)).and_then(download), pool); }

numbers awaited(simulator& machine, scheduling_policy& pool) {
    const auto body = [](scheduling_policy& on) -> task<numbers> {
        auto first = spawn(zeros<float>(flat).and_then(download), on);
        auto second = spawn(zeros<float>({32 * size}).and_then(download), on);  // in other blocks
        numbers all = co_await std::move(first);
        const numbers more = co_await std::move(second);
        all.insert(all.end(), more.begin(), more.end());
        co_return all;
    };
    return machine.run(body(pool));
}

numbers dropped_and_trimmed(simulator& machine, scheduling_policy& pool) {
    stream a = pool.next();
    {
        const tensor<float> x(a, flat);
        set(a, x, 2);
    }
    machine.device().trim();
    return {};
}

numbers dropped_and_made_anew(simulator&, scheduling_policy& pool) {
    stream a = pool.next(), b = pool.next();
    {
        const tensor<float> x(a, flat);
        set(a, x, 2);
    }
    tensor<float> y(b, flat);
    set(b, y, 3);
    return contents(b, std::move(y));
}

// Pipelines that are wrong themselves, and their correct twins.

numbers copies(scheduling_policy& pool, bool names_source, access_mode destination) {
    stream a = pool.next();
    tensor<float> from(a, flat), to(a, flat);
    set(a, from, 2);
    set(a, to, 1);
    std::vector<memory_access> accesses{{to.memory(), destination}};
    if (names_source) accesses.push_back({from.memory(), access_mode::read});
    a.copy({"relay", accesses},
           {to.device_data(), from.device_data(), to.size_bytes(), copy_direction::device_to_device, {}});
    return contents(a, std::move(to));
}

numbers launches_by_hand(scheduling_policy& pool, bool names_source, access_mode destination) {
    stream a = pool.next(), b = pool.next();
    tensor<float> from(a, flat), to(b, flat);
    set(b, to, 1);
    set(a, from, 2);
    std::vector<memory_access> accesses{{to.memory(), destination}};
    if (names_source) accesses.push_back({from.memory(), access_mode::read});
    struct pointers {
        const float* from;
        float* to;
    };
    const pointers both{from.device_data(), to.device_data()};
    launch_command command;
    command.host_function = [](const void* closure) {
        const auto& [source, target] = *static_cast<const pointers*>(closure);
        for (std::size_t i = 0; i < size; ++i) target[i] += source[i];
    };
    command.closure = &both;
    command.closure_bytes = sizeof(both);
    b.launch({"add by hand", accesses}, command);
    return contents(b, std::move(to));
}

template <typename Make>
numbers added_to(scheduling_policy& pool, Make make) {
    return sync(zip(upload(ramp(size)), std::move(make))
                    .and_then([](auto x, auto y) { return launch(add_all{}, each_of(y), std::move(x), std::move(y)); })
                    .and_then(download),
                pool);
}

numbers cleared(scheduling_policy& pool, bool drops_it) {
    stream a = pool.next();
    tensor<float> x(a, flat);
    set(a, x, 1);
    const std::array accesses{memory_access{x.memory(), access_mode::write}};
    float* const data = x.device_data();
    if (drops_it) x = {};
    a.fill({"clear", accesses}, {data, 0, size * sizeof(float)});
    return {};
}

numbers waits_for(simulator& machine, bool never) {
    const auto body = [](bool suspend) -> task<> {
        if (suspend) co_await std::suspend_always{};
    };
    machine.run(body(never));
    return {};
}

std::vector<planted_fault> all_faults() {
    using std::make_shared;
    return {
        {"missing_wait_before_a_read", fault::race, read_after_write, make_shared<drops_waits>(1)},
        {"missing_wait_of_a_write_for_earlier_reads", fault::race, write_after_read, make_shared<drops_waits>(0)},
        {"missing_wait_of_a_write_for_an_earlier_write", fault::race, write_after_write, make_shared<drops_waits>(1)},
        {"wait_for_a_ticket_too_early", fault::race, last_of_two_writes, make_shared<moves_waits>(1, -1)},
        {"wait_on_the_wrong_stream", fault::race, last_of_two_writes, make_shared<redirects_waits>(2)},
        {"shared_value_used_before_it_is_ready", fault::race, shared_by_batches, make_shared<drops_waits>(1)},
        {"order_forgotten_with_a_refused_command", fault::race, write_again_when_refused,
         make_shared<refuses_once>("clear", true), write_again_when_refused, make_shared<refuses_once>("clear", false)},
        {"memory_reused_without_its_history", fault::race, dropped_and_made_anew,
         make_shared<hands_out_memory_twice>()},
        {"host_memory_reused_while_the_device_reads_it", fault::race, host_memory_in_turn,
         make_shared<completes_too_early>(1)},
        {"host_reads_a_buffer_too_early", fault::early_read, read_by_the_host, make_shared<skips_host_waits>()},
        {"pending_opened_too_early", fault::early_read, opened, make_shared<skips_host_waits>()},
        {"completion_reported_too_early", fault::early_read, awaited, make_shared<completes_too_early>()},
        {"wake_up_lost", fault::lost_wake_up, awaited, make_shared<loses_wake_ups>()},
        {"wait_that_never_ends", fault::lost_wake_up,
         [](simulator& machine, scheduling_policy&) { return waits_for(machine, true); }, nullptr,
         [](simulator& machine, scheduling_policy&) { return waits_for(machine, false); }},
        {"streams_that_wait_for_each_other", fault::deadlock, there_and_back, make_shared<moves_waits>(1, 1)},
        {"memory_freed_too_early", fault::use_after_free, dropped_and_trimmed, make_shared<skips_host_waits>()},
        {"command_names_freed_memory", fault::use_after_free,
         [](simulator&, scheduling_policy& pool) { return cleared(pool, true); }, nullptr,
         [](simulator&, scheduling_policy& pool) { return cleared(pool, false); }},
        {"copy_writes_memory_named_as_read", fault::undeclared_access,
         [](simulator&, scheduling_policy& pool) { return copies(pool, true, access_mode::read); }, nullptr,
         [](simulator&, scheduling_policy& pool) { return copies(pool, true, access_mode::write); }},
        {"copy_reads_memory_not_named", fault::undeclared_access,
         [](simulator&, scheduling_policy& pool) { return copies(pool, false, access_mode::write); }, nullptr,
         [](simulator&, scheduling_policy& pool) { return copies(pool, true, access_mode::write); }},
        {"kernel_writes_memory_named_as_read", fault::undeclared_access,
         [](simulator&, scheduling_policy& pool) { return launches_by_hand(pool, true, access_mode::read); }, nullptr,
         [](simulator&, scheduling_policy& pool) { return launches_by_hand(pool, true, access_mode::write); }},
        {"kernel_reads_memory_not_named", fault::different_result,
         [](simulator&, scheduling_policy& pool) { return launches_by_hand(pool, false, access_mode::write); }, nullptr,
         [](simulator&, scheduling_policy& pool) { return launches_by_hand(pool, true, access_mode::write); }},
        {"uninitialized_memory_is_downloaded", fault::uninitialized_read,
         [](simulator&, scheduling_policy& pool) { return sync(uninitialized<float>(flat).and_then(download), pool); },
         nullptr,
         [](simulator&, scheduling_policy& pool) { return sync(zeros<float>(flat).and_then(download), pool); }},
        {"result_depends_on_uninitialized_memory", fault::different_result,
         [](simulator&, scheduling_policy& pool) { return added_to(pool, uninitialized<float>(flat)); }, nullptr,
         [](simulator&, scheduling_policy& pool) { return added_to(pool, zeros<float>(flat)); }},
    };
}

class planted_faults : public testing::TestWithParam<planted_fault> {
protected:
    static exploration explore_on(const pipeline& what, const std::shared_ptr<saboteur>& by, std::uint64_t seed) {
        simulator machine({.planted = by.get()});
        return explore(machine, [&](scheduling_policy& pool) { return what(machine, pool); },
                       {.schedules = 10'000, .seed = seed});
    }
};
INSTANTIATE_TEST_SUITE_P(, planted_faults, testing::ValuesIn(all_faults()),
                         [](const auto& instance) { return instance.param.name; });

}  // namespace

TEST_P(planted_faults, are_found) {
    const auto made = explore_on(GetParam().faulty, GetParam().by, 1);
    ASSERT_FALSE(made.is_clean());
    EXPECT_EQ(made.found->what, GetParam().expected) << *made.found;
}

TEST_P(planted_faults, are_found_again_by_their_seed) {
    const auto made = explore_on(GetParam().faulty, GetParam().by, 1);
    ASSERT_FALSE(made.is_clean());
    const auto again = explore_on(GetParam().faulty, GetParam().by, made.found->seed);
    ASSERT_FALSE(again.is_clean());
    EXPECT_EQ(to_string(*made.found), to_string(*again.found));
    EXPECT_EQ(again.schedules, 1u);
}

TEST_P(planted_faults, have_faultless_twins) {
    const auto made = explore_on(GetParam().twin, GetParam().twins_saboteur, 1);
    EXPECT_TRUE(made.is_clean()) << *made.found;
    EXPECT_EQ(made.schedules, 10'000u);
}

// Without the first schedule, in the order of submission, which finds most faults by itself.
TEST_P(planted_faults, are_found_in_random_schedules) {
    constexpr std::uint64_t searches = 20;
    std::uint64_t schedules = 0;
    for (std::uint64_t search = 1; search <= searches; ++search) {
        simulator machine({.planted = GetParam().by.get()});
        const auto run = [&](std::uint64_t seed) {
            machine.begin(seed);
            numbers result;
            try {
                round_robin pool(machine.device(), 4);
                result = GetParam().faulty(machine, pool);
            } catch (const std::exception&) {  // it reports a fault that is among the findings
            }
            machine.run_all();
            return result;
        };
        const bool compares = GetParam().expected == fault::different_result;
        const numbers orderly = compares ? run(0) : numbers();
        bool is_found = false;
        for (std::uint64_t tried = 0; !is_found; ++tried, ++schedules) {
            ASSERT_LT(tried, 10'000u);
            const numbers result = run((search << 32) + tried);
            is_found = compares ? result != orderly : !machine.findings().empty();
        }
        if (!compares) {
            EXPECT_EQ(machine.findings().front().what, GetParam().expected) << machine.findings().front();
        }
    }
    RecordProperty("mean_schedules", std::to_string(double(schedules) / searches));
}

}  // namespace sluice::sim::planted_faults_tests
