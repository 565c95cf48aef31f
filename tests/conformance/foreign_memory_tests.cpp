// SPDX-License-Identifier: Apache-2.0
// Tensors over memory of others: they are like other tensors, and the owner is released once, after the last use.
#include <cstddef>
#include <functional>
#include <numeric>
#include <optional>
#include <thread>

#include "conformance/expect_refused.hpp"
#include "conformance/kernels.hpp"
#include "conformance/support/lent_memory.hpp"
#include "sluice/runtime/adopt.hpp"
#include "sluice/runtime/parts.hpp"
#include "sluice/runtime/upload_to.hpp"

namespace sluice::conformance::foreign_memory_tests {
namespace {

constexpr std::size_t size = 1024;

std::vector<unsigned> numbers(std::size_t count = size, unsigned first = 0) {
    std::vector<unsigned> all(count);
    std::iota(all.begin(), all.end(), first);
    return all;
}
std::vector<unsigned> stepped(std::vector<unsigned> all, unsigned steps) {
    for (unsigned& each : all) each = after_steps(each, steps);
    return all;
}

class foreign_memory : public conformance_test {
protected:
    // Loads the kernels and fills the pools, so that no call waits for the device while a stream is held.
    foreign_memory() {
        for (stream each : {a, b}) {
            auto x = submit_to(each, uninitialized<unsigned>({size}));
            set_on(each, x, 0);
            step_on(each, x, 0);
            contents(std::move(x), each);
        }
    }

    // A tensor over the block, whose release is counted.
    tensor<unsigned> adopted(const std::shared_ptr<lender::block>& from, const shape& shape = {size}) {
        return adopt(on, from->data(), shape, [releases = releases, from](unsigned*) { releases->add(); });
    }

    lender others{GetParam()};
    // Shared with the tensors: the last may be released after the test.
    const std::shared_ptr<release_count> releases = std::make_shared<release_count>();
    release_count& released = *releases;
    round_robin pool{on, 2};
    stream a = pool.next();
    stream b = pool.next();
};
INSTANTIATE_TEST_SUITE_P(, foreign_memory, testing::ValuesIn(enrolled_backends()), backend_name);

}  // namespace

TEST_P(foreign_memory, is_read_and_written_where_it_is) {
    const auto block = others.lend(numbers());
    tensor<unsigned> x = adopted(block, {16, 64});
    EXPECT_EQ(x.device_data(), block->data());
    EXPECT_EQ(x.shape(), (shape{16, 64}));
    auto y = sync(step(std::move(x), 0).and_then([](auto z) { return step(std::move(z), 1); }), pool);
    EXPECT_EQ(y.device_data(), block->data());
    EXPECT_EQ(block->contents(), stepped(numbers(), 2));
    EXPECT_EQ(contents(std::move(y), b), stepped(numbers(), 2));
    EXPECT_TRUE(released.reaches(1));
}

TEST_P(foreign_memory, that_is_const_is_only_read) {
    const auto block = others.lend(numbers());
    const unsigned* const data = block->data();
    {
        const shared_tensor<unsigned> weight = adopt(on, data, {size}, block);
        auto sum = sync(add(weight, submit_to(a, upload(numbers()))), pool);
        std::vector<unsigned> expected = numbers();
        for (unsigned& each : expected) each *= 2;
        EXPECT_EQ(contents(std::move(sum), b), expected);
        EXPECT_EQ(sync(download(weight), pool), numbers());
    }
    EXPECT_EQ(block->contents(), numbers());
}

TEST_P(foreign_memory, is_ordered_across_streams) {
    const auto block = others.lend(numbers());
    tensor<unsigned> x = adopted(block);
    for (unsigned i = 0; i < 20; ++i) step_on(i % 2 == 0 ? a : b, x, i, i % 3 == 0 ? slow() : 0);
    EXPECT_EQ(contents(std::move(x), a), stepped(numbers(), 20));
    EXPECT_EQ(block->contents(), stepped(numbers(), 20));
}

TEST_P(foreign_memory, is_released_after_the_last_command_and_dropping_does_not_wait) {
    NEEDS_A_GATE();
    const auto block = others.lend(numbers());
    tensor<unsigned> x = adopted(block);
    gate held(a);
    set_on(a, x, 7);
    set_on(b, x, 8);  // after the gate, too
    x = tensor<unsigned>();
    settle_drops(on);
    EXPECT_EQ(released.now(), 0);
    held.open();
    EXPECT_TRUE(released.reaches(1));
    EXPECT_EQ(block->contents(), std::vector<unsigned>(size, 8));
}

TEST_P(foreign_memory, adopted_again_is_ordered_after_what_came_before) {
    NEEDS_A_GATE();
    const auto block = others.lend(numbers());
    gate held(a);
    {
        tensor<unsigned> x = adopted(block);
        step_on(a, x, 1, slow());
    }
    {
        tensor<unsigned> x = adopted(block);
        step_on(b, x, 2, slow());
        tensor<unsigned> half = adopt(on, block->data() + size / 2, {size / 2}, block);  // while x lives
        step_on(a, half, 3);
    }
    EXPECT_FALSE(has_passed(b, b.issued()));
    held.open();
    EXPECT_TRUE(released.reaches(2));
    on.synchronize();
    std::vector<unsigned> expected = numbers();
    for (unsigned& each : expected) each = 3 * (3 * each + 1) + 2;
    for (std::size_t i = size / 2; i < size; ++i) expected[i] = 3 * expected[i] + 3;
    EXPECT_EQ(block->contents(), expected);
}

TEST_P(foreign_memory, is_released_when_no_command_has_used_it) {
    const auto block = others.lend(numbers());
    adopted(block);
    EXPECT_TRUE(released.reaches(1));
}

TEST_P(foreign_memory, an_owner_is_released_in_place_of_a_function) {
    auto block = others.lend(numbers());
    const std::weak_ptr<lender::block> watched = block;
    unsigned* const data = block->data();
    tensor<unsigned> x = adopt(on, data, {size}, std::move(block));
    step_on(a, x, 1);
    EXPECT_FALSE(watched.expired());
    x = tensor<unsigned>();
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!watched.expired() && std::chrono::steady_clock::now() < until) std::this_thread::yield();
    EXPECT_TRUE(watched.expired());
}

TEST_P(foreign_memory, may_be_dropped_on_any_thread) {
    std::vector<std::jthread> threads;
    for (unsigned i = 0; i < 8; ++i) {
        tensor<unsigned> x = adopted(others.lend(numbers()));
        step_on(i % 2 == 0 ? a : b, x, i, slow());
        threads.emplace_back([x = std::move(x)]() mutable { x = tensor<unsigned>(); });
    }
    EXPECT_TRUE(released.reaches(8));
}

TEST_P(foreign_memory, never_enters_the_pool) {
    const auto block = others.lend(numbers());
    const memory_pool::statistics before = on.device_pool().usage();
    {
        tensor<unsigned> x = adopted(block);
        set_on(a, x, 1);
        EXPECT_EQ(on.device_pool().usage().in_use_bytes, before.in_use_bytes);
    }
    EXPECT_TRUE(released.reaches(1));
    EXPECT_EQ(on.device_pool().usage().cached_bytes, before.cached_bytes);
    std::vector<tensor<unsigned>> next;
    for (unsigned i = 0; i < 8; ++i) {
        next.push_back(tensor<unsigned>(a, {size}));
        EXPECT_NE(next.back().device_data(), block->data());
        set_on(a, next.back(), 99);
    }
    on.synchronize();
    EXPECT_EQ(block->contents(), std::vector<unsigned>(size, 1));
}

TEST_P(foreign_memory, is_split_and_joined_and_released_with_the_last_part) {
    NEEDS_A_GATE();
    const auto block = others.lend(numbers());
    auto [low, high] = split<2>(adopted(block));
    EXPECT_EQ(high.device_data(), block->data() + size / 2);
    step_on(a, low, 0, slow());
    step_on(b, high, 0);
    auto whole = join(std::move(low), std::move(high));
    EXPECT_EQ(whole.device_data(), block->data());
    auto [first, second] = split<2>(std::move(whole));
    second = tensor<unsigned>();
    gate held(a);
    step_on(a, first, 1);
    first = tensor<unsigned>();
    settle_drops(on);
    EXPECT_EQ(released.now(), 0);
    held.open();
    EXPECT_TRUE(released.reaches(1));
    std::vector<unsigned> expected = stepped(numbers(), 1);
    for (std::size_t i = 0; i < size / 2; ++i) expected[i] = 3 * expected[i] + 1;
    EXPECT_EQ(block->contents(), expected);
}

TEST_P(foreign_memory, a_slice_keeps_it) {
    const auto block = others.lend(numbers());
    std::optional<shared_tensor<unsigned>> rows;
    {
        const shared_tensor<unsigned> whole(adopted(block, {16, 64}));
        rows = slice(whole, 3, 5);
    }
    EXPECT_EQ(sync(download(*rows), pool), numbers(320, 192));
    settle_drops(on);
    EXPECT_EQ(released.now(), 0);
    rows.reset();
    EXPECT_TRUE(released.reaches(1));
}

TEST_P(foreign_memory, is_written_by_upload_to) {
    const auto block = others.lend(numbers());
    auto x = sync(upload_to(adopted(block), numbers(size, 5)), pool);
    EXPECT_EQ(block->contents(), numbers(size, 5));
    EXPECT_EQ(contents(std::move(x), a), numbers(size, 5));
}

TEST_P(foreign_memory, is_an_input_of_a_graph) {
    auto graph = compile(
        on, [](tensor<unsigned> x) { return step(std::move(x), 1).and_then(download); },
        device_input<unsigned>({size}));
    std::vector<std::shared_ptr<lender::block>> blocks;
    for (unsigned i = 0; i < 4; ++i) {
        blocks.push_back(others.lend(numbers(size, i)));
        EXPECT_EQ(sluice::sync(graph(adopted(blocks.back())), pool).front(), 3 * i + 1);
    }
    EXPECT_TRUE(released.reaches(4));
}

TEST_P(foreign_memory, captured_by_a_graph_is_kept_until_the_last_launch_is_over) {
    NEEDS_A_GATE();
    const auto block = others.lend(numbers());
    {
        const shared_tensor<unsigned> weight(adopted(block));
        auto graph = compile(
            on, [weight](tensor<unsigned> x) { return add(weight, std::move(x)); }, device_input<unsigned>({size}));
        auto first = sluice::sync(graph(submit_to(a, upload(numbers()))), pool);
        EXPECT_EQ(contents(std::move(first), a)[10], 20u);
        tensor<unsigned> x = submit_to(a, upload(numbers()));
        on.synchronize();
        gate held(a);
        auto second = submit_to(a, graph(std::move(x)));
        {
            auto dropped = std::move(graph);
        }
        settle_drops(on);
        EXPECT_EQ(released.now(), 0);
        held.open();
        EXPECT_EQ(contents(std::move(second), b)[11], 22u);
        settle_drops(on);
        EXPECT_EQ(released.now(), 0);  // `weight` lives
    }
    // A stream of a GPU keeps a graph until its next command or wait.
    sync_on(zeros<unsigned>({size}).and_then(download), a);
    EXPECT_TRUE(released.reaches(1));
}

TEST_P(foreign_memory, without_elements_is_a_tensor_too) {
    tensor<unsigned> x = adopt(on, static_cast<unsigned*>(nullptr), {0, 5}, [this](unsigned*) { released.add(); });
    EXPECT_EQ(x.shape(), (shape{0, 5}));
    EXPECT_TRUE(sync(download(std::move(x)), pool).empty());
    EXPECT_TRUE(released.reaches(1));
}

TEST_P(foreign_memory, that_cannot_be_used_is_refused_and_not_released) {
    const auto block = others.lend(numbers());
    const auto owned = std::shared_ptr<const void>(block);
    const auto free = [this](unsigned*) { released.add(); };
    unsigned* const data = block->data();
    expect_refused_here(errc::invalid_argument, {"adopt", "needs an owner"},
                        [&] { adopt(on, data, {size}, std::shared_ptr<const void>()); });
    expect_refused(errc::invalid_argument, {"needs an owner"},
                   [&] { adopt(on, data, {size}, std::function<void(unsigned*)>()); });
    expect_refused(errc::invalid_argument, {"null", "[1024]"},
                   [&] { adopt(on, static_cast<unsigned*>(nullptr), {size}, free); });
    expect_refused(errc::invalid_argument, {"4 bytes after a multiple of"},
                   [&] { adopt(on, data + 1, {size - 1}, free); });
    expect_refused(errc::invalid_argument, {"moved from"}, [&] { adopt(on, data, shape::none(), free); });
    expect_refused(errc::invalid_argument, {"beyond the end of memory"},
                   [&] { adopt(on, reinterpret_cast<unsigned*>(~std::uintptr_t{0} - 1023), {size}, owned); });
    if (on.kind() == device_kind::cuda) {
        alignas(256) unsigned here[64] = {};
        expect_refused(errc::invalid_argument, {"no memory that CUDA knows", "pageable"},
                       [&] { adopt(on, here, {64}, free); });
        host_buffer<unsigned> pinned(a, size);
        expect_refused(errc::invalid_argument, {"page-locked host memory"},
                       [&] { adopt(on, pinned.write().data(), {size}, free); });
        expect_refused(errc::invalid_argument, {"the allocation ends after"},
                       [&] { adopt(on, data, {std::size_t{1} << 40}, free); });
        expect_refused(errc::invalid_argument, {"it is memory of " + on.name()},
                       [&] { adopt(devices.find("cpu:0"), data, {size}, free); });
        if (other_device().kind() == device_kind::cuda) {
            expect_refused(errc::invalid_argument, {"memory of GPU"},
                           [&] { adopt(other_device(), data, {size}, free); });
        }
    }
    settle_drops(on);
    EXPECT_EQ(released.now(), 0);
}

TEST_P(foreign_memory, outlives_the_runtime) {
    const auto block = others.lend(numbers());
    tensor<unsigned> kept;
    {
        runtime brief(GetParam().options);
        device& there = brief.find(GetParam().device);
        single_stream only(there);
        kept = adopt(there, block->data(), {size}, [&](unsigned*) { released.add(); });
        step_on(only.next(), kept, 0);
        adopt(there, static_cast<unsigned*>(nullptr), {0}, [&](unsigned*) { released.add(); });
    }
    EXPECT_EQ(released.now(), 1);  // of the one that was dropped before
    EXPECT_EQ(block->contents(), stepped(numbers(), 1));
    kept = tensor<unsigned>();
    EXPECT_EQ(released.now(), 2);  // on this thread
}

TEST_P(foreign_memory, what_is_in_use_when_the_runtime_is_destroyed_is_released_by_then) {
    const auto block = others.lend(numbers());
    {
        runtime brief(GetParam().options);
        device& there = brief.find(GetParam().device);
        single_stream only(there);
        auto x = adopt(there, block->data(), {size}, [&](unsigned*) { released.add(); });
        for (unsigned i = 0; i < 10; ++i) step_on(only.next(), x, i, slow());
    }
    EXPECT_EQ(released.now(), 1);
    EXPECT_EQ(block->contents(), stepped(numbers(), 10));
}

TEST_P(foreign_memory, the_function_may_drop_objects_of_the_runtime) {
    const auto block = others.lend(numbers());
    auto other = std::make_shared<tensor<unsigned>>(submit_to(a, uninitialized<unsigned>({size})));
    const std::size_t before = bytes_in_use();
    adopt(on, block->data(), {size}, [this, other = std::move(other)](unsigned*) mutable {
        other.reset();
        released.add();
    });
    EXPECT_TRUE(released.reaches(1));
    EXPECT_LT(bytes_in_use(), before);
}

}  // namespace sluice::conformance::foreign_memory_tests
