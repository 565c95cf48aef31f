// SPDX-License-Identifier: Apache-2.0
// A model that doubles its input and does on request what models do on bad days; an engine of such models; and a call
// that a test waits for.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "sluice/base/error.hpp"
#include "sluice/serve/engine.hpp"
#include "sluice/serve/infer_call.hpp"
#include "sluice/serve/served_model.hpp"

namespace sluice::serve::testing {

inline nn::dimension named(std::string name) { return {.length = {}, .name = std::move(name)}; }
inline nn::dimension of(std::size_t length) { return {.length = length, .name = {}}; }

// A row with this number fails; with the other one, the device fails.
inline constexpr float bad_number = 13;
inline constexpr float deadly_number = 666;

// x [batch, n] -> y = factor * x. The test may hold it, and sees the batches.
class fake_model : public loaded_model {
public:
    explicit fake_model(float factor = 2, std::vector<nn::dimension> shape = {named("batch"), of(2)})
        : factor_(factor), inputs_{{"x", io::dtype::f32, shape}}, outputs_{{"y", io::dtype::f32, shape}} {
        if (shape.empty() || shape.front().length) {
            independence.why = "input 'x' has no dimension of any length";
        } else {
            independence = {.is_proven = true, .input_axes = {0}, .output_axes = {0}};
        }
    }

    const std::vector<nn::value_info>& inputs() const noexcept override { return inputs_; }
    const std::vector<nn::value_info>& outputs() const noexcept override { return outputs_; }
    const nn::row_independence& rows() const noexcept override { return independence; }
    std::string platform() const override { return "fake"; }
    std::string device_name() const override { return "none"; }
    bool is_lost() const noexcept override { return lost; }
    void give_back_memory() const noexcept override { ++given_back; }

    std::vector<nn::any_tensor> run(std::vector<nn::any_tensor> inputs) const override {
        {
            std::unique_lock lock(mutex_);
            const std::size_t dimensions = inputs.front().shape().size();
            batches_.push_back(dimensions == 0 ? 1 : inputs.front().shape().front());
            ++running_;
            changed_.notify_all();
            changed_.wait(lock, [&] { return !is_held_; });
            --running_;
        }
        const auto x = inputs.front().values<float>();
        for (const float each : x) {
            if (each == bad_number) throw error(errc::out_of_range, "13 is out of range");
            if (each == deadly_number) throw error(errc::device_failed, "the device is lost");
        }
        std::vector<float> y(x.size());
        for (std::size_t i = 0; i < y.size(); ++i) y[i] = factor_ * x[i];
        return {nn::any_tensor(y, inputs.front().shape())};
    }

    void hold() {
        const std::lock_guard lock(mutex_);
        is_held_ = true;
        batches_.clear();
    }
    void open() {
        const std::lock_guard lock(mutex_);
        is_held_ = false;
        changed_.notify_all();
    }
    void wait_until_running() {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return running_ != 0; });
    }
    // Rows of the batches since hold().
    std::vector<std::size_t> batches() const {
        const std::lock_guard lock(mutex_);
        return batches_;
    }

    nn::row_independence independence;  // what it says of its rows
    std::atomic<bool> lost{false};      // its device
    mutable std::atomic<int> given_back{0};

private:
    float factor_;
    std::vector<nn::value_info> inputs_;
    std::vector<nn::value_info> outputs_;
    mutable std::mutex mutex_;
    mutable std::condition_variable changed_;
    mutable std::vector<std::size_t> batches_;
    mutable std::size_t running_ = 0;
    bool is_held_ = false;
};

// Opens the model at the end of a test that has failed, too.
class held {
public:
    explicit held(fake_model& model) : model_(model) { model_.hold(); }
    held(const held&) = delete;
    held& operator=(const held&) = delete;
    ~held() { model_.open(); }

private:
    fake_model& model_;
};

// The folder of a fake model without versions gets two, and this configuration.
inline void give_two_versions(const std::filesystem::path& folder, const std::string& config) {
    std::filesystem::remove(folder / "model.onnx");
    for (const char* const version : {"1", "2"}) {
        std::filesystem::create_directories(folder / version);
        std::ofstream(folder / version / "model.onnx") << "x";
    }
    std::ofstream(folder / "config.json") << config;
}

// Loads what `make` makes.
class fake_engine : public engine {
public:
    using maker = std::function<std::shared_ptr<const loaded_model>(const model_version&)>;
    explicit fake_engine(maker make) : make_(std::move(make)) {}

    std::shared_ptr<const loaded_model> load(const model_version& which, const model_config&) override {
        return make_(which);
    }

private:
    maker make_;
};

class test_call : public infer_call {
public:
    explicit test_call(std::vector<float> values, std::vector<std::size_t> shape)
        : values_(std::move(values)), result_(promise_.get_future()) {
        inputs = {{io::dtype::f32, tensor_shape(shape), std::as_bytes(std::span(values_))}};
    }

    bool answer(std::span<const tensor_view> outputs) noexcept override {
        std::vector<float> values(outputs.front().bytes.size() / sizeof(float));
        if (!values.empty()) std::memcpy(values.data(), outputs.front().bytes.data(), outputs.front().bytes.size());
        thread = std::this_thread::get_id();
        promise_.set_value(std::move(values));
        return true;
    }
    void refuse(const refusal& why) noexcept override { promise_.set_value(why); }

    bool is_wanted() const noexcept override { return wanted; }

    bool is_answered() const { return result_.wait_for(std::chrono::seconds(0)) == std::future_status::ready; }
    // Waits. Throws the refusal.
    std::vector<float> get() {
        auto got = result_.get();
        if (auto* const why = std::get_if<refusal>(&got)) throw refusal(*why);
        return std::get<std::vector<float>>(std::move(got));
    }

    std::thread::id thread;  // that has answered
    std::atomic<bool> wanted{true};

private:
    std::vector<float> values_;
    std::promise<std::variant<std::vector<float>, refusal>> promise_;
    std::future<std::variant<std::vector<float>, refusal>> result_;
};

// One row of two numbers.
inline std::shared_ptr<test_call> row_of(float value) {
    return std::make_shared<test_call>(std::vector<float>{value, value}, std::vector<std::size_t>{1, 2});
}

}  // namespace sluice::serve::testing
