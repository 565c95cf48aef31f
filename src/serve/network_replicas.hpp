// SPDX-License-Identifier: Apache-2.0
// network_replicas: one model on several devices as one. A batch goes to the device with the fewest batches. When a
// device fails, its batches are computed on another one: a model changes nothing, so that is safe.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "sluice/serve/engine.hpp"

namespace sluice::serve {

class network_replicas final : public loaded_model {
public:
    // At least one, of equal inputs and outputs.
    explicit network_replicas(std::vector<std::shared_ptr<const loaded_model>> replicas);

    const std::vector<nn::value_info>& inputs() const noexcept override { return replicas_.front()->inputs(); }
    const std::vector<nn::value_info>& outputs() const noexcept override { return replicas_.front()->outputs(); }
    const nn::text_codes& texts() const noexcept override { return replicas_.front()->texts(); }
    const nn::row_independence& rows() const noexcept override { return replicas_.front()->rows(); }
    std::string platform() const override { return replicas_.front()->platform(); }
    std::string device_name() const override;  // "cuda:0, cuda:1"
    std::string how() const override { return replicas_.front()->how(); }
    bool is_lost() const noexcept override;  // when all are
    std::vector<std::string> lost_devices() const override;
    bool prefers_few_sizes() const noexcept override { return replicas_.front()->prefers_few_sizes(); }
    std::size_t most_joined_rows() const noexcept override;
    void give_back_memory() const noexcept override {
        for (const auto& each : replicas_) each->give_back_memory();
    }
    std::vector<nn::any_tensor> run(std::vector<nn::any_tensor> inputs) const override;

private:
    class turn;

    std::size_t take() const;
    void give_back(std::size_t replica) const noexcept;

    const std::vector<std::shared_ptr<const loaded_model>> replicas_;
    mutable std::mutex mutex_;
    mutable std::vector<std::size_t> running_;  // batches of each
};

}  // namespace sluice::serve
