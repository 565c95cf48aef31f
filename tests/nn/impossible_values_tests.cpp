// SPDX-License-Identifier: Apache-2.0
// Numbers of an input that say where, which or how many, and that cannot be: each operator refuses them on every path,
// with one kind of error that names the node, the input and the number. docs/operators.md lists the inputs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "nn/support/impossible_cases.hpp"
#include "nn/support/single_nodes.hpp"
#include "sluice/graph/executable_graph.hpp"
#include "sluice/nn/host_view.hpp"
#include "sluice/runtime/transfer.hpp"

namespace sluice::nn::impossible_values_tests {
namespace {

using namespace test_support;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int repetitions = 4;  // of direct calls: the later ones go another way

class impossible_values : public ::testing::Test {
protected:
    void expect_refusal(const impossible_value& of, const std::string& path, const std::function<void()>& run) {
        SCOPED_TRACE(of.what.op + ", input " + std::to_string(of.input) + ", " + path);
        try {
            run();
            ADD_FAILURE() << "is taken";
        } catch (const error& failure) {
            EXPECT_EQ(failure.code(), errc::out_of_range) << failure.what();
            const std::string input = std::to_string(of.input);
            EXPECT_THAT(failure.what(), AllOf(HasSubstr("node.onnx: node 0 (" + of.what.op + ")"), HasSubstr(of.number),
                                              HasSubstr("its input " + input + " ('x" + input + "') says")));
        }
    }

    network make(const model& from) { return sync(make_network(from), pool); }

    runtime machine{runtime_options{.cpu_devices = 1, .cuda = false}};
    single_stream pool{machine.find("cpu:0")};
};

// The inputs that are there; and where the input of this number is among them.
std::vector<any_tensor> given_inputs(const impossible_value& of, std::size_t& at) {
    std::vector<any_tensor> given;
    for (std::size_t i = 0; i < of.what.inputs.size(); ++i) {
        if (i == of.input) at = given.size();
        if (of.what.inputs[i]) given.push_back(of.what.inputs[i]);
    }
    return given;
}

// The model with this input as a constant.
model with_constant(const impossible_value& of) {
    model made = model_of(of.what);
    const std::string name = "x" + std::to_string(of.input);
    const any_tensor& value = of.what.inputs[of.input];
    std::erase_if(made.body.inputs, [&](const value_info& each) { return each.name == name; });
    made.body.constants[name] = {value.type(), value.shape(), value.host_owner()};
    return made;
}

template <typename Function>
void with_element(io::dtype type, const Function& function) {
    switch (type) {
        case io::dtype::i32: return function.template operator()<std::int32_t>();
        case io::dtype::i64: return function.template operator()<std::int64_t>();
        default: return function.template operator()<float>();
    }
}

TEST_F(impossible_values, that_are_constants_are_refused) {
    for (const impossible_value& each : impossible_cases()) {
        expect_refusal(each, "a constant", [&] {
            std::size_t at = 0;
            std::vector<any_tensor> given = given_inputs(each, at);
            given.erase(given.begin() + static_cast<std::ptrdiff_t>(at));
            static_cast<void>(sync(make(with_constant(each)).run(std::move(given)), pool));
        });
    }
}

TEST_F(impossible_values, that_callers_give_are_refused) {
    for (const impossible_value& each : impossible_cases()) {
        std::size_t at = 0;
        const std::vector<any_tensor> given = given_inputs(each, at);
        const network made = make(model_of(each.what));
        expect_refusal(each, "submitted", [&] { static_cast<void>(sync(made.run(given), pool)); });
    }
}

TEST_F(impossible_values, of_direct_calls_are_refused) {
    for (const impossible_value& each : impossible_cases()) {
        std::size_t at = 0;
        const std::vector<any_tensor> given = given_inputs(each, at);
        const network made = make(model_of(each.what));
        for (int i = 0; i < repetitions; ++i) {
            expect_refusal(each, "a direct call", [&] {
                std::vector<input_view> views;
                for (const any_tensor& one : given)
                    views.emplace_back(one.type(), one.bytes().data(), std::span(one.shape()));
                static_cast<void>(made(std::span<const input_view>(views)));
            });
        }
    }
}

TEST_F(impossible_values, on_the_device_are_refused_alone_and_in_graphs) {
    for (const impossible_value& each : impossible_cases()) {
        std::size_t at = 0;
        const std::vector<any_tensor> given = given_inputs(each, at);
        const network made = make(model_of(each.what));
        if (made.is_host_input(at)) continue;  // the device does not have it
        const any_tensor& wrong = given[at];
        with_element(wrong.type(), [&]<typename T>() {
            const auto values = wrong.values<T>();
            const auto upload_wrong = [&] {
                return upload(std::vector<T>(values.begin(), values.end()), shape(std::span(wrong.shape())));
            };
            const auto answer = [&, given](tensor<T> value) {
                std::vector<any_tensor> inputs = given;
                inputs[at] = any_tensor(std::move(value));
                return made.forward(std::move(inputs));
            };
            const auto numbers = [&](tensor<T> value) {
                std::vector<any_tensor> inputs = given;
                inputs[at] = any_tensor(std::move(value));
                return made.run(std::move(inputs));
            };
            expect_refusal(each, "forward", [&] { static_cast<void>(sync(upload_wrong().and_then(answer), pool)); });
            const auto fast = compile(pool, numbers, device_input<T>(shape(std::span(wrong.shape()))));
            for (int i = 0; i < repetitions; ++i)
                expect_refusal(each, "compiled", [&] { static_cast<void>(sync(upload_wrong().and_then(fast), pool)); });
        });
    }
}

// The rows of the table "Numbers that are checked": the operator, and the number of the input.
std::set<std::pair<std::string, std::string>> documented() {
    std::ifstream page(SLUICE_SOURCE_DIR "/docs/operators.md");
    std::set<std::pair<std::string, std::string>> found;
    bool is_table = false;
    for (std::string line; std::getline(page, line);) {
        if (line.starts_with("## ")) is_table = line == "## Numbers that are checked";
        if (!is_table || !line.starts_with("| ") || line.starts_with("| operator")) continue;
        const std::size_t first = line.find(" | "), second = line.find(" | ", first + 3);
        std::string operators = line.substr(2, first - 2);
        for (std::size_t end = 0; !operators.empty(); operators.erase(0, end == std::string::npos ? end : end + 2)) {
            end = operators.find(", ");
            found.emplace(operators.substr(0, end), line.substr(first + 3, second - first - 3));
        }
    }
    return found;
}

TEST_F(impossible_values, are_those_of_the_documentation) {
    std::set<std::pair<std::string, std::string>> tried;
    for (const impossible_value& each : impossible_cases())
        tried.emplace((each.what.domain.empty() ? "" : each.what.domain + ".") + each.what.op,
                      std::to_string(each.input));
    EXPECT_EQ(tried, documented());
}

TEST_F(impossible_values, do_not_include_the_label_that_is_ignored_and_categories_that_become_zeros) {
    const single_node loss{.op = "NegativeLogLikelihoodLoss",
                           .inputs = {floats({-1, -2}, {1, 2}), wide({7}, {1})},
                           .with = {{"ignore_index", whole(7)}, {"reduction", text("sum")}}};
    EXPECT_EQ(run_node(loss, pool).at(0).values<float>()[0], 0);
    const single_node encoder{.op = "OneHotEncoder",
                              .inputs = {list({5})},
                              .with = {{"cats_int64s", wholes({1, 2})}},
                              .domain = "ai.onnx.ml"};
    EXPECT_THAT(run_node(encoder, pool).at(0).values<float>(), ::testing::ElementsAre(0, 0));
}

}  // namespace
}  // namespace sluice::nn::impossible_values_tests
