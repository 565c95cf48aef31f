// SPDX-License-Identifier: Apache-2.0
#include "serve/unpack_body.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <cstddef>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "serve/support/given_back.hpp"
#include "serve/support/http_server.hpp"
#include "sluice/serve/refusal.hpp"
#include "sluice/serve/request_budget.hpp"

namespace sluice::serve::unpack_body_tests {
namespace {

using ::testing::HasSubstr;
using testing::http_answer;
using testing::http_server;

constexpr int gzip = 16 + MAX_WBITS, zlib = MAX_WBITS, raw = -MAX_WBITS;

std::string packed(std::string_view text, int format) {
    z_stream stream{};
    EXPECT_EQ(::deflateInit2(&stream, 9, Z_DEFLATED, format, 8, Z_DEFAULT_STRATEGY), Z_OK);
    std::string made(::deflateBound(&stream, text.size()) + 64, '\0');
    stream.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(text.data()));
    stream.avail_in = static_cast<uInt>(text.size());
    stream.next_out = reinterpret_cast<Bytef*>(made.data());
    stream.avail_out = static_cast<uInt>(made.size());
    EXPECT_EQ(::deflate(&stream, Z_FINISH), Z_STREAM_END);
    made.resize(stream.total_out);
    ::deflateEnd(&stream);
    return made;
}

std::string text_of(std::size_t bytes) {
    std::string text;
    for (std::size_t i = 0; text.size() < bytes; ++i) text += std::to_string(i * 7919);
    text.resize(bytes);
    return text;
}

std::string unpacked(std::string_view body, content_coding coding, std::size_t most,
                     const std::function<void(std::size_t)>& charge) {
    body_unpacker its(body, coding, most, charge);
    while (!its.step()) continue;
    return its.take();
}

refusal_kind kind_of(std::string_view body, content_coding coding, std::size_t most = 1 << 20) {
    try {
        unpacked(body, coding, most, [](std::size_t) {});
    } catch (const refusal& why) {
        return why.kind();
    }
    return refusal_kind::failed;
}

TEST(unpack_body, gives_what_was_packed_in_each_format) {
    for (const std::size_t bytes : {0U, 1U, 16384U, 16385U, 3'000'000U}) {
        const std::string text = text_of(bytes);
        std::size_t charged = 0;
        const auto charge = [&](std::size_t more) { charged += more; };
        EXPECT_EQ(unpacked(packed(text, gzip), content_coding::gzip, bytes, charge), text);
        EXPECT_GE(charged + sizeof(std::string), bytes);  // a short text lies in the string itself
        EXPECT_LE(charged, 2 * bytes + 33'000);
        EXPECT_EQ(unpacked(packed(text, zlib), content_coding::deflate, bytes, charge), text);
        EXPECT_EQ(unpacked(packed(text, raw), content_coding::deflate, bytes, charge), text);
    }
}

TEST(unpack_body, refuses_what_becomes_too_long_before_it_takes_the_memory) {
    const std::string bomb = packed(std::string(100'000'000, 'a'), gzip);
    EXPECT_LT(bomb.size(), 200'000U);
    std::size_t charged = 0;
    try {
        unpacked(bomb, content_coding::gzip, 1'000'000, [&](std::size_t more) { charged += more; });
        FAIL() << "unpacked";
    } catch (const refusal& why) {
        EXPECT_EQ(why.kind(), refusal_kind::too_large);
        EXPECT_THAT(why.what(), HasSubstr("1000000 bytes"));
    }
    EXPECT_LE(charged, 1'000'100U);
}

TEST(unpack_body, refuses_what_is_damaged) {
    const std::string text = text_of(50'000), good = packed(text, gzip);
    for (std::size_t length = 0; length < good.size(); length += 997)
        EXPECT_EQ(kind_of(std::string_view(good).substr(0, length), content_coding::gzip), refusal_kind::bad_request);
    EXPECT_EQ(kind_of(std::string_view(good).substr(0, good.size() - 1), content_coding::gzip),
              refusal_kind::bad_request);
    EXPECT_EQ(kind_of(good + "x", content_coding::gzip), refusal_kind::bad_request);
    EXPECT_EQ(kind_of(good, content_coding::deflate), refusal_kind::bad_request);
    std::string wrong_sum = good;
    wrong_sum[good.size() - 6] ^= 1;
    EXPECT_EQ(kind_of(wrong_sum, content_coding::gzip), refusal_kind::bad_request);
}

TEST(unpack_body, codings_have_their_names) {
    EXPECT_EQ(content_coding_of("GZIP"), content_coding::gzip);
    EXPECT_EQ(content_coding_of("x-gzip"), content_coding::gzip);
    EXPECT_EQ(content_coding_of("deflate"), content_coding::deflate);
    EXPECT_EQ(content_coding_of("identity"), content_coding::identity);
    EXPECT_EQ(content_coding_of("gzip, deflate"), content_coding::other);
    EXPECT_EQ(content_coding_of("br"), content_coding::other);
}

// No piece of work is long, whatever the body is made of: one that becomes long, and one of many blocks that become
// nothing.
TEST(unpack_body, a_body_takes_as_many_pieces_as_it_is_long) {
    const auto pieces_of = [](std::string_view body, content_coding coding) {
        body_unpacker its(body, coding, 1 << 24, [](std::size_t) {});
        std::size_t pieces = 1;
        while (!its.step()) ++pieces;
        return pieces;
    };
    const std::size_t bytes = 1 << 24;
    EXPECT_GE(pieces_of(packed(std::string(bytes, 'a'), gzip), content_coding::gzip),
              bytes / body_unpacker::piece_bytes);
    std::string empty_blocks;
    while (empty_blocks.size() < bytes) empty_blocks += std::string_view("\0\0\0\xff\xff", 5);
    empty_blocks += std::string_view("\1\0\0\xff\xff", 5);  // the last one
    EXPECT_GE(pieces_of(empty_blocks, content_coding::deflate), bytes / body_unpacker::piece_bytes);
}

std::string request(const std::string& coding, const std::string& body, const std::string& more = {}) {
    return "POST /v2/models/m/infer HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
           "application/json\r\nContent-Encoding: " +
           coding + "\r\n" + more + "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}
const std::string question =
    R"({"inputs":[{"name":"x","datatype":"FP32","shape":[1,2],"data":[1,2]}],"outputs":[{"name":"y"}]})";

TEST(unpack_body, compressed_requests_are_answered) {
    const http_server server;
    for (const auto& [coding, format] : {std::pair{"gzip", gzip}, {"deflate", zlib}, {"deflate", raw}}) {
        const http_answer got = server.ask(request(coding, packed(question, format)));
        EXPECT_EQ(got.status, 200) << got.body;
        EXPECT_THAT(got.body, HasSubstr("\"data\":[2,4]"));
    }
    for (const char* const coding : {"gzip", "deflate"})
        EXPECT_THAT(server.ask(request(coding, "{}")).body, HasSubstr("it is damaged"));
    // The length of the JSON is that of the body that it becomes.
    const std::string head =
        R"({"inputs":[{"name":"x","datatype":"FP32","shape":[1,2],"parameters":{"binary_data_size":8}}]})";
    const std::string both = head + std::string("\0\0\x80\x3f\0\0\0\x40", 8);
    const std::string length = "Inference-Header-Content-Length: " + std::to_string(head.size()) + "\r\n";
    EXPECT_EQ(server.ask(request("gzip", packed(both, gzip), length)).status, 200);
}

// While the loop is held, a long body and then another request arrive. The other one is answered first.
TEST(unpack_body, other_connections_are_answered_between_the_pieces) {
    const http_server server;
    std::mutex mutex;
    std::vector<std::string> answered;
    const http_front front(*server.models, {.port = 0, .log_requests = true}, [&](const log_line& line) {
        const std::lock_guard lock(mutex);
        if (line.event == "request") answered.push_back(line.message);
    });
    // One read gets all of it, and what it becomes is refused by the thread that has unpacked it.
    const std::string body = packed(std::string(12'000'000, ' '), gzip);
    testing::raw_client holds(front.port()), packs(front.port()), asks(front.port());
    for (testing::raw_client* const each : {&holds, &packs, &asks})
        EXPECT_EQ(each->ask(testing::get_request("/v2")).status, 200);  // the loop has it
    ASSERT_LT(body.size(), 15'000U);
    {
        const testing::held loop(*server.fake);
        holds.send(testing::infer_request(1));
        server.fake->wait_until_running();
        packs.send(request("gzip", body));
        asks.send(testing::get_request("/v2/health/live"));
    }
    EXPECT_EQ(holds.receive().status, 200);
    EXPECT_EQ(asks.receive().status, 200);
    EXPECT_EQ(packs.receive().status, 400);
    const std::lock_guard lock(mutex);
    ASSERT_EQ(answered.size(), 6U);
    EXPECT_THAT(answered[4], HasSubstr("/v2/health/live"));
    EXPECT_THAT(answered[5], HasSubstr("/v2/models/m/infer"));
}

// zlib has its state before the first byte is unpacked.
TEST(unpack_body, its_state_is_memory_of_requests) {
    static std::size_t used = 0;
    z_stream stream{};
    stream.zalloc = [](voidpf, uInt count, uInt size) -> voidpf {
        used += std::size_t{count} * size;
        return std::malloc(std::size_t{count} * size);
    };
    stream.zfree = [](voidpf, voidpf its) { std::free(its); };
    ASSERT_EQ(::inflateInit2(&stream, gzip), Z_OK);
    std::string body = packed(std::string(100'000, 'a'), gzip), made(50'000, '\0');
    stream.next_in = reinterpret_cast<Bytef*>(body.data());
    stream.avail_in = static_cast<uInt>(body.size());
    stream.next_out = reinterpret_cast<Bytef*>(made.data());
    stream.avail_out = static_cast<uInt>(made.size());
    EXPECT_EQ(::inflate(&stream, Z_NO_FLUSH), Z_OK);
    ::inflateEnd(&stream);
    EXPECT_LE(used, body_unpacker::state_bytes);

    const std::size_t body_bytes = 40 << 10;  // for what the body becomes, which is less than this
    const auto ask = [](std::size_t bytes) {
        const auto budget = std::make_shared<request_budget>(bytes);
        const http_server server({.budget = budget});
        const int status = server.ask(request("gzip", packed(question, gzip))).status;
        testing::expect_given_back(*budget);
        return status;
    };
    EXPECT_EQ(ask(body_bytes), 503);
    EXPECT_EQ(ask(body_bytes + body_unpacker::state_bytes), 200);
}

TEST(unpack_body, a_bomb_is_refused_and_its_memory_is_given_back) {
    const auto budget = std::make_shared<request_budget>(10'000'000);
    const http_server server({.body_bytes = 1'000'000, .budget = budget});
    EXPECT_EQ(server.ask(request("gzip", packed(std::string(100'000'000, ' '), gzip))).status, 413);
    testing::expect_given_back(*budget);
    const http_server narrow({.body_bytes = 50'000'000, .budget = budget});
    EXPECT_EQ(narrow.ask(request("gzip", packed(std::string(40'000'000, ' '), gzip))).status, 503);
    testing::expect_given_back(*budget);
    EXPECT_EQ(narrow.ask(request("gzip", packed(question, gzip))).status, 200);
}

}  // namespace
}  // namespace sluice::serve::unpack_body_tests
