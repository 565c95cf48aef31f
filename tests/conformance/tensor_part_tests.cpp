// SPDX-License-Identifier: Apache-2.0
// Parts of tensors: each is a tensor of its own, streams do not wait for each other's parts, and what joins them comes
// after all that was done to them.
#include <array>
#include <numeric>
#include <stdexcept>

#include "conformance/backend.hpp"
#include "conformance/expect_refused.hpp"
#include "conformance/kernels.hpp"
#include "sluice/kernels/elementwise.hpp"
#include "sluice/runtime/parts.hpp"
#include "sluice/runtime/upload_to.hpp"

namespace sluice::conformance::tensor_part_tests {
namespace {

class tensor_parts : public conformance_test {
protected:
    // Loads the kernels and fills the pools, so that no call waits for the device while a stream is held.
    tensor_parts() {
        for (int i = 0; i < 3; ++i) {
            for (stream each : {a, b}) {
                auto x = submit_to(each, uninitialized<unsigned>({size}));
                set_on(each, x, 0);
                step_on(each, x, 0);
                contents(std::move(x), each);
            }
        }
    }

    static constexpr std::size_t size = 1024;
    round_robin pool{on, 2};
    stream a = pool.next();
    stream b = pool.next();
};
INSTANTIATE_TEST_SUITE_P(, tensor_parts, testing::ValuesIn(enrolled_backends()), backend_name);

std::vector<unsigned> numbers(std::size_t count, unsigned first = 0) {
    std::vector<unsigned> all(count);
    std::iota(all.begin(), all.end(), first);
    return all;
}
std::vector<unsigned> stepped(std::vector<unsigned> all, unsigned steps) {
    for (unsigned& each : all) each = after_steps(each, steps);
    return all;
}

auto copy_of_first_half(const shared_tensor<unsigned>& all) { return copy(slice(all, 0, all->size() / 2)); }

auto two_steps(tensor<unsigned> x) {
    return step(std::move(x), 0).and_then([](auto y) { return step(std::move(y), 1); });
}

}  // namespace

TEST_P(tensor_parts, halves_are_worked_on_and_joined) {
    auto halves_worked_on = [](std::size_t count) {
        return upload(numbers(count), {count})
            .transform([](auto x) { return split<2>(std::move(x)); })
            .and_then([](auto low, auto high) { return zip(two_steps(std::move(low)), step(std::move(high), 7)); })
            .transform([](auto low, auto high) { return join(std::move(low), std::move(high)); })
            .and_then(download);
    };
    for (const std::size_t count : {std::size_t{128}, size, std::size_t{100'000}}) {
        const std::vector<unsigned> result = sync(halves_worked_on(count), pool);
        ASSERT_EQ(result.size(), count);
        for (unsigned i = 0; i < count; ++i) {
            // 64 numbers are part_alignment bytes; the first part has the step that is left over.
            const std::size_t first = ((count + 63) / 64 + 1) / 2 * 64;
            ASSERT_EQ(result[i], i < first ? after_steps(i, 2) : 3 * i + 7) << i << " of " << count;
        }
    }
}

// The memory is one block: the address shows it.
TEST_P(tensor_parts, splitting_and_joining_copies_nothing) {
    auto x = submit_to(a, zeros<unsigned>({8, 64}));
    const unsigned* const address = x.device_data();
    const storage* const memory = x.memory();
    std::vector<tensor<unsigned>> parts = split(std::move(x), 4);
    ASSERT_EQ(parts.size(), 4u);
    for (std::size_t i = 0; i < 4; ++i) {
        EXPECT_EQ(parts[i].shape(), (shape{2, 64}));
        EXPECT_EQ(parts[i].device_data(), address + i * 128);
    }
    const auto joined = join(std::move(parts));
    EXPECT_EQ(joined.shape(), (shape{8, 64}));
    EXPECT_EQ(joined.memory(), memory);
}

TEST_P(tensor_parts, a_stream_does_not_wait_for_another_part) {
    NEEDS_A_GATE();
    auto [low, high] = split<2>(submit_to(a, zeros<unsigned>({size})));
    on.synchronize();
    gate held(a);
    set_on(a, low, 1);
    set_on(b, high, 2);
    if (GetParam().runs_concurrently) b.wait(b.issued(), wait_mode::yield);  // would never return
    held.open();
    auto whole = join(std::move(low), std::move(high));
    std::vector<unsigned> expected(size / 2, 1);
    expected.resize(size, 2);
    EXPECT_EQ(contents(std::move(whole), b), expected);
}

TEST_P(tensor_parts, what_joins_them_comes_after_all_of_them) {
    NEEDS_A_GATE();
    auto [low, high] = split<2>(submit_to(a, zeros<unsigned>({size})));
    gate held(a);
    set_on(a, low, 1, slow());
    set_on(b, high, 2, slow());
    auto whole = join(std::move(low), std::move(high));
    step_on(b, whole, 5);
    const ticket after = b.issued();
    EXPECT_FALSE(has_passed(b, after));
    held.open();
    std::vector<unsigned> expected(size / 2, 8);
    expected.resize(size, 11);
    EXPECT_EQ(contents(std::move(whole), a), expected);
}

TEST_P(tensor_parts, the_memory_is_reused_after_the_last_use_of_each_part) {
    NEEDS_A_GATE();
    const std::size_t before = bytes_in_use();
    gate held(a);
    {
        auto [low, high] = split<2>(submit_to(b, zeros<unsigned>({size})));
        set_on(a, low, 1, slow());
        set_on(b, high, 2);
    }
    EXPECT_EQ(bytes_in_use(), before);
    std::vector<tensor<unsigned>> next;  // one of them has the memory
    for (unsigned i = 0; i < 4; ++i) {
        next.push_back(tensor<unsigned>(b, {size}));
        set_on(b, next.back(), 100 + i);
    }
    held.open();
    for (unsigned i = 0; i < 4; ++i) EXPECT_EQ(contents(std::move(next[i]), b), std::vector<unsigned>(size, 100 + i));
}

TEST_P(tensor_parts, parts_are_split_again_and_joined_in_other_groups) {
    auto x = submit_to(a, upload(numbers(size), {size}));
    auto [low, high] = split<2>(std::move(x));
    auto [first, second] = split<2>(std::move(low));
    auto [third, fourth] = split<2>(std::move(high));
    set_on(b, second, 50);
    auto middle = join(std::move(second), std::move(third));
    EXPECT_EQ(middle.shape(), shape{size / 2});
    step_on(a, middle, 1);
    auto whole = join(std::move(first), std::move(middle), std::move(fourth));
    std::vector<unsigned> expected = numbers(size);
    for (std::size_t i = size / 4; i < size / 2; ++i) expected[i] = 151;
    for (std::size_t i = size / 2; i < 3 * size / 4; ++i) expected[i] = 3 * expected[i] + 1;
    EXPECT_EQ(contents(std::move(whole), b), expected);
}

TEST_P(tensor_parts, a_slice_of_a_shared_tensor_is_read) {
    const shared_tensor<unsigned> whole(sync(upload(numbers(size), {16, 64}), pool));
    auto rows = slice(whole, 3, 5);
    EXPECT_EQ(rows->shape(), (shape{5, 64}));
    EXPECT_EQ(sync(download(rows), pool), numbers(320, 192));
    auto row = slice(rows, 4, 1);  // of the slice
    EXPECT_EQ(sync(download(row), pool), numbers(64, 448));
    auto sum = sync(add(row, sync(upload(std::vector<unsigned>(64, 1), {64}), pool)), pool);
    EXPECT_EQ(contents(std::move(sum), a), numbers(64, 449));
}

TEST_P(tensor_parts, a_slice_keeps_the_whole_alive) {
    const std::size_t before = bytes_in_use();
    auto rows = [&] {
        const shared_tensor<unsigned> whole(sync(upload(numbers(size), {size}), pool));
        return slice(whole, 64, 64);
    }();
    EXPECT_GT(bytes_in_use(), before);
    EXPECT_EQ(sync(download(rows), pool), numbers(64, 64));
    rows = shared_tensor<unsigned>(tensor<unsigned>());
    EXPECT_EQ(bytes_in_use(), before);
}

// Without a wait in between. That histories do not grow is shown by access_history_tests.
TEST_P(tensor_parts, many_slices_and_many_rounds_of_splitting_give_the_right_numbers) {
    const shared_tensor<unsigned> whole(sync(upload(numbers(size), {size}), pool));
    auto x = submit_to(a, upload(numbers(size), {size}));
    for (unsigned i = 0; i < 2000; ++i) {
        auto read = submit_to(i % 2 == 0 ? a : b, download(slice(whole, i % 16 * 64, 64)));
        auto [low, high] = split<2>(std::move(x));
        if (i % 5 == 0) step_on(b, high, 0);
        x = join(std::move(low), std::move(high));
    }
    std::vector<unsigned> expected = numbers(size);
    for (std::size_t i = size / 2; i < size; ++i)
        for (unsigned step = 0; step < 400; ++step) expected[i] *= 3;
    EXPECT_EQ(contents(std::move(x), a), expected);
}

TEST_P(tensor_parts, are_uploaded_to) {
    auto upload_halves = [] {
        return zeros<unsigned>({size})
            .transform([](auto x) { return split<2>(std::move(x)); })
            .and_then([](auto low, auto high) {
                const auto owner = std::make_shared<std::vector<unsigned>>(numbers(size / 2, 1000));
                return zip(upload_to(std::move(low), numbers(size / 2, 5)),
                           upload_to(std::move(high), std::span<const unsigned>(*owner), owner));
            })
            .transform([](auto low, auto high) { return join(std::move(low), std::move(high)); })
            .and_then(download);
    };
    std::vector<unsigned> expected = numbers(size / 2, 5);
    for (const unsigned each : numbers(size / 2, 1000)) expected.push_back(each);
    EXPECT_EQ(sync(upload_halves(), pool), expected);
    expect_refused(errc::shape_mismatch, {"5 values do not fill shape [4]"},
                   [&] { upload_to(submit_to(a, zeros<unsigned>({4})), std::vector<unsigned>(5)); });
    expect_refused(errc::invalid_argument, {"moved from"},
                   [&] { upload_to(tensor<unsigned>(), std::vector<unsigned>()); });
}

TEST_P(tensor_parts, a_failure_of_one_part_reaches_the_whole) {
    auto [low, high] = split<2>(submit_to(a, zeros<unsigned>({size})));
    const std::array accesses{memory_access{high.memory(), access_mode::write}};
    b.host_call({"fails", accesses}, {[] { throw std::runtime_error("mine"); }});
    EXPECT_EQ(contents(std::move(low), a), std::vector<unsigned>(size / 2, 0));
    auto again = split<2>(submit_to(a, zeros<unsigned>({size})));
    const std::array others{memory_access{std::get<0>(again).memory(), access_mode::write}};
    b.host_call({"fails", others}, {[] { throw std::runtime_error("mine"); }});
    auto whole = join(std::move(std::get<0>(again)), std::move(std::get<1>(again)));
    EXPECT_THROW(contents(std::move(whole), a), std::runtime_error);
}

TEST_P(tensor_parts, a_graph_splits_and_joins) {
    const auto fast = compile(
        on,
        [](tensor<unsigned> x) {
            auto [low, high] = split<2>(std::move(x));
            return zip(two_steps(std::move(low)), step(std::move(high), 7)).transform([](auto one, auto other) {
                return join(std::move(one), std::move(other));
            });
        },
        device_input<unsigned>({size}));
    for (unsigned round = 0; round < 3; ++round) {
        auto x = sync(upload(numbers(size, round), {size}), pool);
        const std::vector<unsigned> result = contents(sync(fast(std::move(x)), pool), a);
        for (unsigned i = 0; i < size; ++i)
            ASSERT_EQ(result[i], i < size / 2 ? after_steps(i + round, 2) : 3 * (i + round) + 7) << i;
    }
}

TEST_P(tensor_parts, a_graph_runs_on_a_part) {
    const auto fast = compile(
        on,
        [](tensor<unsigned> x) {
            auto [low, high] = split<2>(std::move(x));
            return zip(two_steps(std::move(low)), two_steps(std::move(high))).transform([](auto one, auto other) {
                return join(std::move(one), std::move(other));
            });
        },
        device_input<unsigned>({size / 2}));
    auto [low, high] = split<2>(sync(upload(numbers(size), {size}), pool));
    low = sync(fast(std::move(low)), pool);
    high = sync(fast(std::move(high)), pool);
    EXPECT_EQ(contents(std::move(low), a), stepped(numbers(size / 2), 2));
    EXPECT_EQ(contents(std::move(high), b), stepped(numbers(size / 2, size / 2), 2));
}

TEST_P(tensor_parts, a_graph_captures_a_slice_and_takes_slices) {
    const shared_tensor<unsigned> weights(sync(upload(numbers(size), {size}), pool));
    const auto fast = compile(
        on,
        [high = slice(weights, size / 2, size / 2), weights](tensor<unsigned> x) {
            return add(high, std::move(x)).and_then([low = slice(weights, 0, size / 2)](auto y) {
                return add(low, std::move(y));
            });
        },
        device_input<unsigned>({size / 2}));
    for (unsigned round = 0; round < 2; ++round) {
        auto x = sync(upload(std::vector<unsigned>(size / 2, round), {size / 2}), pool);
        const std::vector<unsigned> result = contents(sync(fast(std::move(x)), pool), a);
        for (unsigned i = 0; i < size / 2; ++i) ASSERT_EQ(result[i], 2 * i + size / 2 + round) << i;
    }
}

// Also in a graph that is recorded again for each launch.
TEST_P(tensor_parts, a_graph_takes_a_tensor_and_a_slice_of_it) {
    const auto fast = compile(
        on,
        [](shared_tensor<unsigned> all, shared_tensor<unsigned> some) {
            return zip(copy_of_first_half(all), host_call([] { return 0u; })).and_then([some](auto first, auto zero) {
                return zip(add(some, std::move(first)).and_then(download), value(std::move(zero)));
            });
        },
        shared_input<unsigned>({size}), shared_input<unsigned>({size / 2}));
    const shared_tensor<unsigned> whole(sync(upload(numbers(size), {size}), pool));
    for (unsigned round = 0; round < 3; ++round) {
        const auto [result, zero] = sluice::sync(fast(whole, slice(whole, size / 2, size / 2)), pool);
        EXPECT_EQ(zero, 0u);
        for (unsigned i = 0; i < size / 2; ++i) ASSERT_EQ(result[i], 2 * i + size / 2) << i;
    }
}

TEST_P(tensor_parts, a_tensor_that_a_graph_writes_is_not_split) {
    const auto x = std::make_shared<tensor<unsigned>>(sync(zeros<unsigned>({size}), pool));
    const auto fast = record(on, [x](stream to) { set_on(to, *x, 3); });
    sync(fast(), pool);
    expect_refused(errc::invalid_argument, {"a compiled graph writes this memory"},
                   [&] { split(std::move(*x), std::size_t{2}); });
}

TEST_P(tensor_parts, one_part_is_the_tensor_itself) {
    auto x = submit_to(a, zeros<unsigned>({1000}));
    const storage* const memory = x.memory();
    x = std::move(split(std::move(x), 1).front());
    EXPECT_EQ(x.memory(), memory);
}

TEST_P(tensor_parts, a_part_made_in_a_graph_is_no_output) {
    expect_refused(errc::graph_refused, {"an output of a graph is a whole tensor"}, [&] {
        compile(
            on, [](tensor<unsigned> x) { return value(std::get<0>(split<2>(std::move(x)))); },
            device_input<unsigned>({size}));
    });
}

TEST_P(tensor_parts, what_cannot_be_a_part_is_refused) {
    const auto made = [&](const shape& of) { return submit_to(a, zeros<unsigned>(of)); };
    expect_refused(errc::shape_mismatch, {"longer than the first dimension"},
                   [&] { split(made({size}), {size / 2, size}); });
    expect_refused(errc::shape_mismatch, {"the parts have 768 together"},
                   [&] { split(made({size}), {size / 2, size / 4}); });
    expect_refused(errc::shape_mismatch, {"a part cannot begin at 1"}, [&] { split(made({size}), {1, size - 1}); });
    expect_refused(errc::shape_mismatch, {"[64] has no 2 parts"}, [&] { split(made({64}), 2); });
    expect_refused(errc::shape_mismatch, {"has no 0 parts"}, [&] { split(made({64}), std::size_t{0}); });
    expect_refused(errc::shape_mismatch, {"a tensor of one element has no parts"}, [&] { split(made({}), 1); });
    expect_refused(errc::invalid_argument, {"moved from"}, [&] { split(tensor<unsigned>(), 1); });
    const shared_tensor<unsigned> whole(made({8, 64}));
    expect_refused(errc::shape_mismatch, {"2 from 7 are not in the first dimension of [8, 64]"},
                   [&] { slice(whole, 7, 2); });
    expect_refused(errc::shape_mismatch, {"0 from 9 are not"}, [&] { slice(whole, 9, 0); });
    const shared_tensor<unsigned> narrow(made({8, 10}));
    expect_refused(errc::shape_mismatch, {"a part begins at a multiple of 256 bytes"}, [&] { slice(narrow, 1, 2); });
}

TEST_P(tensor_parts, what_cannot_be_joined_is_refused) {
    const auto halves = [&] { return split<2>(submit_to(a, zeros<unsigned>({size}))); };
    auto [low, high] = halves();
    auto [other, another] = halves();
    expect_refused(errc::invalid_argument, {"do not follow each other"},
                   [&] { join(std::move(high), std::move(low)); });
    expect_refused(errc::invalid_argument, {"not parts of one tensor"},
                   [&] { join(std::move(other), submit_to(a, zeros<unsigned>({size}))); });
    expect_refused(errc::invalid_argument, {"no parts"}, [&] { join(std::vector<tensor<unsigned>>()); });
    expect_refused(errc::invalid_argument, {"moved from"}, [&] { join(std::move(another), tensor<unsigned>()); });
    auto [rows, more] = split<2>(submit_to(a, zeros<unsigned>({4, 64})));
    more = std::move(more).reshape({128});
    expect_refused(errc::shape_mismatch, {"does not fit"}, [&] { join(std::move(rows), std::move(more)); });
}

}  // namespace sluice::conformance::tensor_part_tests
