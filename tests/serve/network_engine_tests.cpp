// SPDX-License-Identifier: Apache-2.0
#include "sluice/serve/network_engine.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/support/temporary_directory.hpp"
#include "serve/grpc/wire_writer.hpp"
#include "serve/support/fake_engine.hpp"
#include "serve/support/npy_values.hpp"
#include "sluice/base/file_error.hpp"
#include "sluice/nn/onnx.hpp"
#include "sluice/nn/run_limit.hpp"
#include "sluice/serve/served_model.hpp"
#include "sluice/serve/tensor_view.hpp"

namespace sluice::serve::network_engine_tests {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing::npy_values;
using testing::test_call;

const fs::path root = SLUICE_SOURCE_DIR;

void expect_digits(const fs::path& model) {
    network_engine engine({.device = "cpu"});
    const auto served = served_model::make("digits", 1, engine.load({"digits", 1, model}, {}), {});
    EXPECT_EQ(served->max_batch(), 64U) << served->joins_because();
    EXPECT_TRUE(served->padded_sizes().empty());  // on a CPU each row that is added takes time
    const std::vector<float> rows = npy_values(root / "data/digits_inputs.npy");
    const std::vector<float> wanted = npy_values(root / "data/digits_logits.npy");
    std::vector<std::shared_ptr<test_call>> calls;
    for (std::size_t i = 0; i < 20; ++i) {
        const auto begin = rows.begin() + static_cast<std::ptrdiff_t>(i * 64);
        calls.push_back(
            std::make_shared<test_call>(std::vector<float>(begin, begin + 64), std::vector<std::size_t>{1, 64}));
        served->submit(calls.back());
    }
    for (std::size_t i = 0; i < calls.size(); ++i) {
        const std::vector<float> logits = calls[i]->get();
        ASSERT_EQ(logits.size(), 10U);
        for (std::size_t j = 0; j < 10; ++j) EXPECT_NEAR(logits[j], wanted[i * 10 + j], 1e-4);
    }
}

TEST(network_engine, serves_a_perceptron_of_a_safetensors_file) { expect_digits(root / "models/digits.safetensors"); }

TEST(network_engine, serves_an_onnx_file) {
    if (!nn::onnx_supported()) GTEST_SKIP() << "built without ONNX";
    expect_digits(root / "models/digits.onnx");
}

TEST(network_engine, computes_in_the_precision_of_the_configuration) {
    network_engine engine({.device = "cpu"});
    const auto in_bf16 =
        engine.load({"digits", 1, root / "models/digits.safetensors"}, {.precision = nn::precision::bf16});
    EXPECT_THAT(in_bf16->how(), ::testing::AllOf(HasSubstr("bf16 ("), HasSubstr("3 of 3 products")));
    EXPECT_EQ(engine.load({"digits", 1, root / "models/digits.safetensors"}, {})->how(), "");
    const std::vector<float> rows = npy_values(root / "data/digits_inputs.npy");
    const std::vector<float> wanted = npy_values(root / "data/digits_logits.npy");
    const auto made = in_bf16->run({nn::any_tensor(std::vector(rows.begin(), rows.begin() + 64), {1, 64})});
    float largest = 0;
    for (std::size_t i = 0; i < 10; ++i) {
        const float difference = std::abs(made.front().values<float>()[i] - wanted[i]);
        EXPECT_LT(difference, 0.5F);
        largest = std::max(largest, difference);
    }
    EXPECT_GT(largest, 1e-4F) << "nothing was rounded";
}

// What it has taken after runs of many shapes: of the configuration, or where that says nothing, of the engine.
TEST(network_engine, keeps_as_much_between_runs_as_it_is_told) {
    const auto kept = [](std::size_t of_engine, std::optional<std::size_t> of_model) {
        network_engine engine({.device = "cpu", .kept_bytes = of_engine});
        device& cpu = engine.default_device();
        const auto in_use = [&] {
            return cpu.device_pool().usage().in_use_bytes + cpu.host_pool().usage().in_use_bytes;
        };
        const auto digits = engine.load({"digits", 1, root / "models/digits.safetensors"}, {.kept_bytes = of_model});
        const std::size_t before = in_use();
        for (std::size_t rows = 500; rows < 510; ++rows)
            for (int i = 0; i < 4; ++i) digits->run({nn::any_tensor(std::vector<float>(rows * 64), {rows, 64})});
        return in_use() - before;
    };
    const std::size_t all = kept(nn::kept_limit::default_bytes, {});
    EXPECT_GT(all, 10 * 500 * 64 * sizeof(float));
    EXPECT_LT(kept(0, {}), all / 3);
    EXPECT_LT(kept(nn::kept_limit::default_bytes, 0), all / 3);
    EXPECT_EQ(kept(0, nn::kept_limit::default_bytes), all);
}

TEST(network_engine, puts_a_model_on_the_devices_of_the_configuration) {
    network_engine engine({.device = "cpu"});
    const fs::path file = root / "models/digits.safetensors";
    EXPECT_EQ(engine.load({"digits", 1, file}, {.devices = {"cpu:0"}})->device_name(), "cpu:0");
    EXPECT_THROW(engine.load({"digits", 1, file}, {.devices = {"cpu:0", "cpu:99"}}), error);
    try {
        engine.load({"digits", 1, file}, {.devices = {"cpu", "cpu:0"}});
        FAIL() << "it is loaded";
    } catch (const error& failure) {
        EXPECT_THAT(failure.what(), HasSubstr("names the device cpu:0 twice"));
    }
}

// A file with one node, Reshape, from x to y.
std::string reshape_to(const std::vector<std::size_t>& to, bool says_shape, std::string_view y = "y") {
    const auto described = [](std::string_view name, std::span<const std::size_t> lengths) {
        wire_writer shape, tensor, type, value;
        for (const std::size_t each : lengths) {
            wire_writer dimension;
            dimension.add_number(1, each);
            shape.add_bytes(1, dimension.text());
        }
        tensor.add_number(1, 1);  // FLOAT
        if (!lengths.empty()) tensor.add_bytes(2, shape.text());
        type.add_bytes(1, tensor.text());
        value.add_bytes(1, name);
        value.add_bytes(2, type.text());
        return value.text();
    };
    wire_writer node, target, graph, opset, model;
    for (const char* each : {"x", "shape"}) node.add_bytes(1, each);
    node.add_bytes(2, y);
    node.add_bytes(4, "Reshape");
    target.add_number(1, to.size());
    target.add_number(2, 7);  // INT64
    for (const std::size_t each : to) target.add_number(7, each);
    target.add_bytes(8, "shape");
    graph.add_bytes(1, node.text());
    graph.add_bytes(2, "graph");
    graph.add_bytes(5, target.text());
    graph.add_bytes(11, described("x", std::vector<std::size_t>{1, 2}));
    graph.add_bytes(12, described(y, says_shape ? to : std::vector<std::size_t>{}));
    opset.add_number(2, 13);
    model.add_number(1, 8);
    model.add_bytes(7, graph.text());
    model.add_bytes(8, opset.text());
    return model.text();
}

TEST(network_engine, refuses_outputs_with_more_dimensions_than_an_answer_may_have) {
    if (!nn::onnx_supported()) GTEST_SKIP() << "built without ONNX";
    const io::testing::temporary_directory folder;
    const fs::path file = folder / "model.onnx";
    network_engine engine({.device = "cpu"});
    const auto load = [&](const std::string& contents) {
        std::ofstream(file, std::ios::binary) << contents;
        return engine.load({"m", 1, file}, {});
    };
    std::vector<std::size_t> shape(tensor_shape::most_dimensions, 1);
    shape.back() = 2;
    const auto answers = served_model::make("m", 1, load(reshape_to(shape, true)), {});
    const auto right = testing::row_of(3);
    answers->submit(right);
    EXPECT_EQ(right->get(), (std::vector<float>{3, 3}));
    shape.insert(shape.begin(), 1);
    try {
        load(reshape_to(shape, true));
        ADD_FAILURE() << "it is loaded";
    } catch (const error& failure) {
        EXPECT_EQ(failure.code(), errc::unsupported);
        EXPECT_THAT(failure.what(), ::testing::HasSubstr("output 'y' has more than 16 dimensions"));
    }
    // Where the file does not say the shape, the request is refused.
    const auto served = served_model::make("m", 1, load(reshape_to(shape, false)), {});
    const auto refused = testing::row_of(3);
    served->submit(refused);
    EXPECT_THROW(refused->get(), refusal);
}

// A file with one node, Tile, of x [rows, 2] to y.
std::string tiled(std::uint64_t times) {
    const auto described = [](std::string_view name, bool says_shape) {
        wire_writer rows, two, shape, tensor, type, value;
        rows.add_bytes(2, "rows");
        two.add_number(1, 2);
        shape.add_bytes(1, rows.text());
        shape.add_bytes(1, two.text());
        tensor.add_number(1, 1);  // FLOAT
        if (says_shape) tensor.add_bytes(2, shape.text());
        type.add_bytes(1, tensor.text());
        value.add_bytes(1, name);
        value.add_bytes(2, type.text());
        return value.text();
    };
    wire_writer node, repeats, graph, opset, model;
    for (const char* each : {"x", "times"}) node.add_bytes(1, each);
    node.add_bytes(2, "y");
    node.add_bytes(4, "Tile");
    repeats.add_number(1, 2);
    repeats.add_number(2, 7);  // INT64
    repeats.add_number(7, 1);
    repeats.add_number(7, times);
    repeats.add_bytes(8, "times");
    graph.add_bytes(1, node.text());
    graph.add_bytes(2, "graph");
    graph.add_bytes(5, repeats.text());
    graph.add_bytes(11, described("x", true));
    graph.add_bytes(12, described("y", false));
    opset.add_number(2, 13);
    model.add_number(1, 8);
    model.add_bytes(7, graph.text());
    model.add_bytes(8, opset.text());
    return model.text();
}

// Without the limit the trial of the first one takes 512 GiB, or all memory.
TEST(network_engine, bounds_what_a_model_takes_at_load_and_for_a_request) {
    if (!nn::onnx_supported()) GTEST_SKIP() << "built without ONNX";
    const io::testing::temporary_directory folder;
    const fs::path file = folder / "model.onnx";
    network_engine engine({.device = "cpu", .most_run_bytes = std::size_t{1} << 20});
    const auto served = [&](std::uint64_t times) {
        std::ofstream(file, std::ios::binary) << tiled(times);
        return served_model::make("m", 1, engine.load({"m", 1, file}, {}), {});
    };
    EXPECT_THROW(served(std::uint64_t{1} << 36), nn::run_too_large);

    const auto model = served(1024);  // 8 KiB a row
    const auto small = testing::row_of(3);
    const auto large = std::make_shared<test_call>(std::vector<float>(2048), std::vector<std::size_t>{1024, 2});
    model->submit(large);
    try {
        large->get();
        FAIL() << "8 MiB are answered";
    } catch (const refusal& why) {
        EXPECT_EQ(why.kind(), refusal_kind::too_large);
        EXPECT_THAT(why.what(), HasSubstr("Tile"));
    }
    model->submit(small);
    EXPECT_EQ(small->get().size(), 2048U);
    EXPECT_TRUE(model->is_ready());
}

TEST(network_engine, refuses_names_that_no_message_may_have) {
    if (!nn::onnx_supported()) GTEST_SKIP() << "built without ONNX";
    const io::testing::temporary_directory folder;
    const fs::path file = folder / "model.onnx";
    network_engine engine({.device = "cpu"});
    const auto load = [&](std::string_view name) {
        std::ofstream(file, std::ios::binary) << reshape_to({2, 1}, true, name);
        return engine.load({"m", 1, file}, {});
    };
    EXPECT_EQ(load("\xc3\xa4 \xe2\x82\xac")->outputs().front().name, "\xc3\xa4 \xe2\x82\xac");
    try {
        load("y\xff");
        ADD_FAILURE() << "it is loaded";
    } catch (const error& failure) {
        EXPECT_EQ(failure.code(), errc::unsupported);
        EXPECT_THAT(failure.what(), ::testing::HasSubstr("the name of output 'y\\xff' is not UTF-8"));
    }
}

TEST(network_engine, refuses_activations_for_onnx_and_devices_that_do_not_exist) {
    network_engine engine({.device = "cpu"});
    EXPECT_THROW(engine.load({"digits", 1, root / "models/digits.onnx"}, {.hidden_activation = activation::relu}),
                 error);
    EXPECT_THROW(engine.load({"digits", 1, root / "models/digits.onnx"}, {.device = "cpu:99"}), error);
    EXPECT_THROW(network_engine({.device = "tpu"}), error);
    EXPECT_THROW(engine.load({"digits", 1, root / "README.md"}, {}), error);
}

}  // namespace
}  // namespace sluice::serve::network_engine_tests
