// SPDX-License-Identifier: Apache-2.0
// The inputs of several requests as those of one, and its outputs as theirs.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "serve/call_queue.hpp"
#include "sluice/nn/any_tensor.hpp"
#include "sluice/nn/model.hpp"

namespace sluice::serve {

// Throws refusal (bad_request), by the input's name, unless the tensors have the model's number, types, dimensions and
// as many bytes as their shapes; dimensions of one name must be equal. Inputs that are `left_out` are not looked at.
void require_inputs(const std::vector<nn::value_info>& model, std::span<const tensor_view> inputs,
                    const std::vector<bool>& left_out = {});

// Whether the inputs can be joined along the first dimension: all other lengths are equal.
bool can_join(std::span<const tensor_view> left, std::span<const tensor_view> right);

// The rows of all requests together.
std::size_t rows_of(std::span<const waiting_call> batch);

// Whether rows may be added to the batch: it has some, and in each input of each request they are the first dimension.
bool can_pad(std::span<const waiting_call> batch);

// The inputs of the batch, copied: of one request as they are, of several joined. `rows` are at least rows_of(batch);
// if they are more, the last row is repeated, and can_pad(batch).
std::vector<nn::any_tensor> join(std::span<const waiting_call> batch, std::size_t rows);

// Answers each request with its rows; of one request with the whole outputs, if no rows were added. `rows`: what join()
// received. False, and answers nothing, when an output does not have as many rows. `model`: the outputs that the model
// says it has. Throws refusal (failed), and answers nothing, where an output has more dimensions than an answer may
// have.
bool answer_each(std::span<waiting_call> batch, const std::vector<nn::value_info>& model,
                 const std::vector<nn::any_tensor>& outputs, std::size_t rows);

}  // namespace sluice::serve
