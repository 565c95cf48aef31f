// SPDX-License-Identifier: Apache-2.0
// worker_model: a model that worker processes have. It says what they said of it, and forwards batches to them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "serve/lost_reason.hpp"
#include "serve/process_ended.hpp"
#include "serve/workers/worker_pool.hpp"
#include "sluice/serve/engine.hpp"

namespace sluice::serve {

class hatch_lease;

class worker_model final : public loaded_model, public says_why_lost, public runs_in_processes {
public:
    worker_model(std::shared_ptr<worker_pool> pool, std::shared_ptr<hosted_model> model);
    worker_model(const worker_model&) = delete;  // it unloads the model once
    worker_model& operator=(const worker_model&) = delete;
    ~worker_model() override { pool_->unload(*model_); }

    const std::vector<nn::value_info>& inputs() const noexcept override { return model_->description.inputs; }
    const std::vector<nn::value_info>& outputs() const noexcept override { return model_->description.outputs; }
    const nn::text_codes& texts() const noexcept override { return texts_; }
    const nn::row_independence& rows() const noexcept override { return model_->description.rows; }
    std::string platform() const override { return model_->description.platform; }
    std::string device_name() const override { return model_->description.device_name; }
    std::string how() const override { return model_->description.how; }
    bool is_lost() const noexcept override { return model_->is_lost.load(std::memory_order_relaxed); }
    std::string why_lost() const override { return pool_->why_lost(*model_); }
    std::vector<std::string> lost_devices() const override { return pool_->given_up_names(*model_); }
    bool prefers_few_sizes() const noexcept override { return model_->description.prefers_few_sizes; }
    std::size_t most_joined_rows() const noexcept override { return model_->description.most_joined_rows; }

    // Also throws process_ended for a batch with which two workers have ended.
    std::vector<nn::any_tensor> run(std::vector<nn::any_tensor> inputs) const override;
    std::vector<nn::any_tensor> run_once(const std::vector<nn::any_tensor>& inputs, bool is_again) const override;

private:
    std::vector<nn::any_tensor> run_on(hatch_lease& lent, const std::vector<nn::any_tensor>& inputs) const;

    const std::shared_ptr<worker_pool> pool_;
    const std::shared_ptr<hosted_model> model_;
    const nn::text_codes texts_;
};

}  // namespace sluice::serve
