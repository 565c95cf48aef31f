// SPDX-License-Identifier: Apache-2.0
// hello: the program on README's first screen. A kernel of one's own in a pipeline, run in three ways, and explored by
// the simulator. What it prints is the same on a GPU and on a CPU.
#include <sluice/sluice.hpp>

#include <cstdio>

using namespace sluice;

struct multiply_by {  // a kernel: one source for GPU and CPU
    SLUICE_KERNEL void operator()(index_1d at, float factor, disjoint_view<float> x) const {
        if (float* element = x.at(at)) *element *= factor;
    }
};

auto doubled(std::vector<float> x) {  // describes work; nothing runs yet
    return upload(std::move(x))
        .and_then([](auto y) { return launch(multiply_by{}, each_of(y), 2.f, std::move(y)); })
        .and_then(download);
}

task<float> last_of(std::vector<float> x, scheduling_policy& pool) {
    auto future = spawn(doubled(std::move(x)), pool);
    std::vector<float> y = co_await std::move(future);  // no thread waits here
    co_return y.back();
}

int main() {
    runtime machine;
    round_robin pool(machine.default_device(), 4);  // four streams of the GPU, or of the CPU

    std::vector<float> now = sync(doubled({1, 2, 3}), pool);  // submits and waits
    auto running = spawn(doubled({4, 5, 6}), pool);           // submits and returns
    std::vector<float> later = std::move(running).get();      // waits
    std::printf("%g %g %g\n", now[0], now[1], now[2]);
    std::printf("%g %g %g\n", later[0], later[1], later[2]);
    std::printf("%g\n", sync_wait(last_of({7, 8, 9}, pool)));

    sim::explore([] { return doubled({1, 2, 3}); }, {.schedules = 1000}).require_clean();
    std::puts("no race in 1000 schedules");
}
