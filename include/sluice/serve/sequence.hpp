// SPDX-License-Identifier: Apache-2.0
// Sequences: requests that are steps of a network with memory. The server keeps what a step's outputs leave for the
// next step's inputs, the state, so a request of a sequence neither brings nor gets it.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sluice/serve/request_budget.hpp"

namespace sluice::serve {

// What clients call a sequence of one model: an integer or a text. 7 and "7" are two, and so are 7 of two clients that
// the server knows by their tokens.
struct sequence_id {
    static constexpr std::size_t most_bytes = 128;  // of a text

    std::string text;          // empty: the number counts
    std::uint64_t number = 0;  // where `text` is empty
    std::uint32_t client = 0;  // access_list::client::number of whose it is; 0: of those without a token

    // For people. Costs a copy of the text.
    std::string words() const;
    friend auto operator<=>(const sequence_id&, const sequence_id&) = default;
};

// That a request is a step of a sequence.
struct sequence_request {
    sequence_id id;       // whose step it is
    bool begins = false;  // from zeros; also where a sequence of this id is live
    bool ends = false;    // after this step the server keeps nothing of it
    // How many steps of the sequence were made before this one, so that a step that is asked for twice is made once.
    // None: it is the next one.
    std::optional<std::uint64_t> step = {};
    std::string client = {};  // the name of whose it is; empty: of those without a token
    // What the sequence's state counts for. Empty: for nothing.
    std::shared_ptr<request_budget> budget = {};
};

// Which inputs of a model are outputs of the step before.
struct state_values {
    // An input, and the output that it is in the next step.
    struct value {
        std::size_t input, output;  // their places in the model's order
    };

    std::vector<value> all;           // in the order of the inputs' names; empty: the model has no sequences
    std::vector<bool> input_states;   // of each input, whether it is state
    std::vector<bool> output_states;  // the same of each output
    std::string words;                // for people: "hn is the next h0", or why there are none
};

// Why the server has ended sequences.
enum class sequence_end : unsigned char {
    asked,      // by sequence_end
    restarted,  // by sequence_start, while it was live
    idle,       // no step came for too long
    replaced,   // the model was loaded again, with another state
};
constexpr std::size_t sequence_ends = 4;  // how many there are

// "asked"; costs O(1)
const char* name_of(sequence_end why) noexcept;

}  // namespace sluice::serve
