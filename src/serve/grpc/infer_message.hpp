// SPDX-License-Identifier: Apache-2.0
// The message of an infer request, read where it lies. Requests are hostile: each size is checked before it is used,
// and what is read takes no memory but for elements that are stored in another way than in a tensor; these count.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "serve/charged_memory.hpp"
#include "serve/shared_tensors.hpp"
#include "sluice/nn/model.hpp"
#include "sluice/nn/text_codes.hpp"
#include "sluice/serve/sequence.hpp"
#include "sluice/serve/tensor_view.hpp"

namespace sluice::serve {

// What must be known before the rest can be read. The texts are in the message.
struct infer_head {
    std::string_view model_name, model_version, id;
    std::size_t raw_contents = 0;  // how many there are
};

struct infer_message {
    struct chosen_output {
        std::size_t index = 0;  // in the model's order
        output_place place = {};
    };

    std::vector<tensor_view> inputs;     // in the model's order; in the message, in `decoded` or in `shared`
    std::vector<chosen_output> outputs;  // in the request's order
    std::optional<std::chrono::microseconds> timeout;
    std::size_t priority = 0;                  // 0: none is named
    std::optional<sequence_request> sequence;  // without a budget
    bool says_final = false;                   // of a stream: the answer says that it is the last for its request
    // Elements that are not in the message as a tensor has them: numbers of variable length, or in several parts, and
    // codes of texts. Empty: all are where they were.
    std::unique_ptr<charged_memory> decoded;
    std::unique_ptr<shared_tensors> shared;  // empty: no input is in shared memory
};

// Throws refusal (bad_request) for a message that is none.
infer_head read_infer_head(std::span<const std::byte> from);

// `from` must outlive what is given. `head` is of read_infer_head(). `is_streamed`: it came in a stream. Throws
// refusal: bad_request, which says where the request is wrong, and unavailable where the memory for requests is in use.
// Inputs fit the model by name; whether their types and shapes do, the model says. `state`: which inputs and outputs a
// request of a sequence does not have.
infer_message read_infer_message(std::span<const std::byte> from, const infer_head& head,
                                 const std::vector<nn::value_info>& inputs, const std::vector<nn::value_info>& outputs,
                                 const nn::text_codes& texts, const shared_memory_access& shared_memory,
                                 bool is_streamed, const state_values& state = {});

}  // namespace sluice::serve
