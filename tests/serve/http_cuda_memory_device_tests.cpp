// SPDX-License-Identifier: Apache-2.0
// Memory that another process has on a GPU, registered with a server that computes on that GPU. The other process is
// conformance/interprocess_peer.cpp: its allocation has the numbers 0 to 1023, and it answers with those that it finds
// changed at the end. The regions themselves are tested in cuda_memory_device_tests.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "conformance/support/peer_process.hpp"
#include "serve/support/raw_client.hpp"
#include "sluice/serve/http_front.hpp"
#include "sluice/serve/network_engine.hpp"
#include "sluice/serve/server.hpp"

namespace sluice::serve::http_cuda_memory_device_tests {
namespace {

using conformance::peer_process;
using testing::get_request;
using ::testing::HasSubstr;
using testing::http_answer;
using testing::post_request;
using testing::raw_client;

constexpr std::size_t numbers = 1024;

std::string base64_of(const gpu_memory_handle& handle) {
    constexpr std::string_view letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string text;
    for (std::size_t i = 0; i < handle.size(); i += 3) {
        unsigned bits = 0;
        for (std::size_t k = i; k < i + 3; ++k)
            bits = bits << 8U | (k < handle.size() ? std::to_integer<unsigned>(handle[k]) : 0U);
        for (int shift = 18; shift >= 0; shift -= 6) text += letters[bits >> static_cast<unsigned>(shift) & 63U];
    }
    for (std::size_t i = 0; i < (3 - handle.size() % 3) % 3; ++i) text[text.size() - 1 - i] = '=';
    return text;
}

// The digits on the GPU, and the regions of clients.
class http_cuda_memory_on_gpu : public ::testing::Test {
protected:
    raw_client client() const { return raw_client(front->port()); }
    http_answer add(const std::string& name, const gpu_memory_handle& handle, std::size_t bytes = numbers * 4,
                    int device_id = 0) const {
        return client().ask(post_request("/v2/cudasharedmemory/region/" + name + "/register",
                                         R"({"raw_handle":{"b64":")" + base64_of(handle) + R"("},"device_id":)" +
                                             std::to_string(device_id) + R"(,"byte_size":)" + std::to_string(bytes) +
                                             "}"));
    }
    http_answer forget() const { return client().ask(post_request("/v2/cudasharedmemory/unregister", "")); }
    // The row begins with this number of the client's and has 64; no place of the output: in the answer.
    http_answer infer_row(std::size_t first, const std::string& output = {}) const {
        return infer(place(first, 64), output);
    }
    http_answer infer(const std::string& input, const std::string& output = {}) const {
        return client().ask(
            post_request("/v2/models/digits/infer", R"({"inputs":[{"name":"input","datatype":"FP32","shape":[1,64],)" +
                                                        input + R"(}],"outputs":[{"name":"output")" + output + "}]}"));
    }
    static std::string place(std::size_t first, std::size_t count) {
        return R"("parameters":{"shared_memory_region":"a","shared_memory_byte_size":)" + std::to_string(4 * count) +
               R"(,"shared_memory_offset":)" + std::to_string(4 * first) + "}";
    }
    // The same row as JSON.
    static std::string data(std::size_t first) {
        std::string all = std::to_string(first);
        for (std::size_t i = first + 1; i < first + 64; ++i) all += "," + std::to_string(i);
        return R"("data":[)" + all + "]";
    }

    network_engine engine{{.device = "cuda"}};
    server models{model_source::files({"digits=" SLUICE_SOURCE_DIR "/models/digits.safetensors"}), engine, {}};
    std::shared_ptr<shared_regions> regions =
        std::make_shared<shared_regions>(shared_regions_options{.system = false, .gpus = engine.gpu_memory()});
    std::unique_ptr<http_front> front;

    void SetUp() override {
        models.load_all();
        http_options options;
        options.port = 0;
        options.shared_memory = regions;
        front = std::make_unique<http_front>(models, options);
    }
};

// Offsets of numbers, not of 256 bytes.
TEST_F(http_cuda_memory_on_gpu, inputs_are_read_and_outputs_written_there) {
    peer_process peer("offers_an_allocation");
    const auto handle = peer.receive<gpu_memory_handle>();
    ASSERT_EQ(add("a", handle).status, 200);
    EXPECT_THAT(client().ask(get_request("/v2/cudasharedmemory/status")).body,
                HasSubstr(R"([{"byte_size":4096,"device_id":0,"name":"a"}])"));
    EXPECT_THAT(client().ask(get_request("/v2")).body, HasSubstr("cuda_shared_memory"));
    for (const std::size_t first : {0U, 1U, 13U, 960U}) {
        const http_answer expected = infer(data(first));
        ASSERT_EQ(expected.status, 200) << expected.body;
        EXPECT_EQ(infer_row(first).body, expected.body);
    }
    EXPECT_EQ(infer_row(961).status, 400);
    const http_answer placed = infer_row(13, "," + place(501, 10));
    ASSERT_EQ(placed.status, 200) << placed.body;
    EXPECT_EQ(forget().status, 200);
    peer.send('.');
    const std::string changes = peer.answer();
    for (std::size_t i = 501; i < 511; ++i) EXPECT_THAT(changes, HasSubstr(std::to_string(i) + ":")) << changes;
    for (const std::size_t i : {500U, 511U})
        EXPECT_THAT(changes, ::testing::Not(HasSubstr(std::to_string(i) + ":"))) << changes;
    EXPECT_EQ(peer.wait(), 0);
}

TEST_F(http_cuda_memory_on_gpu, several_clients_use_one_region_at_a_time) {
    peer_process peer("offers_an_allocation");
    ASSERT_EQ(add("a", peer.receive<gpu_memory_handle>()).status, 200);
    const std::string expected = infer(data(7)).body;
    {
        std::vector<std::jthread> clients;
        for (int i = 0; i < 4; ++i) {
            clients.emplace_back([&] {
                for (int round = 0; round < 50; ++round) EXPECT_EQ(infer_row(7).status, 200);
            });
        }
    }
    EXPECT_EQ(infer_row(7).body, expected);
    EXPECT_EQ(forget().status, 200);
    peer.send('.');
    EXPECT_EQ(peer.answer(), "");
    EXPECT_EQ(peer.wait(), 0);
}

TEST_F(http_cuda_memory_on_gpu, wrong_handles_are_refused_and_the_gpu_works) {
    gpu_memory_handle noise{};
    noise.fill(std::byte{0x5a});
    for (const gpu_memory_handle& each : {gpu_memory_handle{}, noise}) {
        const http_answer got = add("a", each);
        EXPECT_EQ(got.status, 400);
        EXPECT_THAT(got.body, HasSubstr("accepted is what cudaIpcGetMemHandle has given another process"));
    }
    peer_process peer("offers_an_allocation");
    const auto handle = peer.receive<gpu_memory_handle>();
    const http_answer longer = add("a", handle, 64UL << 20);
    EXPECT_EQ(longer.status, 400);
    EXPECT_THAT(longer.body, HasSubstr("at least 67108864 bytes"));
    const http_answer other = add("a", handle, 4096, 99);
    EXPECT_EQ(other.status, 400);
    EXPECT_THAT(other.body, HasSubstr("there is no device 'cuda:99'"));
    EXPECT_EQ(client().ask(get_request("/v2/cudasharedmemory/status")).body, "[]");
    EXPECT_EQ(infer(data(0)).status, 200);
    peer.send('.');
    EXPECT_EQ(peer.wait(), 0);
}

// What is not used after its client's end does no harm.
TEST_F(http_cuda_memory_on_gpu, a_client_that_dies_leaves_a_region_that_can_be_forgotten) {
    gpu_memory_handle handle{};
    {
        peer_process peer("offers_an_allocation");
        handle = peer.receive<gpu_memory_handle>();
        ASSERT_EQ(add("a", handle).status, 200);
        EXPECT_EQ(infer_row(0).status, 200);
    }  // it is killed
    EXPECT_EQ(infer(data(0)).status, 200);
    EXPECT_EQ(forget().status, 200);
    engine.default_device().synchronize();
    EXPECT_EQ(add("a", handle).status, 400);
    EXPECT_EQ(infer(data(0)).status, 200);
}

}  // namespace
}  // namespace sluice::serve::http_cuda_memory_device_tests
