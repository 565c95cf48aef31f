// SPDX-License-Identifier: Apache-2.0
#include "nn/support/impossible_cases.hpp"

#include <limits>
#include <memory>

#include "nn/small_models.hpp"

namespace sluice::nn::test_support {
namespace {

const std::string ml = "ai.onnx.ml";

any_tensor nothing() { return {}; }

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
          .inputs = {list<float>({1, 3.5f})},
          .with = {{"cats_int64s", wholes({1, 2})}, {"zeros", whole(0)}},
          .domain = ml},
         0,
         "has the category 3.5 (number 1)"},
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

}  // namespace

std::vector<impossible_value> impossible_cases() {
    std::vector<impossible_value> cases = cases_on_host();
    for (impossible_value& each : cases_on_devices()) cases.push_back(std::move(each));
    return cases;
}

}  // namespace sluice::nn::test_support
