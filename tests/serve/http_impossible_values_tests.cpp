// SPDX-License-Identifier: Apache-2.0
// Numbers of a request that cannot be (indices, labels, lengths, axes): 400 with the node, the input and the number,
// and the others of a batch are answered.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "serve/support/impossible_networks.hpp"
#include "serve/support/raw_client.hpp"
#include "serve/support/served_networks.hpp"
#include "sluice/serve/http_front.hpp"
#include "sluice/serve/tensor_view.hpp"

namespace sluice::serve::http_impossible_values_tests {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using namespace testing;

// All inputs as binary data: JSON has no infinity.
std::string request_of(const nn::test_support::single_node& of, const std::string& model) {
    json head{{"inputs", json::array()}};
    std::string data;
    for (std::size_t i = 0; i < of.inputs.size(); ++i) {
        const nn::any_tensor& value = of.inputs[i];
        if (!value) continue;
        head["inputs"].push_back({{"name", "x" + std::to_string(i)},
                                  {"datatype", datatype_of(value.type())},
                                  {"shape", value.shape()},
                                  {"parameters", {{"binary_data_size", value.bytes().size()}}}});
        data.append(reinterpret_cast<const char*>(value.bytes().data()), value.bytes().size());
    }
    const std::string text = head.dump();
    return post_request("/v2/models/" + model + "/infer", text + data,
                        "Inference-Header-Content-Length: " + std::to_string(text.size()) + "\r\n");
}

TEST(http_impossible_values, are_refused_by_the_node_the_input_and_the_number) {
    const served_networks served(impossible_networks());
    const http_front front(*served.models, {.port = 0});
    raw_client client(front.port());
    std::size_t number = 0;
    for (const auto& each : nn::test_support::impossible_cases()) {
        const std::string name = "m" + std::to_string(number++);
        for (int again = 0; again < 3; ++again) {  // the later ones go another way
            SCOPED_TRACE(each.what.op + ", input " + std::to_string(each.input));
            const http_answer got = client.ask(request_of(each.what, name));
            EXPECT_EQ(got.status, 400) << got.body;
            ASSERT_TRUE(json::accept(got.body)) << got.body;
            EXPECT_THAT(json::parse(got.body).value("error", ""), names_what_is_wrong(each));
        }
    }
}

TEST(http_impossible_values, leave_the_others_of_their_batch_alone) {
    for (const joined_requests& each : joined_requests_with_a_wrong_one()) {
        const served_networks served({{each.name, each.network}}, joins_four);
        const http_front front(*served.models, {.port = 0});
        served.networks.at(each.name)->most_rows = 0;
        std::vector<raw_client> clients;
        for (const std::int64_t one : each.numbers) {
            const json request{
                {"inputs", {{{"name", "x"}, {"datatype", "INT64"}, {"shape", each.shape}, {"data", {one}}}}}};
            clients.emplace_back(front.port());
            clients.back().send(post_request("/v2/models/" + each.name + "/infer", request.dump()));
        }
        for (std::size_t i = 0; i < clients.size(); ++i) {
            SCOPED_TRACE(each.name + ", request " + std::to_string(i));
            const http_answer got = clients[i].receive();
            ASSERT_TRUE(json::accept(got.body)) << got.body;
            const json answer = json::parse(got.body);
            if (i == each.wrong) {
                EXPECT_EQ(got.status, 400) << got.body;
                EXPECT_THAT(answer.value("error", ""), HasSubstr(each.why));
                continue;
            }
            ASSERT_EQ(got.status, 200) << got.body;
            EXPECT_EQ(answer["outputs"][0]["data"].get<std::vector<float>>(), each.answers[i]);
        }
        EXPECT_EQ(served.networks.at(each.name)->most_rows, 4U);
    }
}

}  // namespace
}  // namespace sluice::serve::http_impossible_values_tests
