// SPDX-License-Identifier: Apache-2.0
#include "serve/served_hosts.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cstddef>

#include "sluice/base/error.hpp"
#include "sluice/base/printable.hpp"

namespace sluice::serve {
namespace {

constexpr std::size_t longest_host_name = 253;  // of DNS

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// The host of "host:port" and "[host]:port"; empty for what is neither.
std::string_view host_of(std::string_view authority) noexcept {
    const bool has_brackets = authority.starts_with('[');
    const std::size_t end = has_brackets ? authority.find(']') : authority.find(':');
    if (has_brackets && end == std::string_view::npos) return {};
    const std::string_view port = end == std::string_view::npos ? "" : authority.substr(end + (has_brackets ? 1 : 0));
    const bool is_port =
        port.empty() ||
        (port.front() == ':' && std::ranges::all_of(port.substr(1), [](char c) { return c >= '0' && c <= '9'; }));
    if (!is_port) return {};
    return has_brackets ? authority.substr(1, end - 1) : authority.substr(0, end);
}

bool is_same(std::string_view a, std::string_view lower_case) noexcept {
    return std::ranges::equal(a, lower_case, {}, lower);
}

template <typename Address>
bool parses_as(int family, std::string_view text, Address& to) noexcept {
    std::array<char, INET6_ADDRSTRLEN> ended{};
    if (text.size() >= ended.size()) return false;
    std::ranges::copy(text, ended.begin());
    return ::inet_pton(family, ended.data(), &to) == 1;
}

bool is_loopback(std::string_view host) noexcept {
    in_addr v4{};
    if (parses_as(AF_INET, host, v4)) return (ntohl(v4.s_addr) >> 24) == 127;
    in6_addr v6{};
    return parses_as(AF_INET6, host, v6) && IN6_IS_ADDR_LOOPBACK(&v6);
}

bool is_address(std::string_view host) noexcept {
    in_addr v4{};
    in6_addr v6{};
    return parses_as(AF_INET, host, v4) || parses_as(AF_INET6, host, v6);
}

bool is_host(std::string_view text) noexcept {
    const auto is_part = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_';
    };
    in6_addr v6{};
    return !text.empty() && text.size() <= longest_host_name &&
           (std::ranges::all_of(text, is_part) || parses_as(AF_INET6, text, v6));
}

}  // namespace

served_hosts::served_hosts(const std::string& address, const std::vector<std::string>& names)
    : is_on_loopback_(is_loopback(address)), are_looked_at_(is_on_loopback_ || !names.empty()) {
    for (const std::string& each : names) {
        std::string name(each);
        if (name.starts_with('[') && name.ends_with(']')) name = name.substr(1, name.size() - 2);
        std::ranges::transform(name, name.begin(), lower);
        if (!is_host(name)) {
            throw error(errc::invalid_argument,
                        in_quotes(each) +
                            " is no name of a host; accepted is a name or an address without a port, such "
                            "as inference.example.org");
        }
        names_.push_back(std::move(name));
    }
}

bool served_hosts::accepts(std::string_view authority) const noexcept {
    if (!are_looked_at_) return true;
    std::string_view host = host_of(authority);
    if (host.ends_with('.')) host.remove_suffix(1);  // a name of DNS from its root
    if (is_same(host, "localhost") || is_loopback(host) || (!is_on_loopback_ && is_address(host))) return true;
    return std::ranges::any_of(names_, [&](const std::string& each) { return is_same(host, each); });
}

std::string served_hosts::why_not(std::string_view authority) const {
    std::string text =
        "this server is not called " + in_quotes(authority) + "; it answers to localhost, 127.0.0.1 and [::1]";
    for (const std::string& each : names_) text += ", " + each;
    return text + ". Its operator can add names (--host-name)";
}

}  // namespace sluice::serve
