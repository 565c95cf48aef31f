// SPDX-License-Identifier: Apache-2.0
#include "serve/http/reply.hpp"

#include <array>
#include <ctime>

#include "serve/http/infer_answer.hpp"

namespace sluice::serve {
namespace {

std::string_view status_line(int status) {
    switch (status) {
        case 200: return "HTTP/1.1 200 OK\r\n";
        case 400: return "HTTP/1.1 400 Bad Request\r\n";
        case 401: return "HTTP/1.1 401 Unauthorized\r\n";
        case 403: return "HTTP/1.1 403 Forbidden\r\n";
        case 404: return "HTTP/1.1 404 Not Found\r\n";
        case 405: return "HTTP/1.1 405 Method Not Allowed\r\n";
        case 408: return "HTTP/1.1 408 Request Timeout\r\n";
        case 413: return "HTTP/1.1 413 Content Too Large\r\n";
        case 415: return "HTTP/1.1 415 Unsupported Media Type\r\n";
        case 421: return "HTTP/1.1 421 Misdirected Request\r\n";
        case 429: return "HTTP/1.1 429 Too Many Requests\r\n";
        case 431: return "HTTP/1.1 431 Request Header Fields Too Large\r\n";
        case 503: return "HTTP/1.1 503 Service Unavailable\r\n";
        case 504: return "HTTP/1.1 504 Gateway Timeout\r\n";
        default: return "HTTP/1.1 500 Internal Server Error\r\n";
    }
}

int status_of(refusal_kind kind) {
    switch (kind) {
        case refusal_kind::bad_request: return 400;
        case refusal_kind::not_found: return 404;
        case refusal_kind::forbidden: return 403;
        case refusal_kind::queue_full: return 429;
        case refusal_kind::unavailable: return 503;
        case refusal_kind::late: return 504;
        case refusal_kind::cancelled: return 499;
        case refusal_kind::failed: return 500;
        case refusal_kind::no_memory: return 503;
        case refusal_kind::too_large: return 413;
    }
    return 500;
}

}  // namespace

reply error_reply(int status, std::string_view why) {
    reply made;
    made.status = status;
    made.body = R"({"error":)";
    append_json_text(made.body, why);
    made.body += '}';
    return made;
}

reply reply_of(const refusal& why) {
    reply made = error_reply(status_of(why.kind()), why.why());
    made.retry = why.is_for_now();
    if (why.kind() == refusal_kind::queue_full && why.waiting() != 0) {
        made.body.pop_back();
        made.body += R"(,"queue_length":)" + std::to_string(why.waiting()) + "}";
    }
    return made;
}

reply reply_of_failure(const std::exception& failure) noexcept {
    const refusal why = refusal_of(failure);
    try {
        return reply_of(why);
    } catch (const std::exception&) {
        reply made;
        made.status = 503;
        made.lacks_memory = true;
        return made;
    }
}

void append_head(std::string& to, const reply& what, bool keeps_connection, std::string_view date) {
    to += status_line(what.status);
    to += "Date: ";
    to += date;
    to += "\r\nContent-Type: ";
    to += what.content_type;
    to += "\r\nContent-Length: ";
    to += std::to_string(what.body.size());
    if (what.json_bytes) to += "\r\nInference-Header-Content-Length: " + std::to_string(*what.json_bytes);
    if (!what.allow.empty()) (to += "\r\nAllow: ") += what.allow;
    if (what.asks_token) to += "\r\nWWW-Authenticate: Bearer";
    if (what.retry) to += "\r\nRetry-After: " + std::to_string(what.retry_seconds);
    if (what.is_page) {
        to +=
            "\r\nContent-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; script-src "
            "'unsafe-inline'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
            "\r\nX-Content-Type-Options: nosniff";
    }
    to += keeps_connection ? "\r\n\r\n" : "\r\nConnection: close\r\n\r\n";
}

std::string http_date() {
    constexpr std::array days{"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    constexpr std::array months{"Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    const std::time_t now = std::time(nullptr);
    std::tm parts{};
    ::gmtime_r(&now, &parts);
    std::array<char, 40> text{};
    const std::size_t length = std::strftime(text.data(), text.size(), "%d %b %Y %H:%M:%S GMT", &parts);
    std::string date = std::string(days[static_cast<std::size_t>(parts.tm_wday)]) + ", ";
    date.append(text.data(), length);
    date.replace(8, 3, months[static_cast<std::size_t>(parts.tm_mon)]);  // whatever the locale
    return date;
}

}  // namespace sluice::serve
