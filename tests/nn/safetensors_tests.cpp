// SPDX-License-Identifier: Apache-2.0
#include "sluice/nn/safetensors.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "io/support/hostile_files.hpp"
#include "io/support/temporary_directory.hpp"
#include "sluice/io/npy.hpp"
#include "sluice/nn/to_layers.hpp"

namespace sluice::nn::safetensors_tests {
namespace {

using io::testing::bytes_of;
using io::testing::expect_refused;
using io::testing::float_bytes;
using io::testing::label;
using io::testing::little_endian;
using io::testing::offset_in;
using io::testing::safetensors_bytes;
using io::testing::temporary_directory;

const std::filesystem::path source_directory = SLUICE_SOURCE_DIR;

// Puts together a safetensors file, tensor by tensor.
class file_maker {
public:
    file_maker& add(std::string_view name, std::string_view type, std::initializer_list<std::size_t> shape,
                    std::string_view bytes) {
        begin_entry(name);
        json_.append("{\"dtype\":\"").append(type).append("\",\"shape\":[");
        for (const char* comma = ""; const std::size_t dimension : shape) {
            json_.append(std::exchange(comma, ",")).append(std::to_string(dimension));
        }
        json_ += "],\"data_offsets\":[" + std::to_string(data_.size()) + ",";
        data_ += bytes;
        json_ += std::to_string(data_.size()) + "]}";
        return *this;
    }
    // An f32 tensor of zeros.
    file_maker& zeros(std::string_view name, std::initializer_list<std::size_t> shape) {
        std::size_t bytes = 4;
        for (const std::size_t dimension : shape) bytes *= dimension;
        return add(name, "F32", shape, std::string(bytes, '\0'));
    }
    file_maker& metadata(std::string_view json) {
        begin_entry("__metadata__");
        json_ += json;
        return *this;
    }

    std::string json() const { return json_ + "}"; }
    std::string bytes() const { return safetensors_bytes(json(), data_); }
    // The offset in the file of byte `at` of the data section.
    std::uint64_t data_offset(std::size_t at) const { return 8 + json().size() + at; }

    // Where the metadata do not say the hidden activation, `options` do: these are tests of something else.
    std::vector<mlp_layer> load(const safetensors_options& options = {.hidden = activation::relu}) const {
        const std::string file = bytes();
        return to_layers(load_safetensors(io::safetensors_view(bytes_of(file), label), options));
    }
    void expect_refused_at(std::size_t data_at, const std::string& tensor, const std::string& why) const {
        expect_refused([&] { static_cast<void>(load()); }, {data_offset(data_at), tensor, why});
    }

private:
    void begin_entry(std::string_view name) {
        json_.append(json_.size() == 1 ? "\"" : ",\"").append(name).append("\":");
    }

    std::string json_ = "{";
    std::string data_;
};

std::vector<std::string> layer_names(const std::vector<mlp_layer>& layers) {
    std::vector<std::string> names;
    for (const auto& layer : layers) names.push_back(layer.name);
    return names;
}

// ---- what is read

TEST(perceptron_files, reads_layers_with_their_weights_and_biases) {
    const std::vector<mlp_layer> layers = file_maker()
                                              .add("0.weight", "F32", {2, 3}, float_bytes({1, 2, 3, 4, 5, 6}))
                                              .add("0.bias", "F32", {2}, float_bytes({7, 8}))
                                              .add("2.weight", "F32", {1, 2}, float_bytes({9, 10}))
                                              .load();
    ASSERT_EQ(layers.size(), 2u);
    const mlp_layer& first = layers[0];
    EXPECT_EQ(first.name, "0");
    EXPECT_EQ(first.in_features, 3u);
    EXPECT_EQ(first.out_features, 2u);
    EXPECT_EQ(first.weight, (std::vector<float>{1, 2, 3, 4, 5, 6}));
    EXPECT_EQ(first.bias, (std::vector<float>{7, 8}));
    EXPECT_TRUE(layers[1].bias.empty());
    EXPECT_EQ(layers.front().in_features, 3u);
    EXPECT_EQ(layers.back().out_features, 1u);
}

TEST(perceptron_files, orders_layers_by_number_and_not_by_text) {
    const std::vector<mlp_layer> layers = file_maker()
                                              .zeros("10.weight", {1, 2})
                                              .zeros("2.weight", {2, 3})
                                              .zeros("0.weight", {3, 4})
                                              .zeros("8.weight", {2, 2})
                                              .zeros("6.weight", {2, 2})
                                              .zeros("4.weight", {2, 2})
                                              .load();
    EXPECT_THAT(layer_names(layers), ::testing::ElementsAre("0", "2", "4", "6", "8", "10"));
}

TEST(perceptron_files, takes_one_common_prefix) {
    const std::vector<mlp_layer> layers =
        file_maker().zeros("model.net.0.weight", {2, 2}).zeros("model.net.0.bias", {2}).load();
    EXPECT_THAT(layer_names(layers), ::testing::ElementsAre("model.net.0"));
}

TEST(perceptron_files, converts_f16_and_bf16_weights) {
    const std::vector<mlp_layer> layers = file_maker()
                                              .add("0.weight", "F16", {1, 2}, little_endian(0xc000'3c00, 4))
                                              .add("0.bias", "BF16", {1}, little_endian(0x4040, 2))
                                              .load();
    EXPECT_EQ(layers[0].weight, (std::vector<float>{1, -2}));
    EXPECT_EQ(layers[0].bias, std::vector<float>{3});
}

TEST(perceptron_files, takes_activations_from_the_metadata) {
    const std::vector<mlp_layer> layers =
        file_maker()
            .metadata(R"({"activation":"gelu","output_activation":"softmax","format":"pt"})")
            .zeros("0.weight", {2, 2})
            .zeros("2.weight", {2, 2})
            .load({});
    EXPECT_EQ(layers[0].after, activation::gelu);
    EXPECT_EQ(layers[1].after, activation::softmax);
}

TEST(perceptron_files, takes_activations_that_the_file_does_not_say_from_the_options) {
    const auto maker = file_maker().zeros("0.weight", {2, 2}).zeros("2.weight", {2, 2}).zeros("4.weight", {2, 2});
    const std::vector<mlp_layer> layers = maker.load({.hidden = activation::tanh, .output = activation::sigmoid});
    EXPECT_EQ(layers[0].after, activation::tanh);
    EXPECT_EQ(layers[1].after, activation::tanh);
    EXPECT_EQ(layers[2].after, activation::sigmoid);
    EXPECT_EQ(maker.load()[2].after, activation::none);
}

TEST(perceptron_files, takes_a_file_and_options_that_say_the_same) {
    const auto maker = file_maker().metadata(R"({"activation":"linear"})").zeros("0.weight", {2, 2});
    EXPECT_EQ(maker.load({.hidden = activation::none})[0].after, activation::none);
}

TEST(perceptron_files, needs_only_the_output_activation_for_a_single_layer) {
    const auto maker = file_maker().metadata(R"({"output_activation":"softmax"})").zeros("0.weight", {2, 2});
    EXPECT_EQ(maker.load({})[0].after, activation::softmax);
}

TEST(perceptron_files, without_activations_takes_layers_that_follow_each_other_at_once_or_with_one_place_between) {
    const std::vector<mlp_layer> layers = file_maker()
                                              .zeros("0.weight", {2, 2})
                                              .zeros("1.weight", {2, 2})
                                              .zeros("3.weight", {2, 2})
                                              .load({.hidden = activation::none});
    EXPECT_THAT(layer_names(layers), ::testing::ElementsAre("0", "1", "3"));
    for (const mlp_layer& layer : layers) EXPECT_EQ(layer.after, activation::none);
}

TEST(perceptron_files, accepted_activations_are_those_that_have_a_name) {
    for (const activation each : {activation::none, activation::relu, activation::gelu, activation::sigmoid,
                                  activation::tanh, activation::softmax}) {
        EXPECT_THAT(accepted_activations(), ::testing::HasSubstr(std::string(to_string(each))));
    }
    std::istringstream names(accepted_activations());
    for (std::string name; std::getline(names >> std::ws, name, ',');) {
        EXPECT_TRUE(activation_from_string(name)) << name;
    }
}

// ---- what is refused

TEST(perceptron_files, refuses_activations_that_it_does_not_know) {
    for (const std::string key : {"activation", "output_activation"}) {
        const auto maker = file_maker().metadata("{\"" + key + "\":\"relu7\"}").zeros("0.weight", {1, 1});
        expect_refused([&] { static_cast<void>(maker.load()); },
                       {offset_in(maker.json(), "{\"" + key), "__metadata__." + key,
                        "unknown activation 'relu7'; accepted are none, identity, linear, relu, gelu"});
    }
}

TEST(perceptron_files, refuses_a_file_that_does_not_say_its_activation) {
    // Could be ReLU, Tanh, SiLU, ReLU then Tanh, LayerNorm without parameters, ...
    const auto network = file_maker().zeros("0.weight", {2, 2}).zeros("2.weight", {2, 2});
    expect_refused(
        [&] { static_cast<void>(network.load({})); },
        {8, "__metadata__.activation",
         "nothing says which activation follows the hidden layers: say it in the file's metadata or when the "
         "network is loaded (sluice: --activation); accepted are none, identity, linear, relu"});
    expect_refused([&] { static_cast<void>(network.load({.hidden = {}, .output = activation::softmax})); },
                   {8, "__metadata__.activation", "nothing says which activation follows the hidden layers"});
    const auto layer = file_maker().zeros("0.weight", {2, 2});
    expect_refused([&] { static_cast<void>(layer.load({})); },
                   {8, "__metadata__.output_activation", "nothing says which activation follows the layer"});
}

TEST(perceptron_files, refuses_metadata_that_it_does_not_know) {
    for (const std::string key : {"activaton", "Activation", "activation ", "hidden_activation", "made by"}) {
        const auto maker = file_maker().metadata("{\"" + key + "\":\"relu\"}").zeros("0.weight", {1, 1});
        expect_refused([&] { static_cast<void>(maker.load()); },
                       {offset_in(maker.json(), "{\"" + key), "__metadata__." + key,
                        "is not known; known are activation, output_activation and format"});
    }
    const auto maker = file_maker().metadata(R"({"format":"tf"})").zeros("0.weight", {1, 1});
    expect_refused(
        [&] { static_cast<void>(maker.load()); },
        {offset_in(maker.json(), "{\"format"), "__metadata__.format", "unknown format 'tf'; accepted is pt"});
}

TEST(perceptron_files, refuses_a_file_and_options_that_say_different_activations) {
    const auto maker = file_maker().metadata(R"({"activation":"tanh"})").zeros("0.weight", {1, 1});
    expect_refused([&] { static_cast<void>(maker.load()); },
                   {offset_in(maker.json(), "{\"activation"), "__metadata__.activation",
                    "the file says 'tanh', but the network is to be loaded with 'relu'"});
}

TEST(perceptron_files, refuses_layers_without_a_place_for_the_activation_between_them) {
    file_maker()
        .zeros("0.weight", {2, 2})
        .zeros("1.weight", {2, 2})
        .expect_refused_at(16, "'1.weight'", "follows '0' at once, with no place for the activation relu");
}

TEST(perceptron_files, refuses_gaps_in_which_other_modules_stood) {
    const auto wide = file_maker().zeros("net.0.weight", {2, 2}).zeros("net.3.weight", {2, 2});
    wide.expect_refused_at(16, "'net.3.weight'", "is 3 places after 'net.0'");
    expect_refused([&] { static_cast<void>(wide.load({.hidden = activation::none})); },
                   {wide.data_offset(16), "'net.3.weight'", "is 3 places after 'net.0'"});
    file_maker().zeros("1.weight", {2, 2}).expect_refused_at(0, "'1.weight'", "not at place 0");
}

TEST(perceptron_files, refuses_normalisations_by_name) {
    const auto network = [] { return file_maker().zeros("0.weight", {2, 2}); };
    network().zeros("1.weight", {2}).zeros("1.bias", {2}).expect_refused_at(16, "'1.weight'", "LayerNorm, BatchNorm");
    for (const std::string name : {"1.running_mean", "1.running_var", "1.num_batches_tracked"}) {
        network().zeros(name, {2}).expect_refused_at(16, "'" + name + "'", "belongs to a BatchNorm");
    }
}

TEST(perceptron_files, refuses_layers_that_do_not_chain) {
    file_maker()
        .zeros("0.weight", {3, 2})
        .zeros("2.weight", {1, 4})
        .expect_refused_at(24, "'2.weight'", "takes 4 inputs, but the layer before, '0', has 3 outputs");
}

TEST(perceptron_files, refuses_weights_without_two_dimensions) {
    file_maker().zeros("0.weight", {4}).expect_refused_at(0, "'0.weight'", "has 1 dimension, as");
    file_maker().zeros("0.weight", {}).expect_refused_at(0, "'0.weight'", "has 0 dimensions");
    file_maker().zeros("0.weight", {1, 2, 3}).expect_refused_at(0, "'0.weight'", "has 3 dimensions");
}

TEST(perceptron_files, refuses_a_bias_of_another_length) {
    file_maker().zeros("0.weight", {2, 2}).zeros("0.bias", {3}).expect_refused_at(16, "'0.bias'", "2 elements");
    file_maker().zeros("0.weight", {2, 2}).zeros("0.bias", {2, 1}).expect_refused_at(16, "'0.bias'", "2 elements");
    file_maker().zeros("0.weight", {1, 2}).zeros("0.bias", {}).expect_refused_at(8, "'0.bias'", "1 elements");
}

TEST(perceptron_files, refuses_a_bias_without_its_weight) {
    file_maker().zeros("0.weight", {1, 1}).zeros("1.bias", {1}).expect_refused_at(4, "'1.bias'", "without its weight");
}

TEST(perceptron_files, refuses_tensors_that_are_not_of_a_sequential) {
    for (const std::string name :
         {"weight", "bias", "0", "0.weights", "fc1.weight", "net.fc.weight", ".weight", "0x.weight", "-1.weight",
          "01.weight", "net0.weight", "18446744073709551616.weight", "0.weight.0", ""}) {
        file_maker()
            .zeros("0.weight", {1, 1})
            .zeros(name, {1, 1})
            .expect_refused_at(4, "'" + name + "'", "is not \"NUMBER.weight\" or \"NUMBER.bias\"");
    }
}

TEST(perceptron_files, refuses_a_second_prefix) {
    file_maker()
        .zeros("a.0.weight", {1, 1})
        .zeros("b.1.weight", {1, 1})
        .expect_refused_at(4, "'b.1.weight'", "does not share the prefix 'a.'");
    file_maker().zeros("0.weight", {1, 1}).zeros("a.0.bias", {1}).expect_refused_at(4, "'a.0.bias'", "prefix ''");
}

TEST(perceptron_files, refuses_a_file_without_layers) {
    expect_refused([] { static_cast<void>(file_maker().metadata("{}").load()); }, {8, "header", "no layers"});
}

TEST(perceptron_files, refuses_layers_of_size_zero) {
    file_maker().zeros("0.weight", {0, 4}).expect_refused_at(0, "'0.weight'", "size zero");
    file_maker().zeros("0.weight", {4, 0}).zeros("0.bias", {4}).expect_refused_at(0, "'0.weight'", "size zero");
}

TEST(perceptron_files, refuses_weights_that_are_not_floats) {
    file_maker().add("0.weight", "I32", {1, 1}, "abcd").expect_refused_at(0, "'0.weight'", "elements of type i32");
    file_maker()
        .zeros("0.weight", {1, 1})
        .add("0.bias", "F64", {1}, "abcdefgh")
        .expect_refused_at(4, "'0.bias'", "elements of type f64");
}

TEST(perceptron_files, names_the_path_of_the_file_that_it_refuses) {
    const temporary_directory directory;
    const auto path = directory.write("m.safetensors", file_maker().bytes());
    expect_refused([&] { static_cast<void>(load_safetensors(path)); }, {8, "header", "no layers"}, path);
}

// ---- the trained model

// y = after(x · weightᵀ + bias), in double.
std::vector<double> layer_output(const mlp_layer& layer, const std::vector<double>& x) {
    std::vector<double> y(layer.out_features);
    for (std::size_t i = 0; i < y.size(); ++i) {
        double sum = layer.bias[i];
        for (std::size_t k = 0; k < x.size(); ++k) sum += x[k] * static_cast<double>(layer.weight[i * x.size() + k]);
        y[i] = layer.after == activation::relu ? std::max(sum, 0.) : sum;
    }
    return y;
}

TEST(perceptron_files, gives_the_trainers_logits_on_the_digits) {
    const std::vector<mlp_layer> layers = to_layers(load_safetensors(source_directory / "models/digits.safetensors"));
    ASSERT_EQ(layers.size(), 3u);
    EXPECT_EQ(layers.front().in_features, 64u);
    EXPECT_EQ(layers.back().out_features, 10u);

    const io::npy_file inputs(source_directory / "data/digits_inputs.npy");
    const auto labels = io::npy_file(source_directory / "data/digits_labels.npy").view().values<std::int64_t>();
    const auto logits = io::npy_file(source_directory / "data/digits_logits.npy").view().values<float>();
    ASSERT_EQ(inputs.view().rows(), labels.size());
    ASSERT_EQ(logits.size(), labels.size() * 10);

    std::size_t right = 0;
    std::vector<float> row(64);
    for (std::size_t i = 0; i < labels.size(); ++i) {
        inputs.view().read_rows(i, row);
        std::vector<double> x(row.begin(), row.end());
        for (const auto& layer : layers) x = layer_output(layer, x);
        for (std::size_t k = 0; k < 10; ++k) ASSERT_NEAR(x[k], logits[i * 10 + k], 1e-4) << "row " << i;
        right += std::max_element(x.begin(), x.end()) - x.begin() == labels[i];
    }
    EXPECT_GE(static_cast<double>(right) / static_cast<double>(labels.size()), 0.97);
}

}  // namespace
}  // namespace sluice::nn::safetensors_tests
