// SPDX-License-Identifier: Apache-2.0
// download_to copies data into host memory that exists already.
#include <algorithm>
#include <array>
#include <numeric>

#include "conformance/backend.hpp"
#include "conformance/expect_refused.hpp"
#include "conformance/kernels.hpp"
#include "conformance/support/awaiting.hpp"
#include "sluice/async/sync_wait.hpp"

namespace sluice::conformance::download_to_tests {
namespace {

CONFORMANCE_SUITE(downloads_to);

template <typename T>
std::vector<T> copy_of(std::span<const T> values) {
    return {values.begin(), values.end()};
}

TEST_P(downloads_to, a_host_buffer_comes_back_filled) {
    round_robin pool(on, 2);
    stream home = pool.next();
    for (const std::size_t size : {1u, 1000u, 3'000'000u}) {
        const auto values = counting<int>(size);
        host_buffer<int> room(home, size);
        const int* const address = room.device_data();
        room = sync(download_to(sync(upload(values), pool), std::move(room)), pool);
        EXPECT_TRUE(copy_of(room.read()) == values) << size;
        EXPECT_EQ(room.device_data(), address);
    }
}

TEST_P(downloads_to, a_host_buffer_is_filled_repeatedly) {
    single_stream pool(on);
    stream home = pool.next();
    const std::size_t before = bytes_in_use();
    {
        host_buffer<unsigned> in(home, 100), out(home, 100);
        for (unsigned round = 0; round < 5; ++round) {
            std::ranges::fill(in.write(), round);
            auto operation = upload(std::move(in), {100})
                                 .and_then([](auto x) { return step(std::move(x), 1); })
                                 .and_then(download_to(std::move(out)));
            out = spawn(std::move(operation), pool).get();
            EXPECT_EQ(copy_of(out.read()), std::vector<unsigned>(100, 3 * round + 1));
            in = host_buffer<unsigned>(home, 100);
        }
    }
    EXPECT_EQ(bytes_in_use(), before);
}

TEST_P(downloads_to, memory_of_the_user_is_filled) {
    round_robin pool(on, 2);
    for (const std::size_t size : {1u, 1000u, 3'000'000u}) {
        const auto values = counting<int>(size);
        auto room = std::make_shared<std::vector<int>>(size + 2, -1);
        const std::span<int> middle(room->data() + 1, size);
        auto operation = upload(values).and_then([&](auto x) { return download_to(std::move(x), middle, room); });
        const std::span<int> filled = sync(std::move(operation), pool);
        EXPECT_EQ(filled.data(), middle.data());
        EXPECT_TRUE(copy_of<int>(filled) == values) << size;
        EXPECT_EQ(room->front(), -1);
        EXPECT_EQ(room->back(), -1);
    }
}

TEST_P(downloads_to, parts_of_one_host_buffer_are_filled_and_uploaded_by_several_streams) {
    round_robin pool(on, 3);
    constexpr std::size_t parts = 6;
    constexpr std::size_t size = 400'000;
    auto from = std::make_shared<host_buffer<int>>(pool.next(), parts * size);
    auto to = std::make_shared<host_buffer<int>>(pool.next(), parts * size);
    std::iota(from->write().begin(), from->write().end(), 17);
    std::vector<device_future<pending<owned_span<int>>>> running;
    for (std::size_t i = 0; i < parts; ++i) {
        const std::span<const int> part(from->device_data() + i * size, size);
        running.push_back(
            spawn(upload(part, from, {size}).and_then(download_to(to->write().subspan(i * size, size), to)), pool));
    }
    for (auto& each : running) EXPECT_EQ(std::move(each).get().size(), size);
    EXPECT_TRUE(std::ranges::equal(from->read(), to->read()));
}

TEST_P(downloads_to, a_shared_tensor_is_downloaded_to_both_and_stays_valid) {
    single_stream pool(on);
    const auto values = counting<int>(50);
    const auto source = sync(share(upload(values)), pool);
    const auto into_buffer = sync(download_to(source, host_buffer<int>(pool.next(), 50)), pool);
    EXPECT_EQ(copy_of(into_buffer.read()), values);
    auto room = std::make_shared<std::vector<int>>(50);
    static_cast<void>(sync(download_to(source, std::span(*room), room), pool));
    EXPECT_EQ(*room, values);
    std::ranges::fill(*room, 0);
    static_cast<void>(sluice::sync(share(upload(values)).and_then(download_to(std::span(*room), room)), pool));
    EXPECT_EQ(*room, values);
    EXPECT_EQ(sync(download(source), pool), values);
}

TEST_P(downloads_to, an_empty_tensor_needs_no_destination) {
    single_stream pool(on);
    EXPECT_EQ(sync(zeros<int>({0}).and_then(download_to(host_buffer<int>())), pool).size(), 0u);
    EXPECT_EQ(sync(download_to(tensor<int>(pool.next(), {0}), std::span<int>(), nullptr), pool).size(), 0u);
}

TEST_P(downloads_to, a_destination_of_another_size_is_refused) {
    single_stream pool(on);
    stream home = pool.next();
    const auto expect_mismatch = [](auto&& call) { expect_refused(errc::shape_mismatch, {"10", "9"}, call); };
    auto room = std::make_shared<std::vector<int>>(9);
    expect_mismatch([&] { return download_to(tensor<int>(home, {10}), host_buffer<int>(home, 9)); });
    expect_mismatch([&] { return download_to(tensor<int>(home, {9}), host_buffer<int>(home, 10)); });
    expect_mismatch([&] { return download_to(tensor<int>(home, {10}), std::span(*room), room); });
    expect_mismatch([&] { return sync(zeros<int>({2, 5}).and_then(download_to(host_buffer<int>(home, 9))), pool); });
}

TEST_P(downloads_to, memory_without_an_owner_is_refused) {
    single_stream pool(on);
    std::vector<int> room(10);
    expect_refused(errc::invalid_argument, {"keeps"},
                   [&] { return download_to(tensor<int>(pool.next(), {10}), std::span(room), nullptr); });
}

TEST_P(downloads_to, a_host_buffer_of_another_device_is_refused) {
    single_stream pool(on);
    single_stream elsewhere(other_device());
    auto operation = zeros<int>({10}).and_then(download_to(host_buffer<int>(elsewhere.next(), 10)));
    expect_refused(errc::invalid_argument, {"memory of"}, [&] { return sync(std::move(operation), pool); });
}

TEST_P(downloads_to, a_call_on_another_stream_comes_after_the_copy_to_a_span) {
    NEEDS_A_GATE();
    round_robin pool(on, 2);
    stream home = pool.next(), elsewhere = pool.next();
    auto source = sync(share(upload(std::vector<int>{7})), pool);
    // Pinned: a copy to pageable memory would block this thread, which must open the gate.
    auto room = std::make_shared<host_buffer<int>>(home, 1);
    room->write()[0] = -1;
    const std::span<int> to(room->device_data(), 1);
    gate held(home);
    auto landing = submit_to(home, download_to(source, to, std::move(room)));
    auto read = spawn_on(elsewhere, host_call([](std::span<int> filled) { return filled[0]; }, std::move(landing)));
    held.open();
    EXPECT_EQ(std::move(read).get(), 7);
}

TEST_P(downloads_to, a_failure_reaches_the_reader_of_the_span) {
    round_robin pool(on, 2);
    stream home = pool.next(), elsewhere = pool.next();
    auto source = submit_to(home, zeros<int>({10}));
    const std::array accesses{memory_access{source.memory(), access_mode::write}};
    home.host_call({"fail", accesses}, {[] { throw std::runtime_error("mine"); }});
    auto room = std::make_shared<std::vector<int>>(10);
    auto landing = submit_to(home, download_to(std::move(source), std::span(*room), room));
    bool ran = false;
    auto read = host_call([&](std::span<int>) { ran = true; }, std::move(landing));
    EXPECT_EQ(failure_of(spawn_on(elsewhere, std::move(read))), "mine");
    EXPECT_FALSE(ran);
}

TEST_P(downloads_to, the_owner_is_kept_while_the_copy_is_in_flight) {
    NEEDS_A_GATE();
    single_stream pool(on);
    stream home = pool.next();
    const auto values = counting<int>(1000);
    auto source = sync(share(upload(values)), pool);
    auto room = std::make_shared<host_buffer<int>>(home, 1000);
    std::ranges::fill(room->write(), 0);
    const std::weak_ptr watch = room;
    const std::span<int> to(room->device_data(), 1000);
    gate held(home);
    {
        auto dropped = submit_to(home, download_to(source, to, std::move(room)));
    }
    EXPECT_FALSE(watch.expired());
    const auto kept = watch.lock();
    held.open();
    EXPECT_EQ(contents(sync_on(copy(source), home), home), values);
    EXPECT_EQ(copy_of<int>(to), values);
}

TEST_P(downloads_to, the_reader_of_the_span_keeps_its_owner) {
    single_stream pool(on);
    auto room = std::make_shared<host_buffer<int>>(pool.next(), 1000);
    const std::weak_ptr watch = room;
    const std::span<int> to(room->device_data(), 1000);
    const auto is_kept = [watch](const owned_span<int>& filled) { return !watch.expired() && filled[999] == 0; };
    auto landing = zeros<int>({1000}).and_then(download_to(to, std::move(room)));
    auto read = std::move(landing).and_then([=](auto landed) { return host_call(is_kept, std::move(landed)); });
    EXPECT_TRUE(sluice::sync(std::move(read), pool));
    EXPECT_TRUE(watch.expired());
}

TEST_P(downloads_to, the_owner_is_released_when_the_copy_has_completed) {
    single_stream pool(on);
    stream home = pool.next();
    auto room = std::make_shared<host_buffer<int>>(home, 1000);
    const std::weak_ptr watch = room;
    const std::span<int> to(room->device_data(), 1000);
    static_cast<void>(sync(zeros<int>({1000}).and_then(download_to(to, std::move(room))), pool));
    EXPECT_TRUE(watch.expired());
}

TEST_P(downloads_to, the_owner_is_released_with_the_runtime_even_if_it_owns_memory_of_that_runtime) {
    std::weak_ptr<host_buffer<int>> watch;
    {
        runtime own(GetParam().options);
        single_stream pool(own.find(GetParam().device));
        auto room = std::make_shared<host_buffer<int>>(pool.next(), 1000);
        watch = room;
        const std::span<int> to(room->device_data(), 1000);
        const auto dropped = spawn(zeros<int>({1000}).and_then(download_to(to, std::move(room))), pool);
    }
    EXPECT_TRUE(watch.expired());
}

TEST_P(downloads_to, a_host_buffer_in_flight_may_be_dropped) {
    NEEDS_A_GATE();
    single_stream pool(on);
    stream home = pool.next();
    const std::size_t before = bytes_in_use();
    {
        gate held(home);
        static_cast<void>(spawn(zeros<int>({1000}).and_then(download_to(host_buffer<int>(home, 1000))), pool));
        EXPECT_EQ(bytes_in_use(), before);
        // Its memory is still being written, so another buffer gets other memory.
        host_buffer<int> other(home, 1000);
        std::ranges::fill(other.write(), 5);
        held.open();
        home.wait(home.issued(), on.default_wait_mode());
        EXPECT_EQ(copy_of(other.read()), std::vector<int>(1000, 5));
    }
    EXPECT_EQ(bytes_in_use(), before);
}

TEST_P(downloads_to, a_future_of_a_host_buffer_is_awaited) {
    single_stream pool(on);
    const auto values = counting<int>(300);
    auto future = spawn(upload(values).and_then(download_to(host_buffer<int>(pool.next(), 300))), pool);
    const host_buffer<int> filled = sync_wait(std::move(future));
    EXPECT_EQ(copy_of(filled.read()), values);
}

}  // namespace
}  // namespace sluice::conformance::download_to_tests
