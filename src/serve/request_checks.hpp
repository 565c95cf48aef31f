// SPDX-License-Identifier: Apache-2.0
// What is checked of an infer request alike, whatever protocol it comes by. All throw refusal (bad_request).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/nn/model.hpp"
#include "sluice/serve/sequence.hpp"
#include "sluice/serve/tensor_view.hpp"

namespace sluice::serve {

// A longer request to a model whose queue is full is refused without a look at it. A shorter one is read before, which
// takes microseconds, so that the timeline has its id.
constexpr std::size_t most_read_of_refused = 16 << 10;  // bytes

[[noreturn]] void refuse_request(const std::string& why);

// "input 'x'"
std::string tensor_words(std::string_view kind, std::string_view name);

// The place of the input or output (`kind`) of this name.
std::size_t require_name(const std::vector<nn::value_info>& values, std::string_view name, const char* kind);
// For a second tensor of the name; `where` is of tensor_words().
[[noreturn]] void refuse_twice(const std::string& where);
[[noreturn]] void refuse_missing_input(std::string_view name);
io::dtype require_datatype(std::string_view datatype, const std::string& where);
// Appends one more length.
void append_length(tensor_shape& to, std::uint64_t length, const std::string& where);
// 0 microseconds: no limit.
std::optional<std::chrono::microseconds> require_timeout(std::uint64_t microseconds);
// The parameters that make a request a step of a sequence, as they are read.
struct sequence_parameters {
    std::optional<sequence_id> id;
    bool begins = false, ends = false;
    std::optional<std::uint64_t> step = {};

    // 0 and an empty text say that there is no sequence. Throws for a text that is too long.
    void set_id(sequence_id its);
    // When all are read. None: the request is of no sequence. Throws where sequence_start, sequence_end or
    // sequence_step have no id, for a step that begins and is not step 0, and for a model without state.
    std::optional<sequence_request> read(const state_values& state) const;
};
// Of an input that is state: a request of a sequence must not bring it.
void require_no_state(bool is_there, std::string_view name);
// Of a request to load or unload a model.
void require_change_parameter(std::string_view name, bool loads);
// Whether a parameter that this server does not use may be passed over. Custom parameters are for a model's own code,
// which a network does not have. Those with a meaning that would be lost may not: `classification`, `headers`, and
// names that begin with `triton_`; unless their value says nothing: 0, false or an empty text.
bool may_pass_over(std::string_view parameter, bool says_nothing) noexcept;
// Of one that may not; `known` are those that have an effect.
[[noreturn]] void refuse_parameter(const std::string& where, std::string_view key, const std::string& known);

}  // namespace sluice::serve
