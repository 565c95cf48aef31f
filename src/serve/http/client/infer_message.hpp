// SPDX-License-Identifier: Apache-2.0
// Requests and answers of a client as the protocol's binary form.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "sluice/serve/client.hpp"

namespace sluice::serve {

struct infer_message {
    std::string path;
    std::string body;
    std::size_t json_bytes = 0;
};

// Throws error(invalid_argument) for inputs that are not in host memory, and names that no model has.
infer_message write_infer_request(const infer_request& request);

// Throws error(io_failed) for an answer that breaks the protocol.
infer_answer read_infer_answer(std::string_view body, std::optional<std::size_t> json_bytes);

// What a reply of this status says.
refusal refusal_of_reply(int status, std::string_view body);

}  // namespace sluice::serve
