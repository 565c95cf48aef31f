// SPDX-License-Identifier: Apache-2.0
// A failure follows the data: readers of the data that a failed command should have written receive it, and no other
// operation does.
#include <array>
#include <latch>
#include <memory>
#include <optional>

#include "conformance/backend.hpp"
#include "conformance/kernels.hpp"
#include "conformance/support/awaiting.hpp"
#include "runtime/completion_service.hpp"
#include "sluice/kernels/elementwise.hpp"
#include "support/million.hpp"

namespace sluice::conformance::failure_tests {
namespace {

using numbers = std::vector<unsigned>;
constexpr std::size_t size = 200;

class failures : public conformance_test {
protected:
    failures() {
        sync(full<unsigned>({size}, 1).and_then([](auto x) { return step(std::move(x), 1); }), pool);
    }

    tensor<unsigned> ones() { return submit_to(a, full<unsigned>({size}, 1)); }
    // A command that should have written x.
    static void fail_to_write(stream on, const tensor<unsigned>& x, std::string message = "mine") {
        const std::array accesses{memory_access{x.memory(), access_mode::write}};
        on.host_call({"fail", accesses}, {[message = std::move(message)] { throw std::runtime_error(message); }});
    }
    // A command that reads x and records that it ran.
    static auto read(tensor<unsigned>& x, bool& ran) {
        return with_context([&](execution_context& context) {
            const std::array accesses{memory_access{x.memory(), access_mode::read}};
            context.stream().host_call({"read", accesses}, {[&ran] { ran = true; }});
        });
    }
    std::string error_of_reader(tensor<unsigned>& x, stream reader) {
        bool ran = false;
        const std::string told = failure_of(spawn_on(reader, read(x, ran)));
        EXPECT_EQ(ran, told.empty());
        return told;
    }

    round_robin pool{on, 3};
    stream a = pool.next();
    stream b = pool.next();
    stream c = pool.next();
};
INSTANTIATE_TEST_SUITE_P(, failures, testing::ValuesIn(enrolled_backends()), backend_name);

unsigned first_of(const numbers& all) { return all.front(); }

// Posted to the completion thread, which runs what was posted before first.
class completion_thread_has_run : public work_item {
public:
    completion_thread_has_run()
        : work_item([](work_item& self) noexcept { static_cast<completion_thread_has_run&>(self).ran_.count_down(); }) {
    }
    void wait() { ran_.wait(); }

private:
    std::latch ran_{1};
};

}  // namespace

TEST_P(failures, a_reader_on_the_same_stream_receives_the_failure_and_does_not_run) {
    auto x = ones();
    fail_to_write(a, x);
    EXPECT_EQ(error_of_reader(x, a), "mine");
    EXPECT_EQ(failure_of([&] { contents(std::move(x), a); }), "mine");
}

TEST_P(failures, a_reader_on_another_stream_receives_the_failure_and_does_not_run) {
    auto x = ones();
    fail_to_write(a, x);
    EXPECT_EQ(error_of_reader(x, b), "mine");
    EXPECT_EQ(error_of_reader(x, c), "mine");
}

TEST_P(failures, it_makes_no_difference_whether_the_failure_is_known_already) {
    NEEDS_A_GATE();
    auto x = ones(), y = ones();
    on.synchronize();
    gate held(a);
    fail_to_write(a, x);
    bool ran = false;
    auto unknown_yet = spawn_on(b, read(x, ran));
    held.open();
    EXPECT_EQ(failure_of(std::move(unknown_yet)), "mine");
    on.synchronize();
    EXPECT_EQ(error_of_reader(x, b), "mine");
    EXPECT_FALSE(ran);
}

TEST_P(failures, a_failure_reaches_everything_computed_from_the_data) {
    auto x = ones(), y = ones(), z = ones();
    fail_to_write(a, x);
    relay_on(b, x, y);
    step_on(b, y, 1);
    relay_on(c, y, z);
    EXPECT_EQ(error_of_reader(y, a), "mine");
    EXPECT_EQ(error_of_reader(z, b), "mine");
    auto landed = download(std::move(z)).and_then([](auto all) { return host_call(first_of, std::move(all)); });
    EXPECT_EQ(failure_of(spawn(std::move(landed).and_then([](auto n) {
                  return host_call([](unsigned number) { return number + 1; }, std::move(n));
              }),
                               pool)),
              "mine");
}

TEST_P(failures, a_cpu_does_not_run_commands_that_depend_on_a_failed_one) {
    if (!on.shares_host_memory()) GTEST_SKIP() << "a GPU runs every submitted command";
    auto x = ones(), y = ones();
    on.synchronize();
    const unsigned* const in_place = y.device_data();
    fail_to_write(a, x);
    relay_on(a, x, y);
    step_on(a, y, 1);
    on.synchronize();
    EXPECT_EQ(*in_place, 1u);
}

TEST_P(failures, other_work_on_the_same_stream_does_not_receive_it) {
    auto x = ones(), y = ones();
    auto before = spawn_on(a, step(std::move(y), 1).and_then(download));
    fail_to_write(a, x);
    auto after = spawn_on(a, full<unsigned>({size}, 2).and_then(download));
    EXPECT_EQ(std::move(after).get(), numbers(size, 2));
    EXPECT_EQ(std::move(before).get(), numbers(size, 4));
}

TEST_P(failures, an_earlier_reader_does_not_receive_it) {
    auto x = ones();
    bool ran = false;
    auto before = spawn_on(b, read(x, ran));
    fail_to_write(a, x);
    EXPECT_EQ(failure_of(std::move(before)), "");
    EXPECT_TRUE(ran);
}

TEST_P(failures, a_failed_reader_leaves_the_data_valid) {
    auto x = ones();
    on.synchronize();
    const std::array accesses{memory_access{x.memory(), access_mode::read}};
    a.host_call({"fail", accesses}, {[] { throw std::runtime_error("mine"); }});
    EXPECT_EQ(error_of_reader(x, a), "");
    EXPECT_EQ(error_of_reader(x, b), "");
    EXPECT_EQ(contents(std::move(x), b), numbers(size, 1));
}

TEST_P(failures, the_first_of_two_failures_is_reported) {
    auto x = ones(), y = ones();
    fail_to_write(a, x, "first");
    fail_to_write(a, y, "second");
    bool ran = false;
    auto both = with_context([&](execution_context& context) {
        const std::array accesses{memory_access{x.memory(), access_mode::read},
                                  memory_access{y.memory(), access_mode::read}};
        context.stream().host_call({"read", accesses}, {[&ran] { ran = true; }});
    });
    EXPECT_EQ(failure_of(spawn_on(a, std::move(both))), "first");
    EXPECT_FALSE(ran);
}

TEST_P(failures, a_host_call_whose_argument_failed_is_not_run) {
    bool ran = false;
    auto chain =
        failing_number("mine").and_then([&](auto x) { return host_call([&](unsigned) { ran = true; }, std::move(x)); });
    EXPECT_EQ(failure_of(spawn(std::move(chain), pool)), "mine");
    EXPECT_FALSE(ran);
}

TEST_P(failures, a_failure_of_a_nested_submission_reaches_the_whole) {
    auto whole = with_context([](execution_context& context) {
        execution_context nested(context.stream());
        std::move(failing("mine")).submit(nested);
    });
    EXPECT_EQ(failure_of(spawn(std::move(whole), pool)), "mine");
    // A failure of an independent submission does not.
    std::optional<device_future<std::tuple<>>> aside;
    auto other = with_context([&](execution_context& context) {
        execution_context own(stream(context.stream().queue()));
        static_cast<void>(failing("aside").submit(own));
        aside.emplace(own.submission(), std::tuple<>());
    });
    EXPECT_EQ(failure_of(spawn(std::move(other), pool)), "");
    EXPECT_EQ(failure_of(std::move(*aside)), "aside");
}

TEST_P(failures, other_threads_on_the_same_stream_do_not_receive_it) {
    std::vector<std::jthread> threads;
    for (unsigned id = 0; id < 4; ++id) {
        threads.emplace_back([this, id] {
            for (unsigned i = 0; i < 100; ++i) {
                const std::string mine = std::to_string(id) + "." + std::to_string(i);
                auto broken = spawn_on(a, failing(mine));
                auto fine = spawn_on(a, host_call([i] { return i; }));
                ASSERT_EQ(failure_of(std::move(broken)), mine);
                ASSERT_EQ(std::move(fine).get(), i);
            }
        });
    }
}

TEST_P(failures, a_workspace_carries_no_failure_to_its_next_user) {
    const storage_ref scratch = a.workspace(1000);
    const std::array accesses{memory_access{scratch.get(), access_mode::write}};
    const auto use = [&](bool fails) {
        return with_context([&, fails](execution_context& context) {
            context.stream().host_call({"use", accesses}, {[fails] {
                                           if (fails) throw std::runtime_error("mine");
                                       }});
        });
    };
    auto broken = spawn_on(a, use(true));
    auto fine = spawn_on(a, use(false));
    EXPECT_EQ(failure_of(std::move(fine)), "");
    EXPECT_EQ(failure_of(std::move(broken)), "mine");
    EXPECT_EQ(failure_of(spawn_on(a, use(false))), "");
    a.workspace(100'000);  // grown
    EXPECT_EQ(failure_of(spawn_on(a, use(false))), "");
}

TEST_P(failures, a_reader_of_a_failed_library_calls_output_receives_the_failure) {
    auto x = ones(), y = ones();
    const std::array accesses{memory_access{x.memory(), access_mode::write}};
    const std::string thrown = failure_of([&] {
        a.library_call({"fail", accesses},
                       {[](const native_stream&, const void*) { throw std::runtime_error("mine"); }, nullptr, 0});
    });
    EXPECT_EQ(thrown, on.interpreter().runs_library_calls_later() ? "" : "mine");
    relay_on(b, x, y);
    EXPECT_EQ(error_of_reader(x, a), "mine");
    EXPECT_EQ(error_of_reader(y, b), "mine");
    EXPECT_EQ(failure_of([&] { contents(std::move(x), b); }), "mine");
}

TEST_P(failures, reused_memory_carries_no_failure) {
    NEEDS_A_GATE();
    auto x = ones();
    on.synchronize();
    const unsigned* const block = x.device_data();
    gate held(a);
    fail_to_write(a, x);
    x = {};
    auto again = submit_to(a, full<unsigned>({size}, 3));
    ASSERT_EQ(again.device_data(), block);
    auto future = spawn_on(a, download(std::move(again)));
    held.open();
    EXPECT_EQ(std::move(future).get(), numbers(size, 3));
}

TEST_P(failures, a_failure_passes_through_a_long_chain_in_place) {
    NEEDS_A_GATE();
    const unsigned length = max_queued_after_gate(on.kind() == device_kind::cpu ? test_support::million / 10
                                                                                : 300);  // a GPU's queue is short
    for (const bool fails : {false, true}) {
        auto x = ones();
        gate held(a);
        if (fails) fail_to_write(a, x);
        std::atomic<unsigned> ran = 0;
        const std::array accesses{memory_access{x.memory(), access_mode::write}};
        for (unsigned i = 0; i < length; ++i) a.host_call({"link", accesses}, {[&ran] { ++ran; }});
        bool read_it = false;
        auto last = spawn_on(a, read(x, read_it));
        held.open();
        EXPECT_EQ(failure_of(std::move(last)), fails ? "mine" : "");
        EXPECT_EQ(ran, fails ? 0u : length);
    }
}

TEST_P(failures, an_operation_of_many_commands_reports_a_failure_of_any_of_them) {
    constexpr int length = test_support::million / 50;
    for (const int failing_one : {0, length / 2, length - 1}) {
        auto many = with_context([=](execution_context& context) {
            for (int i = 0; i < length; ++i) {
                context.stream().host_call({"one"}, {[i, failing_one] {
                                               if (i == failing_one) throw std::runtime_error("mine");
                                           }});
            }
        });
        EXPECT_EQ(failure_of(spawn(std::move(many), pool)), "mine") << failing_one;
    }
}

// A device is lost also where another one has faulted: then it may still carry out its commands.
TEST_P(failures, what_a_copy_uses_lives_until_the_copy_is_over_although_the_device_is_lost) {
    NEEDS_A_GATE();
    auto x = ones(), y = ones();
    auto owner = std::make_shared<int>(1);
    const std::weak_ptr<int> watched = owner;
    gate held(a);
    const std::array accesses{memory_access{x.memory(), access_mode::write},
                              memory_access{y.memory(), access_mode::read}};
    a.copy({"copy", accesses}, {x.memory()->data(), y.memory()->data(), size * sizeof(unsigned),
                                copy_direction::device_to_device, std::move(owner)});
    held.wait_until_reached();
    on.poison(std::make_exception_ptr(device_error(errc::device_failed, "planted")));
    completion_thread_has_run after_the_report;
    on.service().post(after_the_report);
    after_the_report.wait();
    EXPECT_FALSE(watched.expired());
    held.open();
}

}  // namespace sluice::conformance::failure_tests
