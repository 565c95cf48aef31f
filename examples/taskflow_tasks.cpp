// SPDX-License-Identifier: Apache-2.0
// taskflow_tasks: device work in a graph of Taskflow's tasks. A task submits an operation; another one takes its
// result, and runs other tasks until the result is there. Taskflow has a single worker here, and four operations are in
// flight: no thread of Taskflow is blocked for a device.

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <latch>
#include <memory>
#include <optional>
#include <taskflow/taskflow.hpp>
#include <utility>
#include <vector>

#include "sluice/kernels/softmax.hpp"
#include "sluice/sluice.hpp"

using namespace sluice;

namespace {

// After a host call that blocks a thread of the device until the latch opens: work that takes its time.
auto probabilities(std::vector<float> values, std::shared_ptr<std::latch> door) {
    auto held_up = host_call([door = std::move(door)] { door->wait(); });
    const std::size_t columns = values.size();
    return std::move(held_up).then(upload(std::move(values), {1, columns})).and_then(softmax).and_then(download);
}
using running = decltype(spawn(probabilities({}, nullptr), std::declval<scheduling_policy&>()));

struct message {
    std::optional<running> in_flight;
    std::vector<float> answer;
};

}  // namespace

int main() try {
    runtime machine;
    round_robin pool(machine.default_device(), 4);
    tf::Executor executor(1);

    constexpr std::size_t count = 4;
    const auto door = std::make_shared<std::latch>(count);  // opens when all messages have been submitted
    std::array<message, count> messages;

    tf::Taskflow graph;
    auto print = graph.emplace([&] {
        for (std::size_t i = 0; i < count; ++i) {
            const std::vector<float>& of = messages[i].answer;
            std::printf("message %zu: %.3f %.3f %.3f\n", i, of[0], of[1], of[2]);
        }
    });
    for (std::size_t i = 0; i < count; ++i) {
        auto submit = graph.emplace([&, i] {
            messages[i].in_flight = spawn(probabilities({0, 0, static_cast<float>(i)}, door), pool);
            door->count_down();
        });
        auto take = graph.emplace([&, i] {
            running& result = *messages[i].in_flight;
            executor.corun_until([&] { return result.wait_for(std::chrono::seconds(0)); });
            messages[i].answer = std::move(result).get();  // throws what the operation threw
        });
        submit.precede(take);
        take.precede(print);
    }
    executor.run(graph).get();
} catch (const std::exception& failure) {
    std::fprintf(stderr, "taskflow_tasks: %s\n", failure.what());
    return 1;
}
