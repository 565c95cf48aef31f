// SPDX-License-Identifier: Apache-2.0
// What is sent as an answer, and its header's bytes.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "sluice/serve/refusal.hpp"

namespace sluice::serve {

inline constexpr std::string_view json_type = "application/json";

struct reply {
    int status = 200;
    std::string_view content_type = json_type;
    std::string body;
    std::string_view allow = {};            // the field Allow
    std::optional<std::size_t> json_bytes;  // Inference-Header-Content-Length
    bool is_page = false;                   // for a browser: with the fields that confine it
    bool asks_token = false;                // the request needs one
    bool retry = false;                     // the same request may succeed in a second
    int retry_seconds = 1;                  // of Retry-After
    bool lacks_memory = false;              // there was none for this reply: the connection sends one that needs none
};

// {"error": why}
reply error_reply(int status, std::string_view why);
reply reply_of(const refusal& why);
// The same of refusal_of(failure); where there is no memory for it, a reply with lacks_memory.
reply reply_of_failure(const std::exception& failure) noexcept;

// Appends the status line and the fields. `date` is the value of the field Date.
void append_head(std::string& to, const reply& what, bool keeps_connection, std::string_view date);

// The current time as the field Date says it.
std::string http_date();

}  // namespace sluice::serve
