// SPDX-License-Identifier: Apache-2.0
// What the front ends say of clients and their tokens.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "sluice/serve/access_list.hpp"
#include "sluice/serve/log.hpp"
#include "sluice/serve/request_budget.hpp"

namespace sluice::serve {

inline constexpr std::string_view why_token = "a token is needed (Authorization: Bearer TOKEN)";

// What a front end counts memory for: `asked`, that of the clients, or its own of `bytes`. Throws error
// (invalid_argument) where the clients are of another one than `asked`.
std::shared_ptr<request_budget> budget_of_front(const std::shared_ptr<request_budget>& asked,
                                                const access_list* clients, std::size_t bytes);

// Counts a request of this role, or without one of any. Throws refusal: forbidden where the client may not do this, and
// queue_full where it is one too many for now.
void admit(access_list::client& its, std::optional<client_role> what);

// The log's line of a load or an unload that a client has asked for. `why`: it has failed; empty: it has not. Without a
// log nothing happens, and without memory for the line.
void log_change(const log_sink& log, std::string_view who, std::string_view model, bool loads,
                std::string_view why) noexcept;

// For the log: "the client 'robot'", or that there are no tokens.
std::string words_of(const access_list::client* its);

}  // namespace sluice::serve
