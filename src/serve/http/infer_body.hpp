// SPDX-License-Identifier: Apache-2.0
// The body of an infer request: JSON, and after it binary tensor data. Bodies are hostile: each size is checked against
// what is there before it is used.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "serve/charged_memory.hpp"
#include "serve/growing_memory.hpp"
#include "serve/shared_tensors.hpp"
#include "sluice/nn/model.hpp"
#include "sluice/nn/text_codes.hpp"
#include "sluice/serve/sequence.hpp"
#include "sluice/serve/tensor_view.hpp"

namespace sluice::serve {

struct chosen_output {
    std::size_t index = 0;   // in the model's order
    bool is_binary = false;  // after the JSON of the answer; never with a place
    output_place place = {};
};

struct infer_body {
    std::string id;
    bool has_id = false;
    std::optional<std::string> model_name;  // that the body repeats, as the client of KServe does
    std::vector<tensor_view> inputs;        // in the model's order; in `numbers`, `codes`, `shared` or the body
    std::vector<chosen_output> outputs;     // in the request's order
    std::optional<std::chrono::microseconds> timeout;
    std::size_t priority = 0;                  // 0: none is named
    std::optional<sequence_request> sequence;  // without a budget
    growing_memory numbers;                    // those that were JSON
    std::unique_ptr<shared_tensors> shared = std::make_unique<shared_tensors>();
    std::unique_ptr<charged_memory> codes = std::make_unique<charged_memory>();  // of texts that were not JSON

    // Of what it had, a little memory stays for the next request.
    void clear() noexcept;
};

class infer_body_reader {
public:
    // JSON that is longer than json_bytes is refused.
    explicit infer_body_reader(std::size_t json_bytes);
    ~infer_body_reader();

    // `json_bytes`: the length of the JSON at the body's beginning; none: the body is JSON. The body's contents stay as
    // they are; its capacity may grow. `texts`: the model's. Throws refusal (bad_request) that says where the body is
    // wrong. Inputs fit the model by name; whether their types and shapes do, the model says (require_inputs).
    // `memory`: the regions that the request may name, and what it counts for. `state`: which inputs and outputs a
    // request of a sequence does not have.
    void read(std::string& body, std::optional<std::size_t> json_bytes, const std::vector<nn::value_info>& inputs,
              const std::vector<nn::value_info>& outputs, const nn::text_codes& texts, infer_body& to,
              const shared_memory_access& memory = {}, const state_values& state = {});

    // Of the longest document that can be read without more memory.
    std::size_t kept_json_bytes() const noexcept;

private:
    struct parser;
    class parser_end;
    std::unique_ptr<parser> parser_;
    std::size_t json_bytes_;
};

}  // namespace sluice::serve
