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

client_address parsed(const std::string& text) {
    in_addr v4{};
    if (::inet_pton(AF_INET, text.c_str(), &v4) == 1) return mapped(v4);
    in6_addr v6{};
    if (::inet_pton(AF_INET6, text.c_str(), &v6) == 1) return mapped(v6);
    throw error(errc::invalid_argument,
                in_quotes(text) + " is no address of a proxy; accepted is one of IPv4 or IPv6, such as 10.0.0.1");
}

bool is_of_this_machine(const client_address& from) noexcept {
    in6_addr v6{};
    std::memcpy(&v6, from.data(), sizeof(v6));
    return IN6_IS_ADDR_LOOPBACK(&v6) || (IN6_IS_ADDR_V4MAPPED(&v6) && from[12] == 127);
}

}  // namespace

connection_limits::connection_limits(std::size_t most, std::size_t most_of_client,
                                     const std::vector<std::string>& proxies)
    : most_(most), most_of_client_(most_of_client) {
    for (const std::string& each : proxies) proxies_.push_back(parsed(each));
}

connection_limits::entry connection_limits::enter(const sockaddr* from, std::size_t more) {
    const std::optional<address> its = address_of(from);
    const bool is_proxy = its && std::ranges::find(proxies_, *its) != proxies_.end();
    const bool counts_for_client = its && !is_proxy && !is_of_this_machine(*its);
    auto made = std::make_shared<std::optional<place>>();
    const std::lock_guard lock(mutex_);
    if (all_ >= most_ + more) return {nullptr, refusal::too_many};
    if (counts_for_client) {
        const auto [at, is_new] = of_client_.try_emplace(*its, 0);
        if (at->second >= most_of_client_) return {nullptr, refusal::too_many_of_client};
        ++at->second;
    }
    ++all_;
    place& one = made->emplace(*this, its.value_or(address{}), counts_for_client, is_proxy);
    return {std::shared_ptr<place>(std::move(made), &one), refusal::none};
}

void connection_limits::leave(const address& from, bool counts_for_client) noexcept {
    const std::lock_guard lock(mutex_);
    --all_;
    if (!counts_for_client) return;
    const auto at = of_client_.find(from);
    if (--at->second == 0) of_client_.erase(at);
}

std::size_t connection_limits::size() const {
    const std::lock_guard lock(mutex_);
    return all_;
}

}  // namespace sluice::serve
