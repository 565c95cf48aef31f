// SPDX-License-Identifier: Apache-2.0
#include "serve/connection_limits.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include <string>
#include <vector>

#include "sluice/base/error.hpp"

namespace sluice::serve::connection_limits_tests {
namespace {

using refusal = connection_limits::refusal;

struct client {
    explicit client(const std::string& text) {
        if (::inet_pton(AF_INET, text.c_str(), &v4.sin_addr) == 1) {
            v4.sin_family = AF_INET;
            address = reinterpret_cast<const sockaddr*>(&v4);
        } else {
            EXPECT_EQ(::inet_pton(AF_INET6, text.c_str(), &v6.sin6_addr), 1) << text;
            v6.sin6_family = AF_INET6;
            address = reinterpret_cast<const sockaddr*>(&v6);
        }
    }
    client(const client&) = delete;
    client& operator=(const client&) = delete;

    sockaddr_in v4{};
    sockaddr_in6 v6{};
    const sockaddr* address = nullptr;
};

std::vector<connection_limits::entry> enter_all(connection_limits& limits, const std::string& from, int times) {
    const client its(from);
    std::vector<connection_limits::entry> all;
    for (int i = 0; i < times; ++i) all.push_back(limits.enter(its.address));
    return all;
}

TEST(connection_limits, an_address_cannot_have_all) {
    connection_limits limits(10, 3, {});
    {
        const auto one = enter_all(limits, "192.0.2.1", 4);
        EXPECT_TRUE(one[2].its);
        EXPECT_FALSE(one[2].its->is_proxy());
        EXPECT_EQ(one[3].why, refusal::too_many_of_client);
        // The same address, as a socket of IPv6 has it.
        EXPECT_EQ(enter_all(limits, "::ffff:192.0.2.1", 1)[0].why, refusal::too_many_of_client);
        EXPECT_TRUE(enter_all(limits, "192.0.2.2", 1)[0].its);
        EXPECT_TRUE(enter_all(limits, "2001:db8::1", 1)[0].its);
        EXPECT_EQ(limits.size(), 3U);
    }
    EXPECT_EQ(limits.size(), 0U);
    EXPECT_TRUE(enter_all(limits, "192.0.2.1", 1)[0].its);
}

// Another client's connection makes room where there are too many, and this one is refused all the same.
TEST(connection_limits, the_limit_of_the_client_comes_before_that_of_all) {
    connection_limits limits(3, 2, {});
    const auto its = enter_all(limits, "203.0.113.7", 2), others = enter_all(limits, "203.0.113.8", 1);
    EXPECT_EQ(enter_all(limits, "203.0.113.7", 1)[0].why, refusal::too_many_of_client);
    EXPECT_EQ(enter_all(limits, "203.0.113.8", 1)[0].why, refusal::too_many);
    EXPECT_EQ(limits.size(), 3U);
}

TEST(connection_limits, this_machine_and_proxies_have_the_limit_of_all) {
    for (const char* const from : {"127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1", "192.0.2.9", "2001:db8::9"}) {
        connection_limits limits(10, 3, {"192.0.2.9", "2001:db8::9"});
        const auto all = enter_all(limits, from, 11);
        EXPECT_TRUE(all[9].its) << from;
        EXPECT_EQ(all[10].why, refusal::too_many) << from;
        EXPECT_EQ(all[9].its->is_proxy(), std::string(from).ends_with('9')) << from;
        EXPECT_TRUE(limits.enter(client(from).address, 1).its);  // of a reserve
    }
}

// A client of IPv6 has 2^64 addresses.
TEST(connection_limits, addresses_of_one_network_of_ipv6_are_one_client) {
    connection_limits limits(10, 2, {"2001:db8:0:1::9"});
    const auto first = enter_all(limits, "2001:db8:0:1::1", 1), second = enter_all(limits, "2001:db8:0:1:ffff::2", 1);
    EXPECT_TRUE(second[0].its);
    EXPECT_EQ(enter_all(limits, "2001:db8:0:1::3", 1)[0].why, refusal::too_many_of_client);
    EXPECT_TRUE(enter_all(limits, "2001:db8:0:2::1", 1)[0].its);
    EXPECT_TRUE(enter_all(limits, "2001:db8:0:1::9", 1)[0].its->is_proxy());
    EXPECT_FALSE(enter_all(limits, "2001:db8:0:2::9", 1)[0].its->is_proxy());
}

TEST(connection_limits, a_connection_of_a_proxy_counts_for_the_client_that_it_names) {
    connection_limits limits(10, 1, {"10.0.0.1", "10.0.0.2", "127.0.0.1"});
    const auto proxies = enter_all(limits, "10.0.0.1", 3);
    EXPECT_TRUE(proxies[0].its->count_for("203.0.113.7"));
    EXPECT_TRUE(proxies[0].its->count_for("203.0.113.7"));  // it counts once
    for (const char* const same : {"203.0.113.7:4711", " 198.51.100.1 , 203.0.113.7", "203.0.113.7,10.0.0.2, 10.0.0.1",
                                   "[::ffff:203.0.113.7]:1"})
        EXPECT_FALSE(proxies[1].its->count_for(same)) << same;
    EXPECT_EQ(enter_all(limits, "203.0.113.7", 1)[0].why, refusal::too_many_of_client);
    EXPECT_TRUE(proxies[1].its->count_for("2001:db8::1"));
    EXPECT_FALSE(proxies[2].its->count_for("[2001:db8::2]:80"));  // of the same network
    // Then it counts for another one, or for no client.
    EXPECT_TRUE(proxies[0].its->count_for("203.0.113.8"));
    EXPECT_TRUE(proxies[2].its->count_for("203.0.113.7"));
    for (const char* const no_client : {"", "unknown", "10.0.0.2", "203.0.113.8, ", "[", ":", ",,"}) {
        EXPECT_TRUE(proxies[2].its->count_for(no_client)) << no_client;
        EXPECT_TRUE(enter_all(limits, "203.0.113.7", 1)[0].its) << no_client;
    }
    // Others may say what they like.
    const auto client = enter_all(limits, "203.0.113.9", 1);
    EXPECT_TRUE(client[0].its->count_for("203.0.113.8"));
    EXPECT_EQ(enter_all(limits, "203.0.113.9", 1)[0].why, refusal::too_many_of_client);
}

TEST(connection_limits, what_connections_of_one_client_keep_has_one_limit) {
    connection_limits limits(10, 5, {});
    auto one = enter_all(limits, "2001:db8::1", 2), same = enter_all(limits, "2001:db8::2", 1);
    const auto other = enter_all(limits, "2001:db8:1::1", 1), here = enter_all(limits, "127.0.0.1", 2);
    EXPECT_TRUE(one[0].its->hold(60, 100));
    EXPECT_TRUE(one[1].its->hold(40, 100));
    EXPECT_FALSE(same[0].its->hold(1, 100));
    EXPECT_FALSE(one[0].its->hold(61, 100));
    EXPECT_TRUE(other[0].its->hold(100, 100));
    one[1].its.reset();  // gives back what it has
    EXPECT_TRUE(same[0].its->hold(30, 100));
    EXPECT_TRUE(one[0].its->hold(70, 100));
    EXPECT_TRUE(one[0].its->hold(10, 50));  // less, though both have more than this limit
    EXPECT_TRUE(same[0].its->hold(90, 100));
    // On this machine each connection has the limit.
    for (const auto& each : here) {
        EXPECT_TRUE(each.its->hold(100, 100));
        EXPECT_FALSE(each.its->hold(101, 100));
    }
}

TEST(connection_limits, a_proxy_is_named_by_its_address) {
    EXPECT_THROW(connection_limits(1, 1, {"localhost"}), error);
    EXPECT_THROW(connection_limits(1, 1, {"10.0.0.0/8"}), error);
}

}  // namespace
}  // namespace sluice::serve::connection_limits_tests
