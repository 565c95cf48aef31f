// SPDX-License-Identifier: Apache-2.0
#include "serve/grpc/http2_watch.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

namespace sluice::serve::http2_watch_tests {
namespace {

using namespace std::chrono_literals;

constexpr int data = 0, headers = 1, rst_stream = 3, settings = 4, ping = 6, window_update = 8, continuation = 9;
constexpr int ends_stream = 1, ends_headers = 4;

std::string frame(int type, int flags, std::uint32_t stream, const std::string& payload = "") {
    std::string made;
    for (const int shift : {16, 8, 0}) made += static_cast<char>(payload.size() >> shift);
    made += static_cast<char>(type);
    made += static_cast<char>(flags);
    for (const int shift : {24, 16, 8, 0}) made += static_cast<char>(stream >> shift);
    return made + payload;
}

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

struct watched {
    watched() { EXPECT_TRUE(send(std::string("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n") + frame(settings, 0, 0))); }

    bool send(const std::string& text) { return watch.from_client(bytes_of(text), now); }
    bool call(std::uint32_t stream) {
        return send(frame(headers, ends_headers, stream, "abc") + frame(data, ends_stream, stream, "message"));
    }
    void answer(std::uint32_t stream) {
        watch.from_server(bytes_of(frame(headers, ends_headers, stream, "x") + frame(data, 0, stream, "y") +
                                   frame(headers, ends_headers | ends_stream, stream, "z")));
    }

    http2_watch watch;
    http2_watch::clock::time_point now{};
};

TEST(http2_watch, calls_that_are_answered_may_be_as_many_as_they_like) {
    watched client;
    for (std::uint32_t i = 1; i < 40'001; i += 2) {
        ASSERT_TRUE(client.call(i)) << client.watch.why();
        client.answer(i);
    }
    EXPECT_EQ(client.watch.open_streams(), 0U);
    EXPECT_EQ(client.watch.counted_streams(client.now), 0U);
}

TEST(http2_watch, a_client_that_opens_and_resets_must_go) {
    watched client;
    std::uint32_t stream = 1;
    while (client.call(stream) && client.send(frame(rst_stream, 0, stream, "0000"))) stream += 2;
    EXPECT_EQ(stream / 2, http2_watch::most_streams);
    EXPECT_EQ(client.watch.why(), "too many streams are open or were reset");
}

TEST(http2_watch, resets_are_forgotten_with_time) {
    watched client;
    std::uint32_t stream = 1;
    for (int second = 0; second < 20; ++second, client.now += 1s) {
        for (std::size_t i = 0; i < http2_watch::forgotten_in_a_second; ++i, stream += 2) {
            ASSERT_TRUE(client.call(stream));
            ASSERT_TRUE(client.send(frame(rst_stream, 0, stream, "0000")));
        }
    }
    // Of calls that are answered a reset says nothing.
    for (int i = 0; i < 5000; ++i, stream += 2) {
        ASSERT_TRUE(client.call(stream));
        client.answer(stream);
        ASSERT_TRUE(client.send(frame(rst_stream, 0, stream, "0000")));
    }
}

TEST(http2_watch, streams_that_stay_open_have_a_limit) {
    watched client;
    std::uint32_t stream = 1;
    while (client.call(stream)) stream += 2;
    EXPECT_EQ(stream / 2, http2_watch::most_streams);
}

TEST(http2_watch, long_headers_and_frames_that_carry_nothing_end_the_connection) {
    {
        watched client;
        EXPECT_TRUE(client.send(frame(headers, 0, 1, std::string(16'000, 'a'))));
        int more = 0;
        while (client.send(frame(continuation, 0, 1, std::string(16'000, 'a')))) ++more;
        EXPECT_EQ(more, 3);
    }
    {
        watched client;
        EXPECT_TRUE(client.send(frame(headers, 0, 1)));
        int more = 0;
        while (client.send(frame(continuation, 0, 1))) ++more;
        EXPECT_LT(more, 20);
    }
    for (const int type : {int{data}, settings, ping, 2, 77}) {
        watched client;
        std::size_t count = 0;
        while (client.send(frame(type, 0, type == data ? 1 : 0))) ASSERT_LT(++count, 100'000U) << type;
        EXPECT_GT(count, 1000U);
    }
    watched client;
    for (int i = 0; i < 100'000; ++i) ASSERT_TRUE(client.send(frame(window_update, 0, 0, "0001")));
    for (int i = 0; i < 100'000; ++i) ASSERT_TRUE(client.send(frame(ping, 1, 0, "12345678")));  // they acknowledge
}

// However the bytes are cut.
TEST(http2_watch, finds_the_same_frames_in_any_pieces) {
    std::mt19937 random(7);
    std::string text = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    for (std::uint32_t i = 1; i < 200; i += 2)
        text += frame(headers, ends_headers, i, std::string(random() % 100, '\1')) +
                frame(data, 0, i, std::string(random() % 300, '\0'));
    for (int round = 0; round < 50; ++round) {
        http2_watch watch;
        std::span<const std::byte> rest = bytes_of(text);
        while (!rest.empty()) {
            const std::size_t part = std::min<std::size_t>(rest.size(), 1 + random() % 30);
            ASSERT_TRUE(watch.from_client(rest.first(part), {}));
            rest = rest.subspan(part);
        }
        ASSERT_EQ(watch.open_streams(), 100U);
    }
}

}  // namespace
}  // namespace sluice::serve::http2_watch_tests
