// SPDX-License-Identifier: Apache-2.0
// awaited_in_asio: device work in a Boost.Asio program. A coroutine awaits the work as it awaits a socket or a timer,
// and when one of the two completes, the other one is canceled.

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <cstdio>
#include <latch>
#include <memory>
#include <stdexcept>
#include <vector>

#include "sluice/asio.hpp"
#include "sluice/kernels/softmax.hpp"
#include "sluice/sluice.hpp"

using namespace sluice;
using namespace std::chrono_literals;
using namespace boost::asio::experimental::awaitable_operators;
namespace net = boost::asio;

namespace {

auto probabilities(std::vector<float> scores) {
    return upload(std::move(scores), {1, 3}).and_then(softmax).and_then(download);
}

// The same after a host call that blocks until the latch opens: work that takes its time.
auto held_up(std::shared_ptr<std::latch> door, std::vector<float> scores) {
    return zip(host_call([door = std::move(door)] { door->wait(); }), probabilities(std::move(scores)));
}

template <typename Operation>
net::awaitable<void> answer(const char* what, Operation operation, scheduling_policy& pool,
                            std::chrono::milliseconds at_most) {
    net::steady_timer deadline(co_await net::this_coro::executor, at_most);
    auto first =
        co_await (async_run(std::move(operation), pool, net::use_awaitable) || deadline.async_wait(net::use_awaitable));
    std::printf("%s: %s\n", what, first.index() == 0 ? "answered" : "timed out");
}

net::awaitable<void> serve(scheduling_policy& pool) {
    auto future = spawn(probabilities({0, 0, 0}), pool);  // already in flight
    const std::vector<float> values = co_await async_wait(std::move(future), net::use_awaitable);
    std::printf("three of a kind: %.3f %.3f %.3f\n", values[0], values[1], values[2]);

    auto quick = probabilities({1, 2, 3});
    co_await answer("a quick one", std::move(quick), pool, 1h);

    const auto door = std::make_shared<std::latch>(1);  // the work may outlive this coroutine
    auto slow = held_up(door, {1, 2, 3});
    co_await answer("a slow one", std::move(slow), pool, 10ms);
    door->count_down();  // the device finishes its work, although no coroutine waits for it

    auto broken = host_call([]() -> int { throw std::runtime_error("the host call threw"); });
    try {
        co_await async_run(std::move(broken), pool, net::use_awaitable);
    } catch (const std::exception& failure) {
        std::printf("a broken one: %s\n", failure.what());
    }
}

}  // namespace

int main() try {
    runtime machine;
    round_robin pool(machine.default_device(), 2);
    net::io_context context;
    net::co_spawn(context, serve(pool), [](std::exception_ptr failure) {
        if (failure) std::rethrow_exception(failure);
    });
    context.run();
} catch (const std::exception& failure) {
    std::fprintf(stderr, "awaited_in_asio: %s\n", failure.what());
    return 1;
}
