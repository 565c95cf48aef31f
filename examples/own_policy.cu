// own_policy: a scheduling policy of your own. This one keeps one stream free for what is urgent: every eighth
// operation goes to an express lane, the others take turns on the rest. Results are the same whatever a policy picks.

#include <atomic>
#include <cstdio>
#include <vector>

#include "sluice/sluice.hpp"

using namespace sluice;

namespace {

class express_lane final : public scheduling_policy {
public:
    express_lane(device& on, std::size_t others) : express_(on, {.priority = -1}), others_(on, others) {}

    // Any thread may ask.
    stream& next() override {
        const std::size_t turn = turn_.fetch_add(1, std::memory_order_relaxed);
        if (turn % 8 != 0) return others_.next();
        ++express_trips_;
        return *express_;
    }
    int express_trips() const { return express_trips_; }

private:
    stream_lease express_;  // back to the device when the policy goes, whatever still runs on it
    round_robin others_;
    std::atomic<std::size_t> turn_{0};
    std::atomic<int> express_trips_{0};
};

struct square {
    SLUICE_KERNEL void operator()(index_1d at, disjoint_view<float> x) const {
        if (float* const element = x.at(at)) *element *= *element;
    }
};

auto squared(std::vector<float> x) {
    return upload(std::move(x))
        .and_then([](auto y) { return launch(square{}, each_of(y), std::move(y)); })
        .and_then(download);
}

}  // namespace

int main() try {
    runtime machine;
    express_lane lanes(machine.default_device(), 3);
    std::vector<device_future<pending<std::vector<float>>>> running;
    for (int i = 0; i < 32; ++i) running.push_back(spawn(squared({static_cast<float>(i)}), lanes));
    float sum = 0;
    for (auto& each : running) sum += std::move(each).get()[0];
    std::printf("0 + 1 + 4 + ... + 31 * 31 = %.0f; %d of 32 took the express lane\n", sum, lanes.express_trips());
} catch (const std::exception& failure) {
    std::fprintf(stderr, "own_policy: %s\n", failure.what());
    return 1;
}
