// SPDX-License-Identifier: Apache-2.0
// Failures and refusals in every order of the commands, and what a report says.
#include <gmock/gmock.h>

#include <array>
#include <stdexcept>

#include "sim/small_pipelines.hpp"

namespace sluice::sim {

using testing::HasSubstr;

TEST(explore, a_reader_of_a_failed_calls_output_gets_the_exception) {
    const auto fails = [](scheduling_policy& pool) {
        return sync(zip(arm(1), arm(2))
                        .and_then([](auto x, auto y) {
                            return call_naming([] { throw std::runtime_error("out of ink"); }, nullptr, x.memory())
                                .and_then([x = std::move(x), y = std::move(y)]() mutable {
                                    return launch(add_all{}, each_of(y), std::move(x), std::move(y));
                                });
                        })
                        .and_then(download),
                    pool);
    };
    const auto made = explore(fails, {.schedules = 100});
    ASSERT_FALSE(made.is_clean());
    EXPECT_EQ(made.found->what, fault::exception);
    EXPECT_THAT(made.found->message, HasSubstr("out of ink"));
    expect_clean([&](scheduling_policy& pool) {
        try {
            fails(pool);
        } catch (const std::runtime_error& failure) {
            return std::string(failure.what());
        }
        throw std::logic_error("got no exception");
    });
}

TEST(explore, a_kernel_that_depends_on_a_failed_call_is_not_run) {
    expect_clean([](scheduling_policy& pool) {
        stream on = pool.next();
        const tensor<float> x(on, flat);
        const std::array accesses{memory_access{x.memory(), access_mode::write}};
        bool ran = false;
        bool* const note = &ran;
        on.host_call({"fail", accesses}, {[] { throw std::runtime_error("out of ink"); }});
        on.launch({"kernel", accesses},
                  {.host_function = [](const void* closure) { **static_cast<bool* const*>(closure) = true; },
                   .closure = &note,
                   .closure_bytes = sizeof(note)});
        on.wait(on.issued(), wait_mode::block);
        if (ran) throw std::logic_error("ran on memory that was never written");
        return 0;
    });
}

TEST(explore, another_operation_that_reads_a_failed_value_gets_the_exception) {
    expect_clean([](scheduling_policy& pool) {
        const auto failing = share(arm(1).and_then([](auto x) {
            return call_naming([] { throw std::runtime_error("out of ink"); }, nullptr, x.memory())
                .and_then([x = std::move(x)]() mutable { return value(std::move(x)); });
        }));
        const auto reader = [&] {
            return zip(failing, arm(2))
                .and_then([](auto w, auto x) { return launch(add_all{}, each_of(x), std::move(w), std::move(x)); })
                .and_then(download);
        };
        spawn(reader(), pool);  // submits the failing command; its result is never requested
        try {
            sync(reader(), pool);
        } catch (const std::runtime_error& failure) {
            return std::string(failure.what());
        }
        throw std::logic_error("got no exception");
    });
    const auto made = explore([](scheduling_policy& pool) {
        const auto failing = share(call_naming([] { throw std::runtime_error("out of ink"); }));
        sync(failing, pool);
    });
    EXPECT_EQ(made.found.value().what, fault::exception);
}

TEST(explore, a_refused_command_leaves_the_order_as_it_was) {
    refuses_once refusal("clear", false);
    expect_clean(
        [](scheduling_policy& pool) {
            stream a = pool.next(), b = pool.next(), c = pool.next();
            const tensor<float> x(a, flat);
            tensor<float> y(c, flat);
            set(c, y, 1);
            set(a, x, 2);
            const std::array accesses{memory_access{x.memory(), access_mode::write}};
            EXPECT_THROW(b.fill({"clear", accesses}, {x.device_data(), 0, x.size_bytes()}), error);
            add(c, x, y);
            return contents(c, std::move(y));
        },
        {.planted = &refusal});
}

TEST(explore, an_unexpected_exception_is_a_finding) {
    const auto throws = []() -> allocate_operation<float> { throw std::runtime_error("no paper"); };
    const auto made = explore(throws, {.schedules = 10});
    ASSERT_FALSE(made.is_clean());
    EXPECT_EQ(made.found->what, fault::exception);
    EXPECT_THROW(made.require_clean(), std::runtime_error);
    EXPECT_TRUE(explore(throws, {.schedules = 10, .exceptions_are_fine = true}).is_clean());
}

TEST(explore, a_report_names_both_commands_their_lines_the_storage_and_the_seed) {
    drops_waits saboteur(1);
    const auto pipeline = [](scheduling_policy& pool) {
        stream a = pool.next(), b = pool.next();
        const auto written = sync_on(zeros<float>(flat), a);
        const tensor<float> read(b, flat);
        set(a, written, 1);
        add(b, written, read);
    };
    const auto made = explore(pipeline, {.schedules = 1, .planted = &saboteur});
    ASSERT_FALSE(made.is_clean());
    const finding& found = *made.found;
    EXPECT_EQ(found.what, fault::race);
    EXPECT_EQ(found.first.name, "set_all");
    EXPECT_EQ(found.first.stream, 0u);
    EXPECT_EQ(found.first.ticket, 2u);
    EXPECT_EQ(found.first.device, "sim:0");
    EXPECT_EQ(found.second.name, "add_all");
    EXPECT_EQ(found.second.stream, 1u);
    EXPECT_EQ(found.second.ticket, 1u);
    EXPECT_THAT(found.second.location, HasSubstr("saboteurs.hpp:"));
    EXPECT_EQ(found.storage, "storage 1 (32 bytes of sim:0)");
    EXPECT_THAT(to_string(found), HasSubstr("race: add_all (sim:0, stream 1, ticket 1, saboteurs.hpp:"));
    EXPECT_THAT(to_string(found), HasSubstr("(seed 0)"));

    const auto uninitialised =
        explore([] { return named("nothing yet", uninitialized<float>(flat).and_then(download)); });
    EXPECT_THAT(to_string(uninitialised.found.value()), HasSubstr("download of 'nothing yet'"));
}

}  // namespace sluice::sim
