// SPDX-License-Identifier: Apache-2.0
#include "serve/http/header_check.hpp"

#include <string>

#include "serve/access_token.hpp"
#include "sluice/base/printable.hpp"

namespace sluice::serve {
namespace {

namespace http = boost::beast::http;

// A page of another site must not use a server that only this machine reaches.
bool is_from_another_site(const http_message& message) {
    if (message.origin.empty()) return false;
    const std::size_t scheme = message.origin.find("://");
    return scheme == std::string::npos || message.origin.substr(scheme + 3) != message.host;
}

bool needs_token(endpoint to) {
    return to != endpoint::page && to != endpoint::server_live && to != endpoint::server_ready;
}

bool is_accepted_type(const std::string& type) {
    return type.empty() || type == json_type || type == "application/octet-stream";
}

}  // namespace

std::optional<reply> header_refusal(const http_message& message, const route& to, std::optional<std::uint64_t> length,
                                    const front_state& state) {
    // HTTP/1.0 needs no host. Browsers always send it.
    if (!message.host.empty() && !state.hosts.accepts(message.host))
        return error_reply(421, state.hosts.why_not(message.host));
    if (to.to == endpoint::none)
        return error_reply(404, "there is no such path; GET /v2/openapi.json describes those that there are");
    if (!is_allowed(to.to, message.method)) {
        reply made = error_reply(405, "accepted methods are " + std::string(methods_of(to.to)));
        made.allow = methods_of(to.to);
        return made;
    }
    if (is_from_another_site(message)) return error_reply(403, "requests of pages of other sites are refused");
    if (!state.options.tokens.empty() && needs_token(to.to) &&
        !has_token(message.authorization, state.options.tokens)) {
        reply made = error_reply(401, why_token);
        made.asks_token = true;
        return made;
    }
    const bool is_post = message.method == http::verb::post;
    if (is_post && !is_accepted_type(message.content_type)) {
        return error_reply(415, "the content type is " + in_quotes(message.content_type) +
                                    "; accepted are application/json and application/octet-stream");
    }
    if (!can_unpack(message.coding)) {
        return error_reply(415, "this content encoding is not supported; supported are " + known_content_codings());
    }
    if (length && *length > state.options.body_bytes) {
        return error_reply(413, "the body has " + std::to_string(*length) + " bytes; accepted are " +
                                    std::to_string(state.options.body_bytes));
    }
    if (is_post && state.is_draining && to.to != endpoint::repository_index)
        return error_reply(503, "the server ends and takes no more requests");
    return std::nullopt;
}

}  // namespace sluice::serve
