// SPDX-License-Identifier: Apache-2.0
// The fixture of the engine's tests: a small network on one or two CPU devices, its inputs, and its outputs as computed
// by hand.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "nn/support/reference_network.hpp"
#include "sluice/nn/engine.hpp"
#include "sluice/nn/to_model.hpp"
#include "sluice/runtime/runtime.hpp"
#include "sluice/runtime/sync.hpp"

namespace sluice::nn::testing {

inline constexpr std::size_t rows = 103, in_features = 12, out_features = 4;

class engine_test : public ::testing::Test {
protected:
    // Rows of `inputs`, whose memory they share.
    host_rows rows_from(std::size_t first, std::size_t count) const {
        return {std::span(*inputs).subspan(first * in_features, count * in_features), inputs};
    }
    host_row_source source() const {
        return [this](std::size_t first, std::size_t count) { return rows_from(first, count); };
    }
    // An engine on the first device; with `lanes` of 2, on both.
    engine make(const engine_options& options, std::size_t streams = 2, std::size_t lanes = 1) {
        engine made(options);
        for (std::size_t i = 0; i < lanes; ++i) {
            policies.push_back(std::make_unique<round_robin>(*machine.devices()[i], streams));
            made.add(sync(make_network(to_model(model)), *policies.back()), *policies.back());
        }
        return made;
    }
    // Runs all rows; they must come in order, on this thread.
    floats run(const engine& with) const {
        floats outputs;
        const auto here = std::this_thread::get_id();
        with.run(rows, source(), [&](std::size_t first, std::span<const float> part) {
            EXPECT_EQ(first * out_features, outputs.size());
            EXPECT_EQ(part.size() % out_features, 0u);
            EXPECT_EQ(std::this_thread::get_id(), here);
            outputs.insert(outputs.end(), part.begin(), part.end());
        });
        return outputs;
    }
    std::size_t bytes_in_use() const {
        std::size_t sum = 0;
        for (device* each : machine.devices()) {
            sum += each->device_pool().usage().in_use_bytes + each->host_pool().usage().in_use_bytes;
        }
        return sum;
    }

    runtime machine{{.cpu_devices = 2, .cuda = false}};
    random_floats fresh{11};
    const std::vector<mlp_layer> model = random_network({in_features, 20, out_features}, fresh);
    const std::shared_ptr<const floats> inputs = std::make_shared<const floats>(fresh(rows * in_features));
    const doubles expected = outputs_of(model, *inputs);
    std::vector<std::unique_ptr<round_robin>> policies;
};

inline void ignore(std::size_t, std::span<const float>) {}

}  // namespace sluice::nn::testing
