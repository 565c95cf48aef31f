// SPDX-License-Identifier: Apache-2.0
// The messages of an infer request and its answer. Requests are hostile: each size is checked before it is used.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <inference.pb.h>
#include "serve/shared_tensors.hpp"
#include "sluice/nn/model.hpp"
#include "sluice/serve/served_model.hpp"
#include "sluice/serve/tensor_view.hpp"

namespace sluice::serve {

struct infer_message {
    struct chosen_output {
        std::size_t index = 0;  // in the model's order
        output_place place = {};
    };

    std::vector<tensor_view> inputs;     // in the model's order; in the message, in `narrow` or in `shared`
    std::vector<chosen_output> outputs;  // in the request's order
    std::optional<std::chrono::microseconds> timeout;
    std::size_t priority = 0;                    // 0: none is named
    bool says_final = false;                     // of a stream: the answer says that it is the last for its request
    std::vector<std::vector<std::byte>> narrow;  // elements of 8 and 16 bits, which are longer in the message
    std::unique_ptr<shared_tensors> shared = std::make_unique<shared_tensors>();
};

// `from` must outlive what is given. `is_streamed`: it came in a stream. Throws refusal (bad_request) that says where
// the request is wrong. Inputs fit the model by name; whether their types and shapes do, the model says.
infer_message read_infer_message(const inference::ModelInferRequest& from, const std::vector<nn::value_info>& inputs,
                                 const std::vector<nn::value_info>& outputs, const shared_memory_access& shared_memory,
                                 bool is_streamed);

// `outputs` are all of the model's; those that are chosen are written, as raw contents or into shared memory. Throws
// refusal (bad_request) for one that does not fit there.
void write_infer_answer(inference::ModelInferResponse& to, const served_model& model, const std::string& id,
                        const infer_message& request, std::span<const tensor_view> outputs);

}  // namespace sluice::serve
