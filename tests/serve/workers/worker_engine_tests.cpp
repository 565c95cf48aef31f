// SPDX-License-Identifier: Apache-2.0
// A model in worker processes is the same as one in this process: what it says, what it computes, and what it refuses.
#include "sluice/serve/worker_engine.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <new>
#include <random>
#include <string>
#include <vector>

#include "serve/support/fake_engine.hpp"
#include "serve/support/npy_values.hpp"
#include "serve/workers/model_message.hpp"
#include "serve/workers/peers.hpp"
#include "serve/workers/trouble.hpp"
#include "sluice/base/file_error.hpp"
#include "sluice/serve/served_model.hpp"

namespace sluice::serve::worker_engine_tests {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing::npy_values;
using testing::peers;
using testing::test_call;
using testing::trouble;

const fs::path root = SLUICE_SOURCE_DIR;

std::string described(const loaded_model& model) {
    packed_writer to;
    put(to, description_of(model));
    return to.take();
}

bool are_equal(const nn::any_tensor& a, const nn::any_tensor& b) {
    const auto left = a.bytes(), right = b.bytes();
    return a.type() == b.type() && a.shape() == b.shape() && std::ranges::equal(left, right);
}

// Lengths that are known when the network runs are `rows`.
std::vector<nn::any_tensor> some_inputs(const loaded_model& model, std::size_t rows) {
    std::vector<nn::any_tensor> made;
    std::mt19937 random(1);
    for (const nn::value_info& each : model.inputs()) {
        std::vector<std::size_t> shape;
        for (const nn::dimension& length : *each.shape) shape.push_back(length.length.value_or(rows));
        std::byte* to = nullptr;
        made.push_back(nn::any_tensor::make_on_host(each.type, shape, to));
        if (each.type != io::dtype::f32) continue;
        for (std::size_t i = 0; i < made.back().elements(); ++i) {
            const float number = static_cast<float>(random() % 1000) / 1000;
            std::memcpy(to + i * sizeof(number), &number, sizeof(number));
        }
    }
    return made;
}

// What each engine says to it: the outputs, or the text of what is thrown.
template <typename Run>
std::string outcome_of(const Run& run) {
    try {
        std::string text;
        for (const nn::any_tensor& each : run()) text += to_string(each) + " ";
        return text;
    } catch (const error& failure) {
        return "error " + std::to_string(failure.code().value()) + ": " + failure.what();
    } catch (const std::exception& failure) {
        return failure.what();
    }
}

TEST(worker_engine, networks_say_and_compute_the_same_as_in_this_process) {
    network_engine here({.device = "cpu", .machine = {.cpu_workers = 1, .cuda = false}});
    worker_engine there(peers(1, 1));
    for (const char* const file : {"digits.safetensors", "digits.onnx", "digits_cnn.onnx", "digits_lstm.onnx",
                                   "digits_cnn_int8.onnx", "tumours.onnx"}) {
        SCOPED_TRACE(file);
        const model_version which{"a", 1, root / "models" / file};
        model_config config;
        if (std::string(file) == "digits.onnx") config.precision = nn::precision::bf16;  // how() has words then
        const auto one = here.load(which, config), other = there.load(which, config);
        EXPECT_EQ(described(*other), described(*one));
        EXPECT_FALSE(other->is_lost());
        EXPECT_THAT(other->lost_devices(), ::testing::IsEmpty());
        for (const std::size_t rows : {0U, 1U, 3U, 200U}) {
            const auto inputs = some_inputs(*one, rows);
            ASSERT_EQ(outcome_of([&] { return other->run(inputs); }), outcome_of([&] { return one->run(inputs); }));
            if (rows == 0) continue;
            const auto wanted = one->run(inputs), got = other->run(inputs);
            ASSERT_EQ(got.size(), wanted.size());
            for (std::size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(are_equal(got[i], wanted[i])) << rows << " " << i;
        }
        const std::vector<nn::any_tensor> wrong{nn::any_tensor(std::vector<float>(6), {2, 3})};
        EXPECT_EQ(outcome_of([&] { return other->run(wrong); }), outcome_of([&] { return one->run(wrong); }));
    }
}

TEST(worker_engine, tensors_of_each_type_length_and_number_come_back) {
    worker_engine engine(peers(1, 0));
    const trouble its(engine);
    EXPECT_EQ(its.model().platform(), "trouble");
    EXPECT_EQ(its.model().device_name(), "trouble:0");
    EXPECT_EQ(its.model().how(), "with trouble");
    ASSERT_EQ(its.model().texts().size(), 2U);
    EXPECT_EQ(its.model().texts().text_of(1), "green");
    const trouble many(engine, "many");
    auto inputs = testing::many_tensors();
    inputs.insert(inputs.begin() + 7, nn::any_tensor());  // an input that is left out has no output
    const auto outputs = many.model().run(inputs);        // 1.5 MB, in pieces of 4 KiB
    inputs.erase(inputs.begin() + 7);
    ASSERT_EQ(outputs.size(), inputs.size());
    for (std::size_t i = 0; i < inputs.size(); ++i) EXPECT_TRUE(are_equal(outputs[i], inputs[i])) << i;
}

TEST(worker_engine, what_a_run_throws_is_thrown_here) {
    worker_engine engine(peers(1, 0));
    const trouble its(engine);
    try {
        its.run(testing::refused_number);
        FAIL();
    } catch (const error& failure) {
        EXPECT_EQ(failure.code(), errc::out_of_range);
        EXPECT_EQ(failure.operation(), "trouble");
        EXPECT_STREQ(failure.what(), "trouble: 13 is out of range");
    }
    EXPECT_THROW(its.run(testing::no_memory_number), std::bad_alloc);
    EXPECT_TRUE(its.answers(1));
    EXPECT_EQ(engine.counts().restarts, 0U);
}

TEST(worker_engine, what_a_load_throws_is_thrown_here) {
    network_engine here({.device = "cpu", .machine = {.cpu_workers = 1, .cuda = false}});
    worker_engine there(peers(1, 1));
    const io::testing::temporary_directory folder;
    std::ofstream(folder / "bad.onnx") << "no network";
    std::ofstream(folder / "empty.onnx");
    std::ofstream(folder / "bad.safetensors") << "neither";
    const auto said = [](engine& by, const model_version& which, const model_config& how) {
        return outcome_of([&] {
            by.load(which, how);
            return std::vector<nn::any_tensor>();
        });
    };
    for (const char* const file : {"bad.onnx", "empty.onnx", "bad.safetensors", "absent.onnx"}) {
        const model_version which{"a", 1, folder / file};
        EXPECT_EQ(said(there, which, {}), said(here, which, {})) << file;
        EXPECT_NE(said(here, which, {}), "");
    }
    const model_version digits{"a", 1, root / "models/digits.onnx"};
    EXPECT_EQ(said(there, digits, {.device = "cpu:7"}), said(here, digits, {.device = "cpu:7"}));
    EXPECT_THAT(said(there, digits, {.resident = true}), HasSubstr("`resident`, which worker processes do not take"));
    EXPECT_EQ(said(there, digits, {}), "");
    std::ofstream(folder / "a.trouble") << "refuse";
    try {
        there.load({"a", 1, folder / "a.trouble"}, {});
        FAIL();
    } catch (const file_error& failure) {
        EXPECT_EQ(failure.path(), folder / "a.trouble");
        EXPECT_EQ(failure.offset(), 3U);
        EXPECT_EQ(failure.field(), "word");
    }
}

TEST(worker_engine, an_engine_that_cannot_be_made_is_refused_in_its_own_words) {
    const auto with = [](auto change) {
        worker_engine_options options = peers(1, 1);
        change(options);
        return outcome_of([&] {
            const worker_engine made(options);
            return std::vector<nn::any_tensor>();
        });
    };
    EXPECT_THAT(with([](auto& its) { its.engine.device = "cpu:9"; }), HasSubstr("cpu:9"));
    EXPECT_THAT(with([](auto& its) { its.command = {"/no/such/program"}; }), HasSubstr("cannot start"));
    EXPECT_THAT(with([](auto& its) { its.command = {"/bin/false"}; }), HasSubstr("it ended with status 1"));
    EXPECT_THAT(with([](auto& its) { its.workers = 0; }), HasSubstr("1 to 256"));
    EXPECT_THAT(with([](auto& its) { its.hatches = 0; }), HasSubstr("1 to 1024 hatches"));
}

TEST(worker_engine, a_served_model_joins_and_answers_requests) {
    worker_engine engine(peers(2, 0));
    const auto served =
        served_model::make("digits", 1, engine.load({"digits", 1, root / "models/digits.onnx"}, {}), {});
    EXPECT_EQ(served->max_batch(), 64U) << served->joins_because();
    const std::vector<float> rows = npy_values(root / "data/digits_inputs.npy");
    const std::vector<float> wanted = npy_values(root / "data/digits_logits.npy");
    std::vector<std::shared_ptr<test_call>> calls;
    for (std::size_t i = 0; i < 100; ++i) {
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

TEST(worker_engine, a_model_that_goes_is_unloaded_in_the_workers) {
    worker_engine engine(peers(1, 0));
    for (int i = 0; i < 20; ++i) {
        const trouble its(engine);
        EXPECT_TRUE(its.answers(static_cast<float>(100 + i)));
    }
    engine.give_back_memory();
    const trouble last(engine);
    EXPECT_TRUE(last.answers(3));
    EXPECT_THAT(engine.metrics(), HasSubstr("\nsluice_workers 1\n"));
    EXPECT_THAT(engine.metrics(), HasSubstr("\nsluice_worker_restarts_total 0\n"));
}

}  // namespace
}  // namespace sluice::serve::worker_engine_tests
