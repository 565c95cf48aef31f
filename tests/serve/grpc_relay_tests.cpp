// SPDX-License-Identifier: Apache-2.0
// A connection of gRPC's relay, between two pairs of sockets. epoll says each change once.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "serve/connection_limits.hpp"
#include "serve/grpc/relayed_connection.hpp"
#include "sluice/io/file_descriptor.hpp"
#include "sluice/serve/request_budget.hpp"

namespace sluice::serve::grpc_relay_tests {
namespace {

using state = relayed_connection::state;

struct pair_of_sockets {
    pair_of_sockets() {
        std::array<int, 2> made{};
        EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, made.data()), 0);
        relays = io::file_descriptor(made[0]);
        others = io::file_descriptor(made[1]);
    }

    io::file_descriptor relays, others;
};

struct relayed {
    relayed() {
        const sockaddr_in from{.sin_family = AF_INET, .sin_port = 0, .sin_addr = {}, .sin_zero = {}};
        one = std::make_unique<relayed_connection>(std::move(client.relays), std::move(grpc.relays),
                                                   limits.enter(reinterpret_cast<const sockaddr*>(&from)).its,
                                                   std::make_shared<request_budget>(1 << 20), nullptr,
                                                   relayed_connection::clock::now());
    }
    state pump() { return one->pump(room); }

    pair_of_sockets client, grpc;
    connection_limits limits{10, 10, {}};
    std::vector<std::byte> room = std::vector<std::byte>(64 << 10);
    std::unique_ptr<relayed_connection> one;
};

void write(const io::file_descriptor& to, std::string_view text) {
    EXPECT_EQ(::send(to.get(), text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
}

// What is there, and whether the end comes after it.
std::string what_comes(const io::file_descriptor& at) {
    std::string all;
    std::array<char, 100> some{};
    ssize_t got = 0;
    while ((got = ::recv(at.get(), some.data(), some.size(), 0)) > 0)
        all.append(some.data(), static_cast<std::size_t>(got));
    return all + (got == 0 ? " and the end" : "");
}

TEST(grpc_relay, passes_on_what_is_there) {
    relayed its;
    write(its.client.others, "PRI * HTTP/2.0");
    write(its.grpc.others, "from gRPC");
    EXPECT_EQ(its.pump(), state::open);
    EXPECT_EQ(what_comes(its.grpc.others), "PRI * HTTP/2.0");
    EXPECT_EQ(what_comes(its.client.others), "from gRPC");
}

// The bytes and the end after them are one change where both were there before the first look.
TEST(grpc_relay, passes_on_an_end_that_came_with_the_last_bytes) {
    {
        relayed its;
        write(its.client.others, "PRI");
        ::shutdown(its.client.others.get(), SHUT_WR);
        its.one->hang_up(its.one->client());
        EXPECT_EQ(its.pump(), state::open);
        EXPECT_EQ(what_comes(its.grpc.others), "PRI and the end");
    }
    relayed its;
    write(its.grpc.others, "the last");
    ::shutdown(its.grpc.others.get(), SHUT_WR);
    its.one->hang_up(its.one->to_grpc());
    EXPECT_EQ(its.pump(), state::ended);
    its.one->finish(its.room);
    EXPECT_EQ(what_comes(its.client.others), "the last and the end");
}

}  // namespace
}  // namespace sluice::serve::grpc_relay_tests
