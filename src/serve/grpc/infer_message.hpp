// SPDX-License-Identifier: Apache-2.0
// The messages of an infer request and its answer. Requests are hostile: each size is checked before it is used.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <inference.pb.h>
#include "sluice/nn/model.hpp"
#include "sluice/serve/served_model.hpp"
#include "sluice/serve/tensor_view.hpp"

namespace sluice::serve {

struct infer_message {
    std::vector<tensor_view> inputs;   // in the model's order; in the message or in `narrow`
    std::vector<std::size_t> outputs;  // of the model, in the request's order
    std::optional<std::chrono::microseconds> timeout;
    std::size_t priority = 0;                    // 0: none is named
    std::vector<std::vector<std::byte>> narrow;  // elements of 8 and 16 bits, which are longer in the message
};

// `from` must outlive what is given. Throws refusal (bad_request) that says where the request is wrong. Inputs fit the
// model by name; whether their types and shapes do, the model says.
infer_message read_infer_message(const inference::ModelInferRequest& from, const std::vector<nn::value_info>& inputs,
                                 const std::vector<nn::value_info>& outputs);

// `outputs` are all of the model's; those that are chosen are written, as raw contents.
void write_infer_answer(inference::ModelInferResponse& to, const served_model& model, const std::string& id,
                        std::span<const std::size_t> chosen, std::span<const tensor_view> outputs);

}  // namespace sluice::serve
