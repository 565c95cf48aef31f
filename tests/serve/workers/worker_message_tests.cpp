// SPDX-License-Identifier: Apache-2.0
// What the front and its workers say of models and failures.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <exception>
#include <functional>
#include <new>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>

#include "serve/workers/control_channel.hpp"
#include "serve/workers/control_message.hpp"
#include "serve/workers/failure_message.hpp"
#include "serve/workers/model_message.hpp"
#include "sluice/base/file_error.hpp"
#include "sluice/nn/run_limit.hpp"
#include "sluice/serve/refusal.hpp"

namespace sluice::serve::worker_message_tests {
namespace {

template <typename T>
T sent(const T& failure) {
    try {
        throw_failure(packed_failure(failure));
    } catch (const T& got) {
        EXPECT_STREQ(got.what(), failure.what());
        EXPECT_EQ(text_of_failure(packed_failure(failure)), failure.what());
        return got;
    }
}

TEST(worker_messages, failures_keep_their_types_codes_texts_and_places) {
    const auto plain = sent(error(errc::shape_mismatch, "they do not fit", {.operation = "gemm", .device = "cpu:0"}));
    EXPECT_EQ(plain.code(), errc::shape_mismatch);
    EXPECT_EQ(plain.operation(), "gemm");
    EXPECT_EQ(plain.device(), "cpu:0");
    const auto file = sent(file_error("/a/model.onnx", 17, "node 3", "is wrong", errc::io_failed));
    EXPECT_EQ(file.code(), errc::io_failed);
    EXPECT_EQ(file.path(), "/a/model.onnx");
    EXPECT_EQ(file.offset(), 17U);
    EXPECT_EQ(file.field(), "node 3");
    EXPECT_EQ(sent(nn::run_too_large("a", 0, "node", "too large", errc::out_of_memory)).code(), errc::out_of_memory);
    const auto memory = sent(out_of_memory(100, 20, {.device = "cuda:0"}, 300));
    EXPECT_EQ(memory.requested_bytes(), 100U);
    EXPECT_EQ(memory.free_bytes(), 20U);
    EXPECT_EQ(memory.total_bytes(), 300U);
    EXPECT_EQ(sent(device_error(errc::device_failed, "lost")).code(), errc::device_failed);
    const auto refused = sent(refusal(refusal_kind::queue_full, "full", 12));
    EXPECT_EQ(refused.kind(), refusal_kind::queue_full);
    EXPECT_EQ(refused.waiting(), 12U);
    sent(std::bad_alloc());
    sent(std::runtime_error("something"));
    EXPECT_EQ(sent(error(std::make_error_code(std::errc::no_space_on_device), "disk")).code(), errc::io_failed);
}

model_description some_description() {
    model_description made;
    made.inputs = {{"x", io::dtype::f16, std::vector<nn::dimension>{{{}, "batch"}, {std::size_t{3}, ""}}, false},
                   {"any", io::dtype::i64, std::nullopt, true}};
    made.outputs = {{"y", io::dtype::boolean, std::vector<nn::dimension>{}, false}};
    made.texts = {"red", "", std::string("a\0b", 3)};
    made.rows = {.is_proven = true, .input_axes = {0, 1}, .output_axes = {2}, .node = "n", .op = "o", .why = "w"};
    made.platform = "p";
    made.device_name = "d";
    made.how = "h";
    made.prefers_few_sizes = true;
    made.most_joined_rows = 17;
    return made;
}

std::string packed(const model_description& what) {
    packed_writer to;
    put(to, what);
    return to.take();
}

TEST(worker_messages, a_model_describes_itself_whole) {
    const std::string bytes = packed(some_description());
    packed_reader from(bytes);
    const model_description got = read_description(from);
    EXPECT_NO_THROW(from.require_end());
    EXPECT_EQ(packed(got), bytes);
    EXPECT_EQ(got.inputs[0].shape->front().name, "batch");
    EXPECT_FALSE(got.inputs[1].shape);
    EXPECT_TRUE(got.inputs[1].is_text);
    EXPECT_EQ(got.texts[2].size(), 3U);
    EXPECT_EQ(got.rows.output_axes, std::vector<std::size_t>{2});
    EXPECT_EQ(got.most_joined_rows, 17U);
}

TEST(worker_messages, a_load_says_what_engines_read) {
    load_message what{{"digits", 3, "/m/model.onnx"}, {}, {{"/m/model.onnx", {1, 2, 3, 4, 5}}}};
    what.config.devices = {"cpu:0", "cpu:1"};
    what.config.precision = nn::precision::bf16;
    what.config.kept_bytes = 5;
    what.config.instances = 2;
    what.config.output_activation = activation::softmax;
    packed_writer to;
    put(to, what);
    packed_reader from(to.bytes());
    const load_message got = read_load_message(from);
    EXPECT_NO_THROW(from.require_end());
    EXPECT_EQ(got.which.name, "digits");
    EXPECT_EQ(got.which.version, 3U);
    EXPECT_EQ(got.which.file, "/m/model.onnx");
    EXPECT_EQ(got.config.devices, what.config.devices);
    EXPECT_EQ(got.config.precision, nn::precision::bf16);
    EXPECT_EQ(got.config.kept_bytes, 5U);
    EXPECT_EQ(got.config.instances, 2U);
    EXPECT_FALSE(got.config.hidden_activation);
    EXPECT_EQ(got.config.output_activation, activation::softmax);
    EXPECT_TRUE(got.files == what.files);
}

// Each cut, and random damage: a message is read, or refused.
TEST(worker_messages, damaged_ones_are_refused) {
    const std::string description = packed(some_description());
    const std::string failure = packed_failure(file_error("/a", 1, "f", "w"));
    std::mt19937 random(3);
    const auto read = [](const std::string& bytes) {
        try {
            packed_reader from(bytes);
            read_description(from);
            from.require_end();
            return true;
        } catch (const worker_damage&) {
            return false;
        }
    };
    for (std::size_t i = 0; i < description.size(); ++i) EXPECT_FALSE(read(description.substr(0, i)));
    EXPECT_FALSE(read(description + "x"));
    for (int i = 0; i < 20'000; ++i) {
        std::string bytes = description, other = failure;
        for (int k = 0; k < 3; ++k) bytes[random() % bytes.size()] = static_cast<char>(random());
        read(bytes);
        other[random() % other.size()] = static_cast<char>(random());
        EXPECT_THROW(throw_failure(other), std::exception);
    }
}

TEST(worker_messages, a_channel_keeps_the_bounds_of_messages_and_says_its_end) {
    auto [a, b] = control_channel::make_pair();
    control_channel here(std::move(a));
    auto there = std::make_unique<control_channel>(std::move(b));
    EXPECT_FALSE(here.receive(false));
    for (const std::size_t bytes : {0U, 1U, 32768U, 32769U, 5'000'000U}) {
        const std::string text(bytes, 'x');
        std::thread sender([&] { EXPECT_TRUE(there->send_all(text)); });
        EXPECT_EQ(here.receive(true), text);
        sender.join();
    }
    EXPECT_FALSE(here.receive(false));
    EXPECT_FALSE(here.has_ended());
    there.reset();
    EXPECT_FALSE(here.receive(true));
    EXPECT_TRUE(here.has_ended());
    EXPECT_EQ(here.send("x"), control_channel::sent::broken);
}

TEST(worker_messages, a_message_for_which_there_is_no_room_goes_on_when_there_is) {
    auto [a, b] = control_channel::make_pair();
    control_channel here(std::move(a)), there(std::move(b));
    std::string text(5'000'000, 'x');
    text.back() = 'y';
    EXPECT_EQ(here.send(text), control_channel::sent::part);
    EXPECT_EQ(here.send(text), control_channel::sent::nothing);
    auto sent = control_channel::sent::part;
    while (sent != control_channel::sent::whole) {
        EXPECT_FALSE(there.receive(false));
        sent = here.send(text);
        ASSERT_NE(sent, control_channel::sent::broken);
    }
    EXPECT_EQ(here.send("next"), control_channel::sent::whole);
    EXPECT_EQ(there.receive(true), text);
    EXPECT_EQ(there.receive(true), "next");
}

TEST(worker_messages, what_a_side_says_before_it_ends_is_read_though_it_has_not_read_all) {
    auto [a, b] = control_channel::make_pair();
    control_channel here(std::move(a));
    auto there = std::make_unique<control_channel>(std::move(b));
    EXPECT_EQ(here.send("load"), control_channel::sent::whole);
    EXPECT_EQ(there->send("fault"), control_channel::sent::whole);
    there.reset();
    EXPECT_EQ(here.receive(true), "fault");
    EXPECT_FALSE(here.receive(true));
    EXPECT_TRUE(here.has_ended());
}

}  // namespace
}  // namespace sluice::serve::worker_message_tests
