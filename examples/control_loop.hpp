// SPDX-License-Identifier: Apache-2.0
// The two sides of control_loop: a pendulum that balances on its end, and a controller that stays on the GPU. The
// controller keeps what it must remember, estimates the velocity, and asks a small network for the torque.
#pragma once

#include <sluice/kernels/resident_kernel.hpp>
#include <sluice/sluice.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "control_loop_weights.hpp"

namespace control_loop {

using namespace sluice;

constexpr float period = 0.001f;  // seconds: 1 kHz

struct reading {
    float angle;  // rad, 0 when it stands
};
struct command {
    float torque;  // N m
};

// The kernel. Its members live from request to request, in the shared memory of one block.
struct controller {
    float first[weights::units][3];
    float bias[weights::units];
    float second[weights::units];

    bool has_begun = false;
    float before = 0, velocity = 0, integral = 0;
    float hidden[weights::units] = {};

    controller() {
        std::copy_n(weights::first, 3 * weights::units, &first[0][0]);
        std::copy_n(weights::bias, weights::units, bias);
        std::copy_n(weights::second, weights::units, second);
    }

    SLUICE_KERNEL void operator()(const thread_block& block, const reading& now, command& answer) {
        block.for_each_thread([&](const block_thread& t) {
            if (t.index() != 0) return;
            const float measured = has_begun ? (now.angle - before) / period : 0;
            velocity += (measured - velocity) / 8;  // the sensor is noisy
            integral += now.angle * period;
            before = now.angle;
            has_begun = true;
        });
        block.sync();
        block.for_each_thread([&](const block_thread& t) {
            for (unsigned i = t.index(); i < weights::units; i += block.threads()) {
                const float sum = first[i][0] * now.angle + first[i][1] * velocity + first[i][2] * integral + bias[i];
                hidden[i] = sum / (1 + std::fabs(sum));
            }
        });
        block.sync();
        block.for_each_thread([&](const block_thread& t) {
            if (t.index() != 0) return;
            answer.torque = 0;
            for (unsigned i = 0; i < weights::units; ++i) answer.torque += second[i] * hidden[i];
        });
    }
};

// A mass of 1 kg at the end of a rod of 1 m, whose foot has a motor. A sensor measures the angle in steps of 0.0001
// rad.
class pendulum {
public:
    explicit pendulum(float angle) : angle_(angle) {}

    reading measure() const { return {std::round(angle_ * 10000) / 10000}; }
    float angle() const { return angle_; }
    void push(float velocity) { velocity_ += velocity; }  // rad/s
    // A period passes.
    void apply(const command& given) {
        velocity_ += period * (9.81f * std::sin(angle_) - 0.1f * velocity_ + given.torque);
        angle_ += period * velocity_;
    }

private:
    float angle_, velocity_ = 0;
};

// Four seconds of the pendulum's time, with a push after two: a line for each moment of interest.
template <typename Ask>
std::vector<std::string> balance(const Ask& ask) {
    pendulum rod(0.3f);
    std::vector<std::string> lines;
    for (int step = 0; step <= 4000; ++step) {
        if (step % 500 == 0) {
            char text[64];
            std::snprintf(text, sizeof(text), "%.1f s: %+.3f rad%s", step * double(period), double(rod.angle()),
                          step == 2000 ? ", a push" : "");
            lines.emplace_back(text);
        }
        if (step == 2000) rod.push(1);
        rod.apply(ask(rod.measure()));
    }
    return lines;
}

}  // namespace control_loop
