// SPDX-License-Identifier: Apache-2.0
// A model with memory: x, state_in [batch, width] -> state_out = state_in + x, y = 10 * state_out. The test may hold
// it.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <string>
#include <vector>

#include "serve/support/fake_engine.hpp"

namespace sluice::serve::testing {

class summing_model final : public loaded_model {
public:
    explicit summing_model(std::size_t width = 1, const std::string& state = "state")
        : inputs_{value("x", width), value(state + "_in", width)},
          outputs_{value("y", width), value(state + "_out", width)} {}

    const std::vector<nn::value_info>& inputs() const noexcept override { return inputs_; }
    const std::vector<nn::value_info>& outputs() const noexcept override { return outputs_; }
    const nn::row_independence& rows() const noexcept override { return rows_; }
    std::string platform() const override { return "fake"; }
    std::string device_name() const override { return "none"; }

    std::vector<nn::any_tensor> run(std::vector<nn::any_tensor> inputs) const override {
        {
            std::unique_lock lock(mutex_);
            rows_of_batches_.push_back(inputs.front().shape().front());
            ++running_;
            changed_.notify_all();
            changed_.wait(lock, [&] { return !is_held_; });
            --running_;
        }
        const auto x = inputs[0].values<float>(), state = inputs[1].values<float>();
        std::vector<float> y(x.size()), next(x.size());
        for (std::size_t i = 0; i < x.size(); ++i) {
            if (x[i] == bad_number) throw error(errc::out_of_range, "13 is out of range");
            next[i] = state[i] + x[i];
            y[i] = 10 * next[i];
        }
        return {nn::any_tensor(y, inputs[0].shape()), nn::any_tensor(next, inputs[0].shape())};
    }

    void hold() { set_held(true); }
    void open() { set_held(false); }
    void wait_until_running() const {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return running_ != 0; });
    }
    std::vector<std::size_t> batches() const {
        const std::lock_guard lock(mutex_);
        return rows_of_batches_;
    }

private:
    static nn::value_info value(std::string name, std::size_t width) {
        return {.name = std::move(name), .type = io::dtype::f32, .shape = std::vector{named("batch"), of(width)}};
    }
    void set_held(bool is_held) {
        const std::lock_guard lock(mutex_);
        is_held_ = is_held;
        rows_of_batches_.clear();
        changed_.notify_all();
    }

    const std::vector<nn::value_info> inputs_, outputs_;
    const nn::row_independence rows_{.is_proven = true, .input_axes = {0, 0}, .output_axes = {0, 0}};
    mutable std::mutex mutex_;
    mutable std::condition_variable changed_;
    mutable std::vector<std::size_t> rows_of_batches_;
    mutable std::size_t running_ = 0;
    bool is_held_ = false;
};

}  // namespace sluice::serve::testing
