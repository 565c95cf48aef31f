// SPDX-License-Identifier: Apache-2.0
// Shared memory over HTTP: registration, inputs, outputs, and hostile uses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "serve/support/given_back.hpp"
#include "serve/support/http_server.hpp"
#include "serve/support/known_clients.hpp"
#include "serve/support/shared_object.hpp"

namespace sluice::serve::http_shared_memory_tests {
namespace {

using ::testing::ElementsAre;
using testing::get_request;
using ::testing::HasSubstr;
using testing::http_answer;
using testing::http_server;
using testing::post_request;
using testing::shared_object;

const std::string base = "/v2/systemsharedmemory";

http_options sharing(http_options options = {}) {
    options.shared_memory = std::make_shared<shared_regions>();
    return options;
}

http_answer add(const http_server& server, const std::string& name, const shared_object& object,
                const std::string& more = R"(,"byte_size":64)") {
    return server.ask(
        post_request(base + "/region/" + name + "/register", R"({"key":")" + object.key() + "\"" + more + "}"));
}

std::string place(const std::string& region, const std::string& bytes, const std::string& offset) {
    return R"("parameters":{"shared_memory_region":")" + region + R"(","shared_memory_byte_size":)" + bytes +
           (offset.empty() ? "" : R"(,"shared_memory_offset":)" + offset) + "}";
}

http_answer infer(const http_server& server, const std::string& input, const std::string& outputs = {}) {
    return server.ask(post_request("/v2/models/m/infer", R"({"inputs":[{"name":"x","datatype":"FP32","shape":[1,2],)" +
                                                             input + "}]" + outputs + "}"));
}

TEST(http_shared_memory, regions_are_registered_listed_and_forgotten) {
    const http_server server(sharing());
    const shared_object object(128);
    EXPECT_THAT(server.ask(get_request("/v2")).body, HasSubstr("system_shared_memory"));
    EXPECT_EQ(add(server, "a", object).status, 200);
    EXPECT_EQ(add(server, "b", object, R"(,"offset":8,"byte_size":16)").status, 200);
    const std::string a = R"({"byte_size":64,"key":")" + object.key() + R"(","name":"a","offset":0})";
    const std::string b = R"({"byte_size":16,"key":")" + object.key() + R"(","name":"b","offset":8})";
    EXPECT_EQ(server.ask(get_request(base + "/status")).body, "[" + a + "," + b + "]");
    EXPECT_EQ(server.ask(get_request(base + "/region/b/status")).body, "[" + b + "]");
    EXPECT_EQ(server.ask(post_request(base + "/region/a/unregister", "")).status, 200);
    EXPECT_EQ(server.ask(get_request(base + "/region/a/status")).status, 400);
    EXPECT_EQ(server.ask(post_request(base + "/unregister", "{}")).status, 200);
    EXPECT_EQ(server.ask(get_request(base + "/status")).body, "[]");
}

TEST(http_shared_memory, wrong_registrations_are_refused) {
    const http_server server(sharing());
    const shared_object object(64);
    const auto refused = [&](const std::string& more, const std::string& why) {
        const http_answer got = add(server, "a", object, more);
        EXPECT_EQ(got.status, 400);
        EXPECT_THAT(got.body, HasSubstr(why));
    };
    refused("", "lacks 'byte_size'");
    refused(R"(,"byte_size":-1)", "'byte_size' is not an integer");
    refused(R"(,"byte_size":65)", "has 64");
    refused(R"(,"byte_size":8,"offset":18446744073709551612)", "has 64");
    refused(R"(,"byte_size":8,"size":8)", "unknown key 'size'; the keys are key, offset, byte_size");
    const std::string to = base + "/region/a/register";
    EXPECT_THAT(server.ask(post_request(to, R"({"key":"/etc/passwd","byte_size":1})")).body,
                HasSubstr("is no name of shared memory"));
    EXPECT_THAT(server.ask(post_request(to, R"({"key":7,"byte_size":1})")).body, HasSubstr("'key' is not a text"));
    EXPECT_THAT(server.ask(post_request(base + "/region/../register", R"({"key":"x","byte_size":1})")).body,
                HasSubstr("is no name of a region"));
    EXPECT_EQ(server.ask(get_request(to)).status, 405);
}

TEST(http_shared_memory, inputs_are_read_and_outputs_written_there) {
    const http_server server(sharing());
    const shared_object object(128);
    object.put(8 + 24, {3, 4});
    ASSERT_EQ(add(server, "a", object, R"(,"offset":8,"byte_size":64)").status, 200);
    EXPECT_THAT(infer(server, place("a", "8", "24")).body, HasSubstr("\"data\":[6,8]"));
    const http_answer got =
        infer(server, place("a", "8", "24"), R"(,"outputs":[{"name":"y",)" + place("a", "20", "40") + "}]");
    EXPECT_EQ(got.status, 200);
    EXPECT_THAT(got.body,
                HasSubstr(R"({"name":"y","datatype":"FP32","shape":[1,2],"parameters":{"shared_memory_region":"a",)"
                          R"("shared_memory_byte_size":8,"shared_memory_offset":40}})"));
    EXPECT_THAT(object.get(8 + 40, 3), ElementsAre(6, 8, 0));
    EXPECT_THAT(infer(server, place("a", "8", "24")).body, HasSubstr("\"data\":[6,8]"));  // into the answer again
    // As tritonclient asks.
    const http_answer both = infer(
        server, R"("data":[5,6])",
        R"(,"outputs":[{"name":"y","parameters":{"binary_data":true,"shared_memory_region":"a","shared_memory_byte_size":8}}])");
    EXPECT_EQ(both.status, 200) << both.body;
    EXPECT_THAT(object.get(8, 2), ElementsAre(10, 12));
}

// Gives y and z, which are both x.
class two_outputs final : public testing::fake_model {
public:
    const std::vector<nn::value_info>& outputs() const noexcept override { return outputs_; }
    std::vector<nn::any_tensor> run(std::vector<nn::any_tensor> inputs) const override {
        return {inputs.front(), inputs.front()};
    }

private:
    std::vector<nn::value_info> outputs_{{"y", io::dtype::f32, inputs().front().shape},
                                         {"z", io::dtype::f32, inputs().front().shape}};
};

TEST(http_shared_memory, an_output_there_is_not_in_the_body_too) {
    const http_server server(sharing(), "{}", std::make_shared<two_outputs>());
    const shared_object object(64);
    ASSERT_EQ(add(server, "a", object).status, 200);
    for (const char* const all : {"", R"(,"parameters":{"binary_data_output":true})"}) {
        const http_answer got = infer(
            server, R"("data":[5,6])",
            R"(,"outputs":[{"name":"y","parameters":{"binary_data":true,"shared_memory_region":"a","shared_memory_byte_size":8}},)"
            R"({"name":"z","parameters":{"binary_data":true}}])" +
                std::string(all));
        ASSERT_EQ(got.status, 200) << got.body;
        const std::vector<float> z{5, 6};
        EXPECT_EQ(got.body.substr(std::stoul(got.field("Inference-Header-Content-Length"))),
                  std::string(reinterpret_cast<const char*>(z.data()), 8));
        EXPECT_THAT(object.get(0, 2), ElementsAre(5, 6));
        object.put(0, {0, 0});
    }
}

// Of this process, the test's own too.
std::size_t descriptors_of(const shared_object& object) {
    std::size_t count = 0;
    for (const auto& each : std::filesystem::directory_iterator("/proc/self/fd")) {
        std::error_code ignored;  // that of the iterator has gone
        if (std::filesystem::read_symlink(each, ignored).string().ends_with(object.key())) ++count;
    }
    return count;
}

TEST(http_shared_memory, an_idle_connection_keeps_no_region_that_is_forgotten) {
    const http_server server(sharing());
    const shared_object object(64);
    ASSERT_EQ(add(server, "a", object).status, 200);
    testing::raw_client idle = server.client();
    const std::string outputs = R"(,"outputs":[{"name":"y",)" + place("a", "8", "16") + "}]}";
    EXPECT_EQ(
        idle.ask(post_request("/v2/models/m/infer",
                              R"({"inputs":[{"name":"x","datatype":"FP32","shape":[1,2],"data":[1,2]}])" + outputs))
            .status,
        200);
    EXPECT_EQ(descriptors_of(object), 2U);
    EXPECT_EQ(server.ask(post_request(base + "/unregister", "")).status, 200);
    EXPECT_EQ(descriptors_of(object), 1U);
}

TEST(http_shared_memory, wrong_places_are_refused) {
    const http_server server(sharing());
    const shared_object object(64);
    ASSERT_EQ(add(server, "a", object).status, 200);
    const auto refused = [&](const std::string& input, const std::string& why) {
        const http_answer got = infer(server, input);
        EXPECT_EQ(got.status, 400) << input;
        EXPECT_THAT(got.body, HasSubstr(why)) << input;
    };
    refused(place("b", "8", ""), "region 'b' is not registered");
    refused(place("a", "8", "57"), "8 bytes from 57 on are not in");
    refused(place("a", "8", "18446744073709551612"), "are not in");
    refused(place("a", "18446744073709551615", "1"), "are not in");
    refused(place("a", "12", ""), "takes 8 bytes; the data has 12");
    refused(place("a", "-8", ""), "'shared_memory_byte_size' is not an integer");
    refused(place("a", "8", "") + R"(,"data":[1,2])", "has 'data' or 'binary_data_size' too");
    refused(R"("parameters":{"shared_memory_region":"a"})", "lacks the parameter 'shared_memory_byte_size'");
    refused(R"("parameters":{"shared_memory_byte_size":8})", "lacks the parameter 'shared_memory_region'");
    const auto output_refused = [&](const std::string& output, const std::string& why) {
        const http_answer got = infer(server, R"("data":[1,2])", R"(,"outputs":[{"name":"y",)" + output + "}]");
        EXPECT_EQ(got.status, 400) << output;
        EXPECT_THAT(got.body, HasSubstr(why)) << output;
    };
    output_refused(place("a", "4", ""), "has 8 bytes; shared_memory_byte_size is 4");
    output_refused(place("a", "8", "60"), "are not in");
    EXPECT_THAT(object.get(0, 16), ::testing::Each(0));
}

TEST(http_shared_memory, a_region_may_shrink_or_be_forgotten_while_a_request_uses_it) {
    const http_server server(sharing(), R"({"max_batch": 1, "caller_thread_us": 0})");
    const shared_object object(64);
    object.put(0, {3, 4});
    ASSERT_EQ(add(server, "a", object).status, 200);
    const std::string output = R"(,"outputs":[{"name":"y",)" + place("a", "8", "16") + "}]";
    for (const bool shrinks : {false, true}) {
        std::future<http_answer> running;
        {
            const testing::held hold(*server.fake);
            running = std::async(std::launch::async, [&] { return infer(server, place("a", "8", ""), output); });
            server.fake->wait_until_running();
            if (shrinks)
                object.resize(8);
            else
                EXPECT_EQ(server.ask(post_request(base + "/unregister", "")).status, 200);
        }
        const http_answer got = running.get();
        EXPECT_EQ(got.status, shrinks ? 400 : 200) << got.body;
        if (shrinks) {
            EXPECT_THAT(got.body, HasSubstr("has become smaller"));
        } else {
            EXPECT_THAT(object.get(16, 2), ElementsAre(6, 8));
            ASSERT_EQ(add(server, "a", object).status, 200);
        }
    }
    object.resize(4);
    EXPECT_THAT(infer(server, place("a", "8", "")).body, HasSubstr("has become smaller"));
}

TEST(http_shared_memory, copies_count_as_memory_of_requests) {
    http_options options = sharing();
    options.budget = std::make_shared<request_budget>(1000);
    const http_server server(options);
    const shared_object object(4096);
    ASSERT_EQ(add(server, "a", object, R"(,"byte_size":4096)").status, 200);
    const http_answer got = infer(server, place("a", "4096", ""));
    EXPECT_EQ(got.status, 503);
    EXPECT_EQ(got.field("Retry-After"), "1");
    EXPECT_EQ(infer(server, place("a", "8", "")).status, 200);
    testing::expect_given_back(*options.budget);
}

TEST(http_shared_memory, is_refused_unless_the_server_shares_it) {
    const http_server server;
    const shared_object object(64);
    const http_answer got = add(server, "a", object);
    EXPECT_EQ(got.status, 403);
    EXPECT_THAT(got.body, HasSubstr("sluice serve --shared-memory"));
    EXPECT_EQ(server.ask(get_request(base + "/status")).status, 403);
    EXPECT_EQ(infer(server, place("a", "8", "")).status, 400);
    EXPECT_THAT(server.ask(get_request("/v2")).body, ::testing::Not(HasSubstr("system_shared_memory")));
    const http_server with_token(sharing({.clients = testing::client_with({"a-token-that-is-long"})}));
    EXPECT_EQ(add(with_token, "a", object).status, 401);
}

}  // namespace
}  // namespace sluice::serve::http_shared_memory_tests
