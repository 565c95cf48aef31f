// SPDX-License-Identifier: Apache-2.0
// Numbers of an input that say where, which or how many, and that cannot be: each operator refuses them on every path,
// with one kind of error that names the node, the input and the number. docs/operators.md lists the inputs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <functional>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

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
const std::string ml = "ai.onnx.ml";

struct impossible_value {
    single_node what;
    std::size_t input;   // which has the number
    std::string number;  // how the message has it
};

std::vector<impossible_value> all_cases();

any_tensor floats(const std::vector<float>& values, std::vector<std::size_t> shape) {
    return {values, std::move(shape)};
}
any_tensor wide(const std::vector<std::int64_t>& values, std::vector<std::size_t> shape) {
    return {values, std::move(shape)};
}
any_tensor nothing() { return {}; }

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
    for (const impossible_value& each : all_cases()) {
        expect_refusal(each, "a constant", [&] {
            std::size_t at = 0;
            std::vector<any_tensor> given = given_inputs(each, at);
            given.erase(given.begin() + static_cast<std::ptrdiff_t>(at));
            static_cast<void>(sync(make(with_constant(each)).run(std::move(given)), pool));
        });
    }
}

TEST_F(impossible_values, that_callers_give_are_refused) {
    for (const impossible_value& each : all_cases()) {
        std::size_t at = 0;
        const std::vector<any_tensor> given = given_inputs(each, at);
        const network made = make(model_of(each.what));
        expect_refusal(each, "submitted", [&] { static_cast<void>(sync(made.run(given), pool)); });
    }
}

TEST_F(impossible_values, of_direct_calls_are_refused) {
    for (const impossible_value& each : all_cases()) {
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
    for (const impossible_value& each : all_cases()) {
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
    for (const impossible_value& each : all_cases())
        tried.emplace((each.what.domain.empty() ? "" : each.what.domain + ".") + each.what.op,
                      std::to_string(each.input));
    EXPECT_EQ(tried, documented());
}

TEST_F(impossible_values, do_not_include_the_label_that_is_ignored_and_categories_that_become_zeros) {
    const single_node loss{.op = "NegativeLogLikelihoodLoss",
                           .inputs = {floats({-1, -2}, {1, 2}), wide({7}, {1})},
                           .with = {{"ignore_index", whole(7)}, {"reduction", text("sum")}}};
    EXPECT_EQ(run_node(loss, pool).at(0).values<float>()[0], 0);
    const single_node encoder{
        .op = "OneHotEncoder", .inputs = {list({5})}, .with = {{"cats_int64s", wholes({1, 2})}}, .domain = ml};
    EXPECT_THAT(run_node(encoder, pool).at(0).values<float>(), ::testing::ElementsAre(0, 0));
}

// Rounds that hand their state on and give their part of the input. In operator set 8 the first input has the lengths
// of the sequences.
impossible_value scan_of_sequences() {
    graph body;
    body.inputs = {f32("state", {of(1)}), f32("part", {of(1)})};
    body.outputs = {f32("state_after", {of(1)}), f32("given", {of(1)})};
    body.nodes = {make_node("Identity", {"state"}, {"state_after"}), make_node("Identity", {"part"}, {"given"})};
    return {{.op = "Scan",
             .inputs = {list({4}), ones({1, 1}), ones({1, 3, 1})},
             .with = {{"body", std::make_shared<const graph>(std::move(body))}, {"num_scan_inputs", whole(1)}},
             .opset = 8,
             .outputs = 2},
            0,
            "has the length 4 of sequences of 3"};
}

std::vector<impossible_value> cases_on_host() {
    const any_tensor x = ones({2, 3}), image = ones({1, 1, 4, 4});
    const auto one = [](std::int64_t value) { return number<std::int64_t>(value); };
    const auto mel = [&](std::int64_t bands, std::int64_t length, std::int64_t rate, float low, float high) {
        return single_node{.op = "MelWeightMatrix",
                           .inputs = {one(bands), one(length), one(rate), number(low), number(high)},
                           .with = {}};
    };
    const auto resized = [&](any_tensor region, any_tensor scales, any_tensor sizes) {
        return single_node{.op = "Resize",
                           .inputs = {image, std::move(region), std::move(scales), std::move(sizes)},
                           .with = {{"coordinate_transformation_mode", text("tf_crop_and_resize")}}};
    };
    const float endless = std::numeric_limits<float>::infinity();
    const any_tensor everything = list<float>({0, 0, 0, 0, 1, 1, 1, 1}),
                     beyond = list<float>({0, 0, 0, 0, 1, 1, 1, endless});
    std::vector<impossible_value> cases{
        {{.op = "AffineGrid", .inputs = {ones({1, 2, 3}), list({1, 1, -2, 2})}, .with = {}, .opset = 20},
         1,
         "has the length -2"},
        {{.op = "BlackmanWindow", .inputs = {one(-1)}, .with = {}}, 0, "has -1 for the length"},
        {{.op = "HammingWindow", .inputs = {one(-1)}, .with = {}}, 0, "has -1 for the length"},
        {{.op = "HannWindow", .inputs = {one(-1)}, .with = {}}, 0, "has -1 for the length"},
        {{.op = "CenterCropPad", .inputs = {x, list({2, -3})}, .with = {}, .opset = 18}, 1, "has the length -3"},
        {{.op = "Col2Im", .inputs = {ones({1, 4, 1}), list({2, 0}), list({2, 2})}, .with = {}, .opset = 18},
         1,
         "has 0 in its"},
        {{.op = "Col2Im", .inputs = {ones({1, 4, 1}), list({2, 2}), list({2, -1})}, .with = {}, .opset = 18},
         2,
         "has -1 in its"},
        {{.op = "ConstantOfShape", .inputs = {list({2, -2})}, .with = {}}, 0, "has the length -2"},
        {{.op = "CumProd", .inputs = {x, one(-3)}, .with = {}, .opset = 26}, 1, "has the axis -3"},
        {{.op = "CumSum", .inputs = {x, one(2)}, .with = {}}, 1, "has the axis 2"},
        {{.op = "DFT", .inputs = {ones({1, 4, 1}), one(0)}, .with = {}}, 1, "has 0 for the length"},
        {{.op = "DFT", .inputs = {ones({1, 4, 1}), nothing(), one(3)}, .with = {}, .opset = 20}, 2, "has the axis 3"},
        {{.op = "Expand", .inputs = {x, list({-2, 3})}, .with = {}}, 1, "has the length -2"},
        {{.op = "MaxUnpool",
          .inputs = {ones({1, 1, 2, 2}), wide({0, 1, 2, 3}, {1, 1, 2, 2}), list({1, 1, 2, 3})},
          .with = {{"kernel_shape", wholes({2, 2})}}},
         2,
         "has the length 2 of dimension 2"},
        {mel(0, 16, 8000, 0, 4000), 0, "has 0 for the number of bands"},
        {mel(4, -16, 8000, 0, 4000), 1, "has -16 for the length"},
        {mel(4, 16, 0, 0, 4000), 2, "has 0 for the sample rate"},
        {mel(4, 16, 8000, -1, 4000), 3, "has the edges -1"},
        {mel(4, 16, 8000, 5, 4), 4, "has the edges 5"},
        {{.op = "OneHot", .inputs = {list({0, 1}), one(-1), ones({2})}, .with = {}}, 1, "has the depth -1"},
        {{.op = "Pad", .inputs = {x, list({0, 0, 1, -9})}, .with = {}}, 1, "pads the length 3 by 0 and -9"},
        {{.op = "Pad", .inputs = {x, list({0, 0}), nothing(), list({2})}, .with = {}, .opset = 18},
         3,
         "has the axis 2"},
        {{.op = "Range", .inputs = {number(0.0f), number(endless), number(1.0f)}, .with = {}}, 1, "to inf"},
        {{.op = "Range", .inputs = {number(0.0f), number(3.0f), number(0.0f)}, .with = {}}, 2, "has steps of 0"},
        {{.op = "Reshape", .inputs = {x, list({-2, 3})}, .with = {}}, 1, "has the length -2"},
        {resized(beyond, nothing(), list({1, 1, 2, 2})), 1, "has a region without bounds"},
        {resized(everything, list<float>({1, 1, 2, 0}), nothing()), 2, "has the scale 0"},
        {resized(everything, nothing(), list({1, 1, 4, -4})), 3, "has the size -4"},
        {{.op = "STFT", .inputs = {ones({1, 8, 1}), one(0), nothing(), one(4)}, .with = {}}, 1, "has 0 for"},
        {{.op = "STFT", .inputs = {ones({1, 8, 1}), one(2), nothing(), one(9)}, .with = {}}, 3, "has frames of 9"},
        {{.op = "Slice", .inputs = {x, list({0}), list({2}), list({2})}, .with = {}}, 3, "has the axis 2"},
        {{.op = "Slice", .inputs = {x, list({0}), list({2}), list({0}), list({0})}, .with = {}}, 4, "has steps of 0"},
        {{.op = "Split", .inputs = {x, list({3, -1})}, .with = {}, .outputs = 2}, 1, "has the length -1"},
        {{.op = "Squeeze", .inputs = {x, list({2})}, .with = {}}, 1, "has the axis 2"},
        {{.op = "Tile", .inputs = {x, list({1, -1})}, .with = {}}, 1, "has the length -1"},
        {{.op = "TopK", .inputs = {x, list({4})}, .with = {}, .outputs = 2}, 1, "looks for 4 of 3"},
        {{.op = "Unsqueeze", .inputs = {x, list({3})}, .with = {}}, 1, "has the axis 3"},
        {{.op = "Upsample", .inputs = {image, list<float>({1, 1, 0.5f, 2})}, .with = {}, .opset = 9},
         1,
         "has a scale below 1, 0.5"},
    };
    cases.push_back(scan_of_sequences());
    for (const char* const each :
         {"L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare"}) {
        cases.push_back({{.op = std::string("Reduce") + each, .inputs = {x, list({2})}, .with = {}, .opset = 18},
                         1,
                         "has the axis 2"});
    }
    return cases;
}

// Of inputs that devices may have.
std::vector<impossible_value> cases_on_devices() {
    const any_tensor x = ones({2, 3}), image = ones({1, 1, 4, 4}), pixel = ones({1, 1});
    const auto recurrent = [&](std::string op, std::size_t gates) {
        return impossible_value{{.op = std::move(op),
                                 .inputs = {ones({2, 1, 1}), ones({1, gates, 1}), ones({1, gates, 1}), nothing(),
                                            any_tensor(std::vector<std::int32_t>{3}, {1})},
                                 .with = {{"hidden_size", whole(1)}},
                                 .outputs = 2},
                                4,
                                "has the length 3 (number 0)"};
    };
    const any_tensor heads = ones({1, 1, 2, 2}), scores = ones({2, 2});
    return {
        {{.op = "ArrayFeatureExtractor", .inputs = {x, list({0, 3})}, .with = {}, .domain = ml},
         1,
         "has the index 3 (number 1)"},
        {{.op = "Attention",
          .inputs = {heads, heads, heads, nothing(), nothing(), nothing(), list({3})},
          .with = {},
          .opset = 24},
         6,
         "has the length 3"},
        recurrent("GRU", 3),
        {{.op = "Gather", .inputs = {x, list({0, 2})}, .with = {}}, 1, "has the index 2 (number 1)"},
        {{.op = "GatherElements", .inputs = {x, wide({-3, 0, 0}, {1, 3})}, .with = {}},
         1,
         "has the index -3 (number 0)"},
        {{.op = "GatherND", .inputs = {x, wide({0, 3}, {1, 2})}, .with = {}}, 1, "has the index 3 (number 1)"},
        recurrent("LSTM", 4),
        {{.op = "MaxRoiPool",
          .inputs = {image, floats({1, 0, 0, 3, 3}, {1, 5})},
          .with = {{"pooled_shape", wholes({2, 2})}}},
         1,
         "has the index 1 (number 0)"},
        {{.op = "MaxUnpool",
          .inputs = {ones({1, 1, 2, 2}), wide({0, 1, 2, 9}, {1, 1, 2, 2})},
          .with = {{"kernel_shape", wholes({2, 2})}}},
         1,
         "has the index 9 (number 3)"},
        {{.op = "NegativeLogLikelihoodLoss", .inputs = {scores, list({0, 2})}, .with = {}},
         1,
         "has the label 2 (number 1)"},
        {{.op = "OneHotEncoder",
          .inputs = {list<float>({1, 1.5f})},
          .with = {{"cats_int64s", wholes({1, 2})}, {"zeros", whole(0)}},
          .domain = ml},
         0,
         "has the category 1.5 (number 1)"},
        recurrent("RNN", 1),
        {{.op = "ReverseSequence", .inputs = {x, list({2, 2, 3})}, .with = {}}, 1, "has the length 3 (number 2)"},
        {{.op = "RoiAlign", .inputs = {image, ones({1, 4}), list({1})}, .with = {}}, 2, "has the index 1"},
        {{.op = "RotaryEmbedding",
          .inputs = {heads, ones({3, 1}), ones({3, 1}), wide({0, 3}, {1, 2})},
          .with = {},
          .opset = 23},
         3,
         "has the index 3 (number 1)"},
        {{.op = "Scatter", .inputs = {x, wide({2}, {1, 1}), pixel}, .with = {}, .opset = 9}, 1, "has the index 2"},
        {{.op = "ScatterElements", .inputs = {x, wide({-3}, {1, 1}), pixel}, .with = {}}, 1, "has the index -3"},
        {{.op = "ScatterND", .inputs = {x, wide({2}, {1, 1}), ones({1, 3})}, .with = {}},
         1,
         "has the index 2 (number 0)"},
        {{.op = "SoftmaxCrossEntropyLoss", .inputs = {scores, list({-1, 0})}, .with = {}},
         1,
         "has the label -1 (number 0)"},
        {{.op = "TensorScatter", .inputs = {ones({1, 4, 2}), ones({1, 3, 2}), list({2})}, .with = {}, .opset = 24},
         2,
         "has the index 2"},
    };
}

std::vector<impossible_value> all_cases() {
    std::vector<impossible_value> cases = cases_on_host();
    for (impossible_value& each : cases_on_devices()) cases.push_back(std::move(each));
    return cases;
}

}  // namespace
}  // namespace sluice::nn::impossible_values_tests
