// SPDX-License-Identifier: Apache-2.0
// A device's order token: commands that name it run one at a time, whatever thread submits them.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "sluice/sluice.hpp"

namespace sluice::collective_order_tests {
namespace {

struct one_at_a_time {
    std::atomic<int>* inside;
    std::atomic<int>* side_by_side;
};

TEST(collective_order, commands_that_name_it_run_one_at_a_time_whatever_thread_submits_them) {
    runtime machine({.cpu_workers = 4});
    device& cpu = machine.default_device();
    std::atomic<int> inside{0}, side_by_side{0};
    const one_at_a_time state{&inside, &side_by_side};
    library_command command;
    command.closure = &state;
    command.closure_bytes = sizeof(state);
    command.call = [](const native_stream&, const void* closure) {
        const auto& here = *static_cast<const one_at_a_time*>(closure);
        if (here.inside->fetch_add(1) != 0) ++*here.side_by_side;
        std::this_thread::yield();  // longer inside than between two commands
        here.inside->fetch_sub(1);
    };
    constexpr int threads = 4, commands = 5000;
    std::atomic<int> ready{0};
    {
        std::vector<std::jthread> all;
        for (int t = 0; t < threads; ++t) {
            all.emplace_back([&] {
                const stream_lease stream(cpu);
                ++ready;
                while (ready != threads) std::this_thread::yield();
                for (int i = 0; i < commands; ++i) {
                    const storage_ref order = cpu.collective_order();
                    const std::array accesses{memory_access{order.get(), access_mode::write}};
                    stream->library_call({"one at a time", accesses}, command);
                }
            });
        }
    }
    cpu.synchronize();
    EXPECT_EQ(side_by_side, 0);
}

}  // namespace
}  // namespace sluice::collective_order_tests
