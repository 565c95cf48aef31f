// SPDX-License-Identifier: Apache-2.0
// Whatever a user's function throws, wherever Sluice calls it: the waiter for that operation receives the exception,
// other operations do not, and nothing leaks.
#include <array>
#include <functional>

#include "conformance/backend.hpp"
#include "conformance/kernels.hpp"
#include "conformance/support/awaiting.hpp"
#include "sluice/async/resume_on.hpp"
#include "sluice/async/thread_pool.hpp"
#include "sluice/kernels/elementwise.hpp"

namespace sluice::conformance::callback_failure_tests {
namespace {

using numbers = std::vector<unsigned>;
constexpr std::size_t size = 200;

class callbacks : public conformance_test {
protected:
    auto work(unsigned start) const {
        return full<unsigned>({size}, start).and_then([rounds = slow()](auto x) {
            return step(std::move(x), 4, rounds);
        });
    }

    callbacks() { sync(zip(work(0), work(1)), pool); }  // loads the kernels

    // The call must throw "mine" each time, while other operations on all streams get their own results. Not a
    // template, because compiling it for each call took a minute for this file.
    void expect_only_caller_fails(const std::function<void()>& call) {
        on.synchronize();
        const std::size_t before = bytes_in_use();
        for (unsigned i = 0; i < 4; ++i) {
            auto left = spawn(work(i).and_then(download), pool);
            auto other = spawn(host_call([i] { return i; }), pool);
            EXPECT_EQ(failure_of(call), "mine");
            auto right = spawn(work(i).and_then(download), pool);
            EXPECT_EQ(std::move(right).get(), numbers(size, 3 * i + 4));
            EXPECT_EQ(std::move(other).get(), i);
            EXPECT_EQ(std::move(left).get(), numbers(size, 3 * i + 4));
        }
        on.synchronize();
        EXPECT_EQ(bytes_in_use(), before);
    }
    // In every way to run the operation.
    template <typename Make>
    void expect_only_operation_fails(Make&& make) {
        expect_only_caller_fails([&] { sync(make(), pool); });
        expect_only_spawned_fails(make);
    }
    // For shared work, which cannot be a graph.
    template <typename Make>
    void expect_only_eager_operation_fails(Make&& make) {
        expect_only_caller_fails([&] { sluice::sync(make(), pool); });
        expect_only_spawned_fails(make);
    }
    template <typename Make>
    void expect_only_spawned_fails(Make&& make) {
        expect_only_caller_fails([&] { static_cast<void>(spawn(make(), pool).get()); });
        expect_only_caller_fails([&] { static_cast<void>(sync_wait(spawn(make(), pool))); });
    }

    round_robin pool{on, 2};
};
INSTANTIATE_TEST_SUITE_P(, callbacks, testing::ValuesIn(enrolled_backends()), backend_name);

[[noreturn]] void fail() { throw std::runtime_error("mine"); }

class failing_policy final : public scheduling_policy {
public:
    failing_policy(scheduling_policy& others, int good) : others_(others), good_(good) {}
    stream next() override {
        if (good_-- <= 0) fail();
        return others_.next();
    }

private:
    scheduling_policy& others_;
    int good_;
};

struct failing_to_move {
    failing_to_move() = default;
    failing_to_move(failing_to_move&& other) : left(other.left - 1) {
        if (left == 0) fail();
    }
    failing_to_move& operator=(failing_to_move&&) = delete;
    int left = 1000;
};

task<> fail_elsewhere(device_future<std::tuple<>> future, executor& target) {
    auto elsewhere = std::move(future).resume_on(target);
    co_await std::move(elsewhere);
    fail();
}

}  // namespace

TEST_P(callbacks, in_and_then_may_throw) {
    expect_only_operation_fails([&] { return work(1).and_then(throwing()); });
    expect_only_operation_fails([&] {
        return work(1).and_then([this](auto x) { return step(std::move(x), 2, slow()); }).and_then(throwing());
    });
}

TEST_P(callbacks, in_transform_may_throw) {
    expect_only_operation_fails([&] { return work(1).transform([](auto) -> int { fail(); }); });
}

TEST_P(callbacks, in_with_context_may_throw) {
    expect_only_operation_fails([&] {
        return zip(work(1), with_context([](execution_context& context) -> int {
                       const tensor<float> scratch(context.stream(), {1000});
                       fail();
                   }));
    });
}

TEST_P(callbacks, in_host_call_may_throw) {
    expect_only_operation_fails([&] { return zip(work(1), host_call([] { fail(); })); });
    expect_only_operation_fails([&] {
        return work(1).and_then(download).and_then(
            [](auto landed) { return host_call([](const numbers&) -> int { fail(); }, std::move(landed)); });
    });
}

TEST_P(callbacks, in_a_host_call_between_others_may_throw) {
    expect_only_operation_fails([&] {
        return host_call([] { return 1u; })
            .and_then([](auto x) { return host_call([](unsigned) -> unsigned { fail(); }, std::move(x)); })
            .and_then([](auto x) { return host_call([](unsigned y) { return y; }, std::move(x)); });
    });
}

TEST_P(callbacks, in_a_library_call_may_throw) {
    expect_only_operation_fails([&] {
        return zip(work(1), with_context([](execution_context& context) {
                       context.stream().library_call({"broken"},
                                                     {[](const native_stream&, const void*) { fail(); }, nullptr, 0});
                   }));
    });
}

TEST_P(callbacks, in_or_else_may_throw) {
    expect_only_operation_fails([&] {
        return zip(work(1), failing_number("other")).or_else([this](std::exception_ptr) {
            fail();
            return zip(work(1), failing_number("never"));
        });
    });
    expect_only_operation_fails([&] {
        return work(1).and_then(throwing{"other"}).or_else([this](std::exception_ptr) {
            return work(2).and_then(throwing());
        });
    });
}

TEST_P(callbacks, after_a_recovery_may_throw) {
    const auto recovered = [this] {
        return work(1).and_then(throwing{"other"}).or_else([this](std::exception_ptr) { return work(2); });
    };
    expect_only_operation_fails([&] { return recovered().and_then(throwing()); });
    expect_only_operation_fails([&] { return recovered().transform([](auto) -> int { fail(); }); });
    expect_only_operation_fails([&] { return zip(recovered(), work(1).and_then(throwing()), recovered()); });
}

TEST_P(callbacks, in_retry_may_throw) {
    expect_only_operation_fails([&] { return retry(3, [this] { return work(1).and_then(throwing()); }); });
    expect_only_operation_fails([&] {
        return retry(3, [this] {
            fail();
            return work(1);
        });
    });
    expect_only_operation_fails([&] {
        return retry(
            3, [this] { return zip(work(1), failing("other")); }, [](const std::exception_ptr&) -> bool { fail(); });
    });
}

TEST_P(callbacks, under_a_timeout_may_throw) {
    using namespace std::chrono_literals;
    expect_only_operation_fails([&] { return timeout(work(1).and_then(throwing()), 1h); });
    expect_only_operation_fails([&] { return timeout(zip(work(1), host_call([] { fail(); })), 1h); });
}

TEST_P(callbacks, in_a_policy_may_throw) {
    for (const int good : {0, 1}) {
        expect_only_caller_fails([&] {
            failing_policy mine(pool, good);
            const auto heavy = [this](unsigned start) {
                return with_context([this, start](execution_context&) { return work(start); }, branch_threshold);
            };
            sync(zip(heavy(1), heavy(2)), mine);
        });
        expect_only_caller_fails([&] {
            failing_policy mine(pool, good);
            spawn(work(1).or_else([this](std::exception_ptr) { return work(2); }), mine).get();
            fail();  // throws the expected exception when no branch was needed
        });
    }
}

TEST_P(callbacks, inside_share_and_unzip_may_throw) {
    expect_only_eager_operation_fails([&] { return share(work(1).and_then(throwing())); });
    expect_only_eager_operation_fails([&] { return share(zip(work(1), host_call([] { fail(); }))); });
    expect_only_eager_operation_fails([&] {
        auto [left, right] = unzip(zip(work(1), host_call([]() -> int { fail(); })));
        return zip(std::move(right), std::move(left));
    });
}

TEST_P(callbacks, inside_named_and_any_operation_may_throw) {
    expect_only_operation_fails([&] { return named("mine", work(1).and_then(throwing())); });
    expect_only_operation_fails([&] { return any_operation<tensor<unsigned>>(work(1).and_then(throwing())); });
}

TEST_P(callbacks, may_return_a_value_whose_move_throws) {
    for (int moves = 1; moves < 12; ++moves) {
        on.synchronize();
        const std::size_t before = bytes_in_use();
        const auto call = [&] {
            auto made = host_call([moves] {
                failing_to_move value;
                value.left = moves + 1;
                return value;
            });
            static_cast<void>(spawn(zip(std::move(made), work(1)), pool).get());
        };
        const std::string told = failure_of(call);
        EXPECT_TRUE(told == "mine" || told.empty()) << told;
        on.synchronize();
        EXPECT_EQ(bytes_in_use(), before);
    }
}

TEST_P(callbacks, in_a_coroutine_resumed_on_an_executor_may_throw) {
    thread_pool threads(1);
    expect_only_caller_fails([&] { sync_wait(fail_elsewhere(spawn(host_call([] {}), pool), threads)); });
}

TEST_P(callbacks, may_pass_arguments_that_do_not_fit_a_kernel) {
    on.synchronize();
    const std::size_t before = bytes_in_use();
    for (int i = 0; i < 5; ++i) {
        auto both = zip(work(1), work(2)).and_then([](auto x, auto y) {
            auto w = shared_tensor<unsigned>(std::move(y));
            auto wrong = std::move(x).reshape({size / 2 + 1});  // another size
            return add(std::move(w), std::move(wrong));
        });
        EXPECT_NE(failure_of([&] { sync(std::move(both), pool); }), "");
        EXPECT_EQ(sync(work(1).and_then(download), pool), numbers(size, 7));
    }
    EXPECT_EQ(bytes_in_use(), before);
}

}  // namespace sluice::conformance::callback_failure_tests
