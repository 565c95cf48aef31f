// SPDX-License-Identifier: Apache-2.0
// The pipeline of own_policy: a scheduling policy, and many small operations on its streams.
#pragma once

#include <atomic>
#include <vector>

#include "sluice/sluice.hpp"

namespace own_policy {

using namespace sluice;

// Keeps one stream free for urgent operations: every eighth operation uses it, the others use the rest in turn.
class express_lane final : public scheduling_policy {
public:
    express_lane(device& on, std::size_t others) : express_(on, {.priority = -1}), others_(on, others) {}

    // May be called on any thread.
    stream next() override {
        const std::size_t turn = turn_.fetch_add(1, std::memory_order_relaxed);
        if (turn % 8 != 0) return others_.next();
        ++express_trips_;
        return *express_;
    }
    int express_count() const { return express_trips_; }

private:
    stream_lease express_;  // returned to the device when the policy is destroyed, even if work still runs on it
    round_robin others_;
    std::atomic<std::size_t> turn_{0};
    std::atomic<int> express_trips_{0};
};

struct square {
    SLUICE_KERNEL void operator()(index_1d at, disjoint_view<float> x) const {
        if (float* const element = x.at(at)) *element *= *element;
    }
};

inline auto squared(std::vector<float> x) {
    return upload(std::move(x))
        .and_then([](auto y) { return launch(square{}, each_of(y), std::move(y)); })
        .and_then(download);
}

// 0 + 1 + 4 + ..., each square an operation of its own.
inline float sum_of_squares(int count, scheduling_policy& lanes) {
    std::vector<device_future<pending<std::vector<float>>>> running;
    for (int i = 0; i < count; ++i) running.push_back(spawn(squared({static_cast<float>(i)}), lanes));
    float sum = 0;
    for (auto& each : running) sum += std::move(each).get()[0];
    return sum;
}

}  // namespace own_policy
