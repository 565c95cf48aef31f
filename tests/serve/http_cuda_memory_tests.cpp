// SPDX-License-Identifier: Apache-2.0
// Memory on GPUs that clients share, over HTTP; the GPUs are fakes. Places in regions are checked alike for all kinds
// of them: http_shared_memory_tests.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "serve/support/fake_gpus.hpp"
#include "serve/support/given_back.hpp"
#include "serve/support/http_server.hpp"
#include "serve/support/known_clients.hpp"
#include "serve/support/shared_object.hpp"

namespace sluice::serve::http_cuda_memory_tests {
namespace {

using ::testing::ElementsAre;
using testing::fake_gpus;
using testing::get_request;
using ::testing::HasSubstr;
using testing::http_answer;
using testing::http_server;
using testing::post_request;
using testing::shared_object;

const std::string base = "/v2/cudasharedmemory";

// 64 bytes of zeros, and with all bits set.
const std::string zeros = std::string(86, 'A') + "==";
const std::string ones = std::string(85, '/') + "w==";

http_options sharing(std::shared_ptr<const gpu_memory_opener> gpus) {
    http_options options;
    options.shared_memory = std::make_shared<shared_regions>(shared_regions_options{.gpus = std::move(gpus)});
    return options;
}

http_answer add(const http_server& server, const std::string& name, const std::string& handle,
                const std::string& more = R"(,"device_id":0,"byte_size":64)") {
    return server.ask(post_request(base + "/region/" + name + "/register",
                                   R"({"raw_handle":{"b64":")" + handle + "\"}" + more + "}"));
}

std::string place(const std::string& region, const std::string& bytes, const std::string& offset) {
    return R"("parameters":{"shared_memory_region":")" + region + R"(","shared_memory_byte_size":)" + bytes +
           R"(,"shared_memory_offset":)" + offset + "}";
}

http_answer infer(const http_server& server, const std::string& input, const std::string& output = {}) {
    const std::string outputs = output.empty() ? "" : R"(,"outputs":[{"name":"y",)" + output + "}]";
    return server.ask(post_request("/v2/models/m/infer", R"({"inputs":[{"name":"x","datatype":"FP32","shape":[1,2],)" +
                                                             input + "}]" + outputs + "}"));
}

TEST(http_cuda_memory, regions_are_registered_listed_and_forgotten) {
    const auto gpus = std::make_shared<fake_gpus>();
    const auto first = gpus->allocate(0, 64), second = gpus->allocate(255, 32, 1);
    const http_server server(sharing(gpus));
    const shared_object object(64);
    EXPECT_THAT(server.ask(get_request("/v2")).body, HasSubstr(R"("system_shared_memory","cuda_shared_memory")"));
    EXPECT_EQ(add(server, "a", zeros).status, 200);
    EXPECT_EQ(add(server, "b", ones, R"(,"device_id":1,"byte_size":16)").status, 200);
    const std::string system = R"({"key":")" + object.key() + R"(","byte_size":64})";
    EXPECT_EQ(server.ask(post_request("/v2/systemsharedmemory/region/s/register", system)).status, 200);
    const std::string a = R"({"byte_size":64,"device_id":0,"name":"a"})";
    const std::string b = R"({"byte_size":16,"device_id":1,"name":"b"})";
    EXPECT_EQ(server.ask(get_request(base + "/status")).body, "[" + a + "," + b + "]");
    EXPECT_EQ(server.ask(get_request(base + "/region/b/status")).body, "[" + b + "]");
    EXPECT_EQ(server.ask(get_request(base + "/region/s/status")).status, 400);
    EXPECT_EQ(server.ask(post_request(base + "/region/s/unregister", "")).status, 400);
    EXPECT_EQ(server.ask(post_request("/v2/systemsharedmemory/unregister", "")).status, 200);
    EXPECT_EQ(server.ask(post_request(base + "/region/a/unregister", "")).status, 200);
    EXPECT_EQ(first->opened, 0);
    EXPECT_EQ(second->opened, 1);
    EXPECT_EQ(server.ask(post_request(base + "/unregister", "{}")).status, 200);
    EXPECT_EQ(server.ask(get_request(base + "/status")).body, "[]");
    EXPECT_EQ(second->opened, 0);
}

TEST(http_cuda_memory, inputs_are_read_and_outputs_written_there) {
    const auto gpus = std::make_shared<fake_gpus>();
    const auto memory = gpus->allocate(0, 64);
    const http_server server(sharing(gpus));
    memory->put(24, {3, 4});
    ASSERT_EQ(add(server, "a", zeros).status, 200);
    EXPECT_THAT(infer(server, place("a", "8", "24")).body, HasSubstr("\"data\":[6,8]"));
    const http_answer got = infer(server, place("a", "8", "24"), place("a", "20", "40"));
    EXPECT_EQ(got.status, 200);
    EXPECT_THAT(got.body, HasSubstr(R"("parameters":{"shared_memory_region":"a","shared_memory_byte_size":8,)"
                                    R"("shared_memory_offset":40})"));
    EXPECT_THAT(memory->get(40, 3), ElementsAre(6, 8, 0));
    // Between a region on a GPU and one of the host, in one request.
    const shared_object object(64);
    const std::string system = R"({"key":")" + object.key() + R"(","byte_size":64})";
    ASSERT_EQ(server.ask(post_request("/v2/systemsharedmemory/region/s/register", system)).status, 200);
    EXPECT_EQ(infer(server, place("a", "8", "40"), place("s", "8", "4")).status, 200);
    EXPECT_THAT(object.get(4, 2), ElementsAre(12, 16));
    EXPECT_THAT(infer(server, place("a", "8", "57")).body, HasSubstr("8 bytes from 57 on are not in"));
}

TEST(http_cuda_memory, wrong_registrations_are_refused) {
    const auto gpus = std::make_shared<fake_gpus>();
    gpus->allocate(0, 64);
    const http_server server(sharing(gpus));
    const auto refused = [&](const std::string& body, const std::string& why) {
        const http_answer got = server.ask(post_request(base + "/region/a/register", body));
        EXPECT_EQ(got.status, 400) << body;
        EXPECT_THAT(got.body, HasSubstr(why)) << body;
    };
    const std::string handle = R"("raw_handle":{"b64":")" + zeros + R"("})";
    const std::string where = R"(,"device_id":0,"byte_size":64)";
    const std::vector<std::string> no_handles{R"({"b64":"AAAA"})",
                                              "{}",
                                              R"("x")",
                                              "null",
                                              R"({"b64":7})",
                                              R"({"b64":")" + zeros + R"(","x":1})",
                                              R"({"b64":")" + std::string(86, '*') + R"(=="})",
                                              R"([")" + zeros + R"("])"};
    for (const std::string& wrong : no_handles)
        refused(R"({"raw_handle":)" + wrong + where + "}", "the base64 of the 64 bytes of a cudaIpcMemHandle_t");
    refused("{" + handle + R"(,"byte_size":64})", "lacks 'device_id'");
    refused("{" + handle + R"(,"device_id":0})", "lacks 'byte_size'");
    refused(R"({"device_id":0,"byte_size":64})", "lacks 'raw_handle'");
    refused("{" + handle + R"(,"device_id":-1,"byte_size":64})", "'device_id' is not an integer of at least 0");
    refused("{" + handle + R"(,"device_id":99999999999,"byte_size":64})", "'device_id' is no number of a GPU");
    refused("{" + handle + R"(,"device_id":9,"byte_size":64})", "there is no GPU 9");
    refused("{" + handle + R"(,"device_id":0,"byte_size":65})", "the allocation is shorter");
    refused("{" + handle + R"(,"device_id":0,"byte_size":18446744073709551615})", "the allocation is shorter");
    refused("{" + handle + R"(,"device_id":0,"byte_size":0})", "has no bytes");
    refused("{" + handle + R"(,"device_id":0,"byte_size":-64})", "'byte_size' is not an integer");
    refused("{" + handle + R"(,"key":"/x","device_id":0,"byte_size":64})",
            "unknown key 'key'; the keys are raw_handle, device_id, byte_size");
    EXPECT_THAT(add(server, "a", ones).body, HasSubstr("the handle cannot be opened"));
    EXPECT_EQ(add(server, "a", zeros).status, 200);
    EXPECT_THAT(add(server, "a", zeros).body, HasSubstr("is registered already"));
    EXPECT_EQ(server.ask(get_request(base + "/region/a/register")).status, 405);
}

TEST(http_cuda_memory, a_region_may_be_forgotten_while_a_request_uses_it) {
    const auto gpus = std::make_shared<fake_gpus>();
    const auto memory = gpus->allocate(0, 64);
    const http_server server(sharing(gpus), R"({"max_batch": 1, "caller_thread_us": 0})");
    memory->put(0, {3, 4});
    ASSERT_EQ(add(server, "a", zeros).status, 200);
    std::future<http_answer> running;
    {
        const testing::held hold(*server.fake);
        running =
            std::async(std::launch::async, [&] { return infer(server, place("a", "8", "0"), place("a", "8", "16")); });
        server.fake->wait_until_running();
        EXPECT_EQ(server.ask(post_request(base + "/unregister", "")).status, 200);
        EXPECT_EQ(server.ask(get_request(base + "/status")).body, "[]");
        EXPECT_EQ(memory->opened, 1);
    }
    EXPECT_EQ(running.get().status, 200);
    EXPECT_THAT(memory->get(16, 2), ElementsAre(6, 8));
    while (memory->opened != 0) std::this_thread::yield();
    EXPECT_THAT(infer(server, place("a", "8", "0")).body, HasSubstr("'a' is not registered"));
}

// Each request that uses it fails; the others are answered.
TEST(http_cuda_memory, a_gpu_that_fails_fails_the_requests_that_use_it) {
    const auto gpus = std::make_shared<fake_gpus>();
    const auto memory = gpus->allocate(0, 64);
    const http_server server(sharing(gpus));
    ASSERT_EQ(add(server, "a", zeros).status, 200);
    memory->is_lost = true;
    EXPECT_EQ(infer(server, place("a", "8", "0")).status, 500);
    EXPECT_EQ(infer(server, R"("data":[1,2])", place("a", "8", "0")).status, 500);
    EXPECT_THAT(infer(server, R"("data":[1,2])").body, HasSubstr("\"data\":[2,4]"));
    EXPECT_EQ(server.ask(post_request(base + "/unregister", "")).status, 200);
    EXPECT_EQ(memory->opened, 0);
}

TEST(http_cuda_memory, copies_count_as_memory_of_requests) {
    const auto gpus = std::make_shared<fake_gpus>();
    gpus->allocate(0, 4096);
    http_options options = sharing(gpus);
    options.budget = std::make_shared<request_budget>(1000);
    const http_server server(options);
    ASSERT_EQ(add(server, "a", zeros, R"(,"device_id":0,"byte_size":4096)").status, 200);
    EXPECT_EQ(infer(server, place("a", "4096", "0")).status, 503);
    EXPECT_EQ(infer(server, place("a", "8", "0")).status, 200);
    testing::expect_given_back(*options.budget);
}

TEST(http_cuda_memory, is_refused_without_a_gpu_and_unless_the_server_opens_it) {
    const http_server without(sharing(std::make_shared<fake_gpus>("no NVIDIA driver was found")));
    EXPECT_EQ(add(without, "a", zeros).status, 400);
    EXPECT_THAT(add(without, "a", zeros).body, HasSubstr("cannot open memory of a GPU: no NVIDIA driver was found"));
    EXPECT_EQ(without.ask(get_request(base + "/status")).body, "[]");
    EXPECT_THAT(without.ask(get_request("/v2")).body, ::testing::Not(HasSubstr("cuda_shared_memory")));
    http_options system_only;
    system_only.shared_memory = std::make_shared<shared_regions>();
    for (const http_options& options : {http_options(), system_only}) {
        const http_server closed(options);
        const http_answer got = add(closed, "a", zeros);
        EXPECT_EQ(got.status, 403);
        EXPECT_THAT(got.body, HasSubstr("sluice serve --cuda-shared-memory"));
        EXPECT_EQ(closed.ask(get_request(base + "/status")).status, 403);
        EXPECT_EQ(closed.ask(post_request(base + "/unregister", "")).status, 403);
        EXPECT_THAT(closed.ask(get_request("/v2")).body, ::testing::Not(HasSubstr("cuda_shared_memory")));
    }
    http_options with_token = sharing(std::make_shared<fake_gpus>());
    with_token.clients = testing::client_with({"a-token-that-is-long"});
    EXPECT_EQ(add(http_server(with_token), "a", zeros).status, 401);
}

}  // namespace
}  // namespace sluice::serve::http_cuda_memory_tests
