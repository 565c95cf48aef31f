// SPDX-License-Identifier: Apache-2.0
#include "serve/http/header_check.hpp"

#include <string>

#include "serve/front_clients.hpp"
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

// Empty: any token will do.
std::optional<client_role> role_for(endpoint to) {
    switch (to) {
        case endpoint::infer:
        case endpoint::regions_register:
        case endpoint::regions_unregister: return client_role::infer;
        case endpoint::metrics:
        case endpoint::timeline:
        case endpoint::timeline_picture:
        case endpoint::all_statistics:
        case endpoint::model_statistics:
        case endpoint::regions_status: return client_role::observe;
        case endpoint::repository_load:
        case endpoint::repository_unload: return client_role::load;
        default: return std::nullopt;
    }
}

std::optional<reply> client_refusal(endpoint to, access_list::client* client) {
    if (client == nullptr) {
        reply made = error_reply(401, why_token);
        made.asks_token = true;
        return made;
    }
    try {
        admit(*client, role_for(to));
    } catch (const refusal& why) {
        return reply_of(why);
    }
    return std::nullopt;
}

bool is_accepted_type(const std::string& type) {
    return type.empty() || type == json_type || type == "application/octet-stream";
}

}  // namespace

std::optional<reply> header_refusal(const http_message& message, const route& to, std::optional<std::uint64_t> length,
                                    const front_state& state, access_list::client* client) {
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
    if (state.options.clients && needs_token(to.to))
        if (std::optional<reply> refused = client_refusal(to.to, client)) return refused;
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
    if (is_post && state.is_draining && to.to != endpoint::repository_index) {
        reply made = error_reply(503, "the server ends and takes no more requests");
        made.retry = true;  // by then another one may be there
        return made;
    }
    return std::nullopt;
}

}  // namespace sluice::serve
