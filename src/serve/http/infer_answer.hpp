// SPDX-License-Identifier: Apache-2.0
// The body of an answer to an infer request.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "serve/http/infer_body.hpp"
#include "sluice/serve/served_model.hpp"

namespace sluice::serve {

// Writes the outputs that the request has chosen. Gives the length of the JSON when binary data follows it. Throws
// refusal (bad_request) for NaN and infinities in an output that is to be JSON, which has no such numbers, and for one
// that does not fit into its shared memory.
std::optional<std::size_t> write_infer_answer(std::string& to, const served_model& model, const infer_body& request,
                                              std::span<const tensor_view> outputs);

// Appends the text as a JSON string, in quotes.
void append_json_text(std::string& to, std::string_view text);

}  // namespace sluice::serve
