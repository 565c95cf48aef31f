// SPDX-License-Identifier: Apache-2.0
// keep: an object lives until the device is done with the operation that needs it, and no longer than that.
#include <optional>
#include <stdexcept>
#include <thread>

#include "conformance/backend.hpp"
#include "conformance/expect_refused.hpp"
#include "conformance/kernels.hpp"

namespace sluice::conformance::keep_tests {
namespace {

// Says when it is destroyed. Copies share one answer.
struct end_note {
    explicit end_note(std::shared_ptr<std::atomic<bool>> is_gone) : gone(std::move(is_gone)) {}
    end_note(const end_note&) = delete;
    end_note& operator=(const end_note&) = delete;
    ~end_note() { *gone = true; }
    std::shared_ptr<std::atomic<bool>> gone;
};

auto three_steps(tensor<unsigned> x) {
    return step(std::move(x), 0).and_then([](auto y) { return step(std::move(y), 0); }).and_then([](auto y) {
        return step(std::move(y), 0);
    });
}

// False when it takes too long.
template <typename Function>
bool comes_true(Function is_true) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!is_true() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    return is_true();
}

class keeping : public conformance_test {
protected:
    // Loads the kernels and fills the pools, so that no call waits for the device while a stream is held.
    keeping() {
        round_robin pool(on, 2);
        for (int i = 0; i < 2; ++i) {
            const stream each = pool.next();
            auto x = submit_to(each, full<unsigned>({4}, 1).and_then(three_steps));
            set_on(each, x, 3);
            contents(std::move(x), each);
        }
    }
};
INSTANTIATE_TEST_SUITE_P(, keeping, testing::ValuesIn(enrolled_backends()), backend_name);

}  // namespace

TEST_P(keeping, an_object_lives_until_its_commands_are_over) {
    NEEDS_A_GATE();
    const auto gone = std::make_shared<std::atomic<bool>>(false);
    const stream_lease held(on);
    auto x = submit_to(*held, full<unsigned>({4}, 1));
    gate closed(*held);
    x = submit_to(*held, keep(std::make_shared<const end_note>(gone), three_steps(std::move(x))));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_FALSE(*gone);
    closed.open();
    EXPECT_TRUE(comes_true([&] { return gone->load(); }));
    EXPECT_EQ(contents(std::move(x), *held), std::vector<unsigned>(4, 27));
}

TEST_P(keeping, an_object_lives_until_a_native_call_is_over) {
    NEEDS_A_GATE();
    const auto gone = std::make_shared<std::atomic<bool>>(false);
    const stream_lease held(on);
    const shared_tensor<unsigned> from(submit_to(*held, full<unsigned>({4}, 7)));
    const auto copied = [&](tensor<unsigned> to) {
        const auto by_hand = [](const native_stream& home, const unsigned* read, unsigned* written, std::size_t size) {
            copy_by_hand(home, read, written, size);
        };
        return native_call(by_hand, from, std::move(to), std::size_t{4});
    };
    auto warm = submit_to(*held, full<unsigned>({4}, 1).and_then(copied));  // makes the streams that the call needs
    auto to = submit_to(*held, full<unsigned>({4}, 1));
    on.synchronize();
    gate closed(*held);
    to = submit_to(*held, keep(std::make_shared<const end_note>(gone), copied(std::move(to))));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_FALSE(*gone);
    closed.open();
    EXPECT_TRUE(comes_true([&] { return gone->load(); }));
    EXPECT_EQ(contents(std::move(to), *held), std::vector<unsigned>(4, 7));
}

TEST_P(keeping, a_value_is_owned_and_moved) {
    single_stream pool(on);
    const auto gone = std::make_shared<std::atomic<bool>>(false);
    auto owner = std::make_unique<end_note>(gone);
    EXPECT_EQ(sluice::sync(keep(std::move(owner), full<unsigned>({2}, 7).and_then(download)), pool),
              (std::vector<unsigned>{7, 7}));
    EXPECT_TRUE(comes_true([&] { return gone->load(); }));
}

TEST_P(keeping, nothing_submitted_releases_it_too) {
    single_stream pool(on);
    const auto gone = std::make_shared<std::atomic<bool>>(false);
    EXPECT_EQ(sluice::sync(keep(std::make_shared<end_note>(gone), value(3)), pool), 3);
    EXPECT_TRUE(comes_true([&] { return gone->load(); }));
}

TEST_P(keeping, an_operation_that_is_never_submitted_owns_it) {
    const auto gone = std::make_shared<std::atomic<bool>>(false);
    {
        const auto made = keep(std::make_shared<end_note>(gone), value(3));
        EXPECT_FALSE(*gone);
    }
    EXPECT_TRUE(*gone);
}

// What was submitted before the exception may still run.
TEST_P(keeping, it_lives_also_when_the_submission_throws_midway) {
    NEEDS_A_GATE();
    const auto gone = std::make_shared<std::atomic<bool>>(false);
    const stream_lease held(on);
    auto x = submit_to(*held, full<unsigned>({4}, 1));
    gate closed(*held);
    auto failing = step(std::move(x), 0).and_then([](tensor<unsigned>) -> decltype(value(1)) {
        throw std::runtime_error("midway");
    });
    EXPECT_THROW(submit_to(*held, keep(std::make_shared<end_note>(gone), std::move(failing))), std::runtime_error);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_FALSE(*gone);
    closed.open();
    EXPECT_TRUE(comes_true([&] { return gone->load(); }));
}

TEST_P(keeping, branches_on_other_streams_are_waited_for) {
    NEEDS_A_GATE();
    if (!GetParam().runs_concurrently) GTEST_SKIP() << "a held stream holds the others";
    const auto gone = std::make_shared<std::atomic<bool>>(false);
    round_robin pool(on, 2);
    const stream a = pool.next(), b = pool.next();
    auto x = submit_to(a, full<unsigned>({4}, 1));
    auto y = submit_to(b, full<unsigned>({4}, 1));
    on.synchronize();
    gate closed(b);
    {
        execution_context context(a);
        auto both = keep(std::make_shared<end_note>(gone), with_context([&](execution_context& here) {
                             x = three_steps(std::move(x)).submit(here);
                             set_on(b, y, 3);
                             here.submission()->note(b.point(b.issued()), {});
                             return value(0);
                         }));
        std::move(both).submit(context);
    }
    a.wait(a.issued(), wait_mode::block);
    EXPECT_FALSE(*gone);
    closed.open();
    EXPECT_TRUE(comes_true([&] { return gone->load(); }));
}

// A destructor may drop tensors and submit; where it would have to wait for a device, it is refused.
TEST_P(keeping, a_destructor_may_submit_and_may_not_wait) {
    struct busy {
        explicit busy(device& at, std::shared_ptr<std::atomic<int>> result) : pool(at, 1), refused(std::move(result)) {}
        busy(const busy&) = delete;
        busy& operator=(const busy&) = delete;
        ~busy() {
            static_cast<void>(spawn(zeros<unsigned>({16}), pool));
            try {
                sluice::sync(retry(1, [] { return zeros<unsigned>({16}).and_then(download); }), pool);
                *refused = 2;
            } catch (const error&) {
                *refused = 1;
            }
        }
        round_robin pool;
        std::shared_ptr<std::atomic<int>> refused;
    };
    const auto refused = std::make_shared<std::atomic<int>>(0);
    single_stream pool(on);
    sluice::sync(keep(std::make_shared<busy>(on, refused), zeros<unsigned>({4}).and_then(download)), pool);
    EXPECT_TRUE(comes_true([&] { return *refused != 0; }));
    EXPECT_EQ(*refused, 1);
}

TEST_P(keeping, a_graph_keeps_it_until_its_last_launch_is_over) {
    NEEDS_A_GATE();
    const auto gone = std::make_shared<std::atomic<bool>>(false);
    stream_lease held(on);
    std::optional<gate> closed;
    {
        auto object = std::make_shared<const end_note>(gone);
        const auto fast = compile(
            on,
            [known = std::weak_ptr(object)](tensor<unsigned> x) {
                return keep(known.lock(), three_steps(std::move(x))).and_then(download);
            },
            host_input<unsigned>({4}));
        object = nullptr;
        EXPECT_FALSE(*gone) << "the recording keeps it";
        sync_on(fast(std::vector<unsigned>(4, 1)), *held);
        closed.emplace(*held);
        static_cast<void>(submit_to(*held, fast(std::vector<unsigned>(4, 1))));
    }
    EXPECT_FALSE(*gone);
    closed->open();
    // The thread that carried out the launch may still be about to drop it.
    EXPECT_TRUE(comes_true([&] {
        sync_on(zeros<unsigned>({1}).and_then(download), *held);
        return gone->load();
    }));
}

TEST_P(keeping, ten_thousand_objects_are_all_released) {
    round_robin pool(on, 4);
    const auto left = std::make_shared<std::atomic<int>>(10'000);
    struct counted {
        explicit counted(std::shared_ptr<std::atomic<int>> all) : left(std::move(all)) {}
        counted(counted&&) = default;
        ~counted() {
            if (left) --*left;
        }
        std::shared_ptr<std::atomic<int>> left;
    };
    const int count = *left;
    for (int i = 0; i < count; ++i) static_cast<void>(spawn(keep(counted(left), zeros<unsigned>({4})), pool));
    EXPECT_TRUE(comes_true([&] { return *left == 0; }));
}

}  // namespace sluice::conformance::keep_tests
