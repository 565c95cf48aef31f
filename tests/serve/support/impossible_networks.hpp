// SPDX-License-Identifier: Apache-2.0
// Networks that requests ask for numbers that cannot be, for the tests of each front end.
#pragma once

#include <gmock/gmock.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "nn/support/impossible_cases.hpp"
#include "serve/support/fake_engine.hpp"

namespace sluice::serve::testing {

// The networks of nn::test_support::impossible_cases(), by the name "m" and the number of the case.
inline std::map<std::string, nn::model> impossible_networks() {
    std::map<std::string, nn::model> made;
    std::size_t number = 0;
    for (const auto& each : nn::test_support::impossible_cases())
        made["m" + std::to_string(number++)] = nn::test_support::model_of(each.what);
    return made;
}

// A text that names the node, the input and the number.
inline auto names_what_is_wrong(const nn::test_support::impossible_value& with) {
    const std::string input = std::to_string(with.input);
    return ::testing::AllOf(::testing::HasSubstr("node 0 (" + with.what.op + ")"), ::testing::HasSubstr(with.number),
                            ::testing::HasSubstr("its input " + input + " ('x" + input + "') says"));
}

// x [batch], of indices, -> y [batch, 2]: rows of {{1, 10}, {2, 20}, {3, 30}}. Its rows are independent.
inline nn::model looks_up_rows() {
    nn::model made;
    made.path = "test.onnx";
    made.opsets = {{"", 18}};
    made.body.inputs = {{"x", io::dtype::i64, std::vector{named("batch")}}};
    made.body.outputs = {{"y", io::dtype::f32, std::vector{named("batch"), of(2)}}};
    made.body.constants = {{"table", nn::test_support::tensor_of(std::vector<float>{1, 10, 2, 20, 3, 30}, {3, 2})}};
    made.body.nodes = {nn::test_support::make_node("Gather", {"table", "x"}, {"y"})};
    return made;
}

// x [batch, 1] -> y [batch, 1, 2]: which of the categories 1 and 2 it is.
inline nn::model names_categories() {
    nn::model made;
    made.path = "test.onnx";
    made.opsets = {{"", 18}, {"ai.onnx.ml", 3}};
    made.body.inputs = {{"x", io::dtype::i64, std::vector{named("batch"), of(1)}}};
    made.body.outputs = {{"y", io::dtype::f32, std::vector{named("batch"), of(1), of(2)}}};
    nn::node only = nn::test_support::make_node("OneHotEncoder", {"x"}, {"y"});
    only.domain = "ai.onnx.ml";
    only.attributes = {{"cats_int64s", std::vector<std::int64_t>{1, 2}}, {"zeros", std::int64_t{0}}};
    made.body.nodes = {only};
    return made;
}

// Requests that wait for each other, of which one asks for what is not there.
struct joined_requests {
    std::string name;  // of the network
    nn::model network;
    std::vector<std::size_t> shape;     // of x
    std::vector<std::int64_t> numbers;  // one request each
    std::size_t wrong;                  // which of them
    std::vector<std::vector<float>> answers;
    std::string why;
};

inline std::vector<joined_requests> joined_requests_with_a_wrong_one() {
    return {
        {"rows", looks_up_rows(), {1}, {2, 0, 3, 1}, 2, {{3, 30}, {1, 10}, {}, {2, 20}}, "(Gather)"},
        {"categories", names_categories(), {1, 1}, {7, 1, 2, 1}, 0, {{}, {1, 0}, {0, 1}, {1, 0}}, "(OneHotEncoder)"}};
}

// All requests of joined_requests_with_a_wrong_one are in one batch, however slow their clients are.
inline const char* const joins_four = R"({"max_batch": 4, "max_delay_us": 10000000, "caller_thread_us": 0})";

}  // namespace sluice::serve::testing
