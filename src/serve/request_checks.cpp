// SPDX-License-Identifier: Apache-2.0
#include "serve/request_checks.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "sluice/base/printable.hpp"
#include "sluice/serve/refusal.hpp"

namespace sluice::serve {
namespace {

constexpr std::uint64_t longest_timeout_us = 3'600'000'000;

std::string names_of(const std::vector<nn::value_info>& values) {
    std::string all;
    for (const nn::value_info& each : values) all += (all.empty() ? "" : ", ") + in_quotes(each.name);
    return all;
}

}  // namespace

void refuse_request(const std::string& why) { throw refusal(refusal_kind::bad_request, why); }

std::string tensor_words(std::string_view kind, std::string_view name) {
    return std::string(kind) + " " + in_quotes(name);
}

std::size_t require_name(const std::vector<nn::value_info>& values, std::string_view name, const char* kind) {
    const auto found = std::ranges::find(values, name, &nn::value_info::name);
    if (found == values.end())
        refuse_request("the model has no " + tensor_words(kind, name) + "; it has " + names_of(values));
    return static_cast<std::size_t>(found - values.begin());
}

void refuse_twice(const std::string& where) { refuse_request(where + " is there twice"); }

void refuse_missing_input(std::string_view name) { refuse_request("the request lacks " + tensor_words("input", name)); }

io::dtype require_datatype(std::string_view datatype, const std::string& where) {
    const auto type = dtype_of_datatype(datatype);
    if (!type) {
        refuse_request(where + ": the datatype " + in_quotes(datatype) + " is not supported; supported are " +
                       known_datatypes());
    }
    return *type;
}

void append_length(tensor_shape& to, std::uint64_t length, const std::string& where) {
    if (to.rank() == tensor_shape::most_dimensions)
        refuse_request(where + " has more than " + std::to_string(tensor_shape::most_dimensions) + " dimensions");
    to.push_back(length);
}

std::optional<std::chrono::microseconds> require_timeout(std::uint64_t microseconds) {
    if (microseconds > longest_timeout_us) refuse_request("'timeout' is longer than an hour");
    if (microseconds == 0) return std::nullopt;
    return std::chrono::microseconds(microseconds);
}

void sequence_parameters::set_id(sequence_id its) {
    if (its.text.size() > sequence_id::most_bytes) {
        refuse_request("'sequence_id' has " + std::to_string(its.text.size()) + " bytes; accepted are " +
                       std::to_string(sequence_id::most_bytes) + " and integers");
    }
    id.reset();
    if (!its.text.empty() || its.number != 0) id = std::move(its);
}

std::optional<sequence_request> sequence_parameters::read(const state_values& state) const {
    if (!id) {
        if (begins || ends || step)
            refuse_request("sequence_start, sequence_end and sequence_step need a sequence_id, an integer or a text");
        return std::nullopt;
    }
    if (state.all.empty()) refuse_request("the request is of a sequence, and the model has none: " + state.words);
    if (begins && step.value_or(0) != 0)
        refuse_request("the step that begins a sequence (sequence_start) is step 0, and 'sequence_step' is " +
                       std::to_string(*step));
    return sequence_request{.id = *id, .begins = begins, .ends = ends, .step = step};
}

void require_no_state(bool is_there, std::string_view name) {
    if (!is_there) return;
    refuse_request(tensor_words("input", name) +
                   " is state of the sequence, which the server keeps: leave it out, or leave out sequence_id");
}

void require_change_parameter(std::string_view name, bool loads) {
    if (!loads && name == "unload_dependents") return;  // there are none
    refuse_request("the parameter " + in_quotes(name) + " is not supported: a model is " +
                   (loads ? "loaded as its files are" : "unloaded as a whole"));
}

bool may_pass_over(std::string_view parameter, bool says_nothing) noexcept {
    static constexpr std::array<std::string_view, 6> with_meaning{"sequence_id",    "sequence_start",
                                                                  "sequence_end",   "sequence_step",
                                                                  "classification", "headers"};  // also of a tensor
    return says_nothing ||
           (std::ranges::find(with_meaning, parameter) == with_meaning.end() && !parameter.starts_with("triton_"));
}

void refuse_parameter(const std::string& where, std::string_view key, const std::string& known) {
    refuse_request(where + " has the parameter " + in_quotes(key) +
                   ", which this server does not support; supported are " + known);
}

}  // namespace sluice::serve
