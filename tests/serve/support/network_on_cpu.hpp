// SPDX-License-Identifier: Apache-2.0
// A network on the CPU that a test serves, without a file.
#pragma once

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "sluice/nn/network.hpp"
#include "sluice/nn/row_independence.hpp"
#include "sluice/runtime/runtime.hpp"
#include "sluice/runtime/scheduling_policy.hpp"
#include "sluice/runtime/sync.hpp"
#include "sluice/serve/engine.hpp"

namespace sluice::serve::testing {

class network_on_cpu final : public loaded_model {
public:
    network_on_cpu(device& on, const nn::model& from)
        : name_(on.name()), rows_(nn::find_row_independence(from)), network_(made(on, from)) {}

    const std::vector<nn::value_info>& inputs() const noexcept override { return network_.inputs(); }
    const std::vector<nn::value_info>& outputs() const noexcept override { return network_.outputs(); }
    const nn::row_independence& rows() const noexcept override { return rows_; }
    std::string platform() const override { return "test"; }
    std::string device_name() const override { return name_; }
    std::vector<nn::any_tensor> run(std::vector<nn::any_tensor> inputs) const override {
        const std::size_t rows = inputs.front().shape().empty() ? 1 : inputs.front().shape().front();
        for (std::size_t most = most_rows; most < rows && !most_rows.compare_exchange_weak(most, rows);) {
        }
        std::vector<nn::input_view> views;
        for (const nn::any_tensor& each : inputs) views.emplace_back(each);
        return network_(views);
    }

    mutable std::atomic<std::size_t> most_rows{0};  // of one run

private:
    static nn::network made(device& on, const nn::model& from) {
        single_stream stream(on);
        return sync(nn::make_network(from), stream);
    }

    std::string name_;
    nn::row_independence rows_;
    nn::network network_;
};

}  // namespace sluice::serve::testing
