// SPDX-License-Identifier: Apache-2.0
#include "serve/http/client/server_address.hpp"

#include <algorithm>
#include <charconv>

#include "sluice/base/error.hpp"
#include "sluice/base/printable.hpp"

namespace sluice::serve {
namespace {

[[noreturn]] void refuse(std::string_view text) {
    throw error(errc::invalid_argument, in_quotes(std::string(text)) +
                                            " is no server; accepted are HOST:PORT, http://HOST:PORT and "
                                            "https://HOST:PORT, with an address of IPv6 in brackets");
}

bool is_port(std::string_view text) {
    unsigned number = 0;
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
    return failure == std::errc() && end == text.data() + text.size() && number != 0 && number < 65536;
}

bool is_host(std::string_view text, bool is_v6) {
    return !text.empty() && std::ranges::all_of(text, [is_v6](char each) {
        const bool is_name = (each >= 'a' && each <= 'z') || (each >= 'A' && each <= 'Z') ||
                             (each >= '0' && each <= '9') || each == '.' || each == '-' || each == '_';
        return is_name || (is_v6 && (each == ':' || each == '%'));
    });
}

}  // namespace

server_address parse_server_address(std::string_view text) {
    const std::string_view all = text;
    server_address made;
    for (const std::string_view scheme : {"http://", "https://"}) {
        if (!text.starts_with(scheme)) continue;
        made.has_tls = scheme.starts_with("https");
        text.remove_prefix(scheme.size());
        if (text.ends_with('/')) text.remove_suffix(1);
        break;
    }
    const std::size_t colon = text.rfind(':');
    if (colon == std::string_view::npos || !is_port(text.substr(colon + 1))) refuse(all);
    std::string_view host = text.substr(0, colon);
    const bool is_v6 = host.starts_with('[') && host.ends_with(']');
    if (is_v6) host = host.substr(1, host.size() - 2);
    if (!is_host(host, is_v6)) refuse(all);
    made.host = host;
    made.port = text.substr(colon + 1);
    return made;
}

std::string to_string(const server_address& address) {
    const bool is_v6 = address.host.find(':') != std::string::npos;
    return (is_v6 ? "[" + address.host + "]" : address.host) + ":" + address.port;
}

}  // namespace sluice::serve
