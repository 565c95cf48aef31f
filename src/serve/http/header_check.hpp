// SPDX-License-Identifier: Apache-2.0
// Whether a request is accepted by its header, before its body is read.
#pragma once

#include <cstdint>
#include <optional>

#include "serve/http/front_state.hpp"
#include "serve/http/message.hpp"
#include "serve/http/reply.hpp"
#include "serve/http/routes.hpp"

namespace sluice::serve {

// The refusal; empty when the header is right: then the request counts for `client`, who has its token. `length`: the
// value of Content-Length, where there is one.
std::optional<reply> header_refusal(const http_message& message, const route& to, std::optional<std::uint64_t> length,
                                    const front_state& state, access_list::client* client);

}  // namespace sluice::serve
