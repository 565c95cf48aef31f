// SPDX-License-Identifier: Apache-2.0
#include "serve/connection_limits.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "sluice/base/error.hpp"
#include "sluice/base/printable.hpp"

namespace sluice::serve {
namespace {

using client_address = connection_limits::address;

client_address mapped(const in_addr& v4) noexcept {
    client_address made{};
    made[10] = made[11] = 0xff;
    std::memcpy(made.data() + 12, &v4, sizeof(v4));
    return made;
}

client_address mapped(const in6_addr& v6) noexcept {
    client_address made{};
    std::memcpy(made.data(), &v6, sizeof(v6));
    return made;
}

std::optional<client_address> address_of(const sockaddr* from) noexcept {
    if (from->sa_family == AF_INET) return mapped(reinterpret_cast<const sockaddr_in*>(from)->sin_addr);
    if (from->sa_family == AF_INET6) return mapped(reinterpret_cast<const sockaddr_in6*>(from)->sin6_addr);
    return {};
}

std::optional<client_address> parsed(const std::string& text) noexcept {
    in_addr v4{};
    if (::inet_pton(AF_INET, text.c_str(), &v4) == 1) return mapped(v4);
    in6_addr v6{};
    if (::inet_pton(AF_INET6, text.c_str(), &v6) == 1) return mapped(v6);
    return {};
}

client_address parsed_proxy(const std::string& text) {
    if (const auto its = parsed(text)) return *its;
    throw error(errc::invalid_argument,
                in_quotes(text) + " is no address of a proxy; accepted is one of IPv4 or IPv6, such as 10.0.0.1");
}

bool is_of_this_machine(const client_address& from) noexcept {
    in6_addr v6{};
    std::memcpy(&v6, from.data(), sizeof(v6));
    return IN6_IS_ADDR_LOOPBACK(&v6) || (IN6_IS_ADDR_V4MAPPED(&v6) && from[12] == 127);
}

connection_limits::client client_of(client_address its) noexcept {
    in6_addr v6{};
    std::memcpy(&v6, its.data(), sizeof(v6));
    if (!IN6_IS_ADDR_V4MAPPED(&v6)) std::fill(its.begin() + 8, its.end(), static_cast<unsigned char>(0));
    return its;
}

std::string_view without_spaces(std::string_view text) noexcept {
    constexpr std::string_view spaces = " \t";
    const std::size_t begin = std::min(text.find_first_not_of(spaces), text.size());
    return text.substr(begin, text.find_last_not_of(spaces) + 1 - begin);
}

// "192.0.2.1", "192.0.2.1:4711", "2001:db8::1", "[2001:db8::1]:4711"
std::string without_port(std::string_view text) {
    if (text.starts_with('[')) return std::string(text.substr(1, text.find(']') - 1));
    const std::size_t colon = text.find(':');
    const bool is_v6 = colon != std::string_view::npos && text.find(':', colon + 1) != std::string_view::npos;
    return std::string(is_v6 ? text : text.substr(0, colon));
}

}  // namespace

connection_limits::connection_limits(std::size_t most, std::size_t most_of_client,
                                     const std::vector<std::string>& proxies)
    : most_(most), most_of_client_(most_of_client) {
    for (const std::string& each : proxies) proxies_.push_back(parsed_proxy(each));
}

bool connection_limits::is_proxy(const address& its) const noexcept {
    return std::ranges::find(proxies_, its) != proxies_.end();
}

connection_limits::entry connection_limits::enter(const sockaddr* from, std::size_t more) {
    const std::optional<address> its = address_of(from);
    const bool is_one = its && is_proxy(*its);
    std::optional<client> counts_for;
    if (its && !is_one && !is_of_this_machine(*its)) counts_for = client_of(*its);
    auto made = std::make_shared<std::optional<place>>();
    const std::lock_guard lock(mutex_);
    // The client's limit first: no other's connection makes room for one that is refused all the same.
    if (!may_count(counts_for)) return {nullptr, refusal::too_many_of_client};
    if (all_ >= most_ + more) return {nullptr, refusal::too_many};
    count(counts_for);
    ++all_;
    place& one = made->emplace(*this, counts_for, is_one);
    return {std::shared_ptr<place>(std::move(made), &one), refusal::none};
}

bool connection_limits::count(const std::optional<client>& one) {
    if (!may_count(one)) return false;
    if (one) ++of_client_[*one].connections;
    return true;
}

bool connection_limits::may_count(const std::optional<client>& one) const {
    if (!one) return true;
    const auto at = of_client_.find(*one);
    return (at == of_client_.end() ? 0 : at->second.connections) < most_of_client_;
}

void connection_limits::forget(const std::optional<client>& one) noexcept {
    if (!one) return;
    const auto at = of_client_.find(*one);
    if (--at->second.connections == 0) of_client_.erase(at);
}

void connection_limits::leave(const std::optional<client>& one, std::size_t held) noexcept {
    const std::lock_guard lock(mutex_);
    --all_;
    if (one) of_client_.find(*one)->second.held_bytes -= held;
    forget(one);
}

std::optional<connection_limits::client> connection_limits::forwarded_client(std::string_view list) const {
    while (!list.empty()) {
        const std::size_t comma = list.rfind(',');
        const bool is_first = comma == std::string_view::npos;
        const auto its = parsed(without_port(without_spaces(is_first ? list : list.substr(comma + 1))));
        if (!its) return {};
        if (!is_proxy(*its)) return client_of(*its);
        list = is_first ? std::string_view() : list.substr(0, comma);
    }
    return {};
}

bool connection_limits::place::count_for(std::string_view forwarded) {
    if (!is_proxy_) return true;
    const std::optional<client> one = of_.forwarded_client(forwarded);
    if (one == counts_for_) return true;
    const std::lock_guard lock(of_.mutex_);
    if (!of_.count(one)) return false;
    of_.forget(counts_for_);
    counts_for_ = one;
    return true;
}

bool connection_limits::place::hold(std::size_t bytes, std::size_t most) noexcept {
    if (bytes == held_) return true;
    if (!counts_for_) {
        if (bytes > held_ && bytes > most) return false;
    } else {
        const std::lock_guard lock(of_.mutex_);
        std::size_t& all = of_.of_client_.find(*counts_for_)->second.held_bytes;
        if (bytes > held_ && all - held_ + bytes > most) return false;
        all = all - held_ + bytes;
    }
    held_ = bytes;
    return true;
}

std::size_t connection_limits::size() const {
    const std::lock_guard lock(mutex_);
    return all_;
}

}  // namespace sluice::serve
