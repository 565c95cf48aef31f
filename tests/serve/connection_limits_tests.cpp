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

TEST(connection_limits, a_proxy_is_named_by_its_address) {
    EXPECT_THROW(connection_limits(1, 1, {"localhost"}), error);
    EXPECT_THROW(connection_limits(1, 1, {"10.0.0.0/8"}), error);
}

}  // namespace
}  // namespace sluice::serve::connection_limits_tests
