// SPDX-License-Identifier: Apache-2.0
#include "serve/http/header_check.hpp"

#include <boost/beast/core/string.hpp>
#include <string>
#include <string_view>
#include <vector>

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

// The time says nothing about how much of a token was right.
bool has_token(std::string_view authorization, const std::vector<std::string>& tokens) {
    constexpr std::string_view scheme = "bearer ";
    if (authorization.size() <= scheme.size() ||
        !boost::beast::iequals(boost::beast::string_view(authorization.data(), scheme.size()), "bearer "))
        return false;
    authorization.remove_prefix(scheme.size());
    bool is_one = false;
    for (const std::string& each : tokens) {
        unsigned difference = each.size() == authorization.size() ? 0 : 1;
        for (std::size_t i = 0; i < authorization.size(); ++i)
            difference |= static_cast<unsigned char>(authorization[i] ^ each[i % each.size()]);
        is_one = is_one || difference == 0;
    }
    return is_one;
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
        reply made = error_reply(401, "a token is needed (Authorization: Bearer TOKEN)");
        made.asks_token = true;
        return made;
    }
    const bool is_post = message.method == http::verb::post;
    if (is_post && !is_accepted_type(message.content_type)) {
        return error_reply(415, "the content type is " + in_quotes(message.content_type) +
                                    "; accepted are application/json and application/octet-stream");
    }
    if (message.is_encoded) return error_reply(415, "a content encoding is not supported");
    if (length && *length > state.options.body_bytes) {
        return error_reply(413, "the body has " + std::to_string(*length) + " bytes; accepted are " +
                                    std::to_string(state.options.body_bytes));
    }
    if (is_post && state.is_draining && to.to != endpoint::repository_index)
        return error_reply(503, "the server ends and takes no more requests");
    return std::nullopt;
}

}  // namespace sluice::serve
