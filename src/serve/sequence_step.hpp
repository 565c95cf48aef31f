// SPDX-License-Identifier: Apache-2.0
// sequence_step: a request of a sequence as the model's queue sees it: an ordinary request that brings the state too,
// and whose answer leaves the next one.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "serve/budget_share.hpp"
#include "serve/sequence_table.hpp"
#include "sluice/serve/infer_call.hpp"
#include "sluice/serve/served_model.hpp"

namespace sluice::serve {

class sequence_step final : public infer_call {
public:
    // `model` outlives it: it counts the steps that have not ended.
    sequence_step(std::shared_ptr<infer_call> from, served_model& model, std::shared_ptr<sequence_table> sequences,
                  clock::time_point since);

    served_model& model() const noexcept { return model_; }
    clock::time_point since() const noexcept { return since_; }
    std::chrono::system_clock::time_point arrived() const noexcept { return arrived_; }  // when it was made
    const sequence_request& of() const noexcept { return *from_->sequence; }

    // In its turn: its inputs have the state from now on. Throws refusal: what sequence_table::state_for throws, and
    // for a state whose shape is not known, or that takes memory which is in use.
    void take_state();

    // These end its turn. Then the next step of the sequence has its turn.
    bool answer(std::span<const tensor_view> outputs) noexcept override;
    void refuse(const refusal& why) noexcept override;
    bool is_wanted() const noexcept override { return from_->is_wanted(); }

    // Refuses it, and gives the step that has its turn now. The caller says so to the model.
    std::shared_ptr<sequence_step> fail(const refusal& why) noexcept;

private:
    void make_zeros();
    void drop_zeros() noexcept;
    kept_state next_state(std::span<const tensor_view> outputs) const;
    void end(std::shared_ptr<sequence_step> next) noexcept;

    const std::shared_ptr<infer_call> from_;
    served_model& model_;
    const std::shared_ptr<sequence_table> sequences_;
    const clock::time_point since_;
    const std::chrono::system_clock::time_point arrived_ = std::chrono::system_clock::now();
    std::optional<budget_share> share_;  // of the zeros
    std::vector<nn::any_tensor> zeros_;  // of a step that begins
};

}  // namespace sluice::serve
