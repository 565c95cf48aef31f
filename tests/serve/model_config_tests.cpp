// SPDX-License-Identifier: Apache-2.0
#include "sluice/serve/model_config.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/stat.h>

#include <filesystem>

#include "io/support/temporary_directory.hpp"
#include "sluice/base/file_error.hpp"

namespace sluice::serve::model_config_tests {
namespace {

using ::testing::HasSubstr;

// A read of it would wait for a writer for ever, and each later load with it.
TEST(model_config, a_pipe_a_folder_and_a_device_are_refused) {
    const io::testing::temporary_directory folder;
    const std::filesystem::path pipe = folder / "config.json", directory = folder / "config.yaml";
    ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
    std::filesystem::create_directory(directory);
    std::filesystem::create_symlink("/dev/zero", folder / "zero.json");
    for (const auto& each : {pipe, directory, folder / "zero.json"})
        EXPECT_THROW(read_model_config(each), file_error) << each;
}

TEST(model_config, an_empty_object_is_all_defaults) {
    const model_config config = parse_model_config("{}", "config.json");
    EXPECT_EQ(config.queue, model_config{}.queue);
    EXPECT_FALSE(config.max_batch);
    EXPECT_FALSE(config.versions);
}

TEST(model_config, each_key_sets_its_member) {
    const model_config config = parse_model_config(
        R"({"max_batch": 7, "max_delay_us": 100, "queue": 3, "instances": 2, "caller_thread_us": 0, "timeout_us": 9,
            "versions": [1, 3], "device": "cpu:0", "activation": "relu", "output_activation": "softmax"})",
        "config.json");
    EXPECT_EQ(config.max_batch, 7U);
    EXPECT_EQ(config.max_delay_us, 100U);
    EXPECT_EQ(config.queue, 3U);
    EXPECT_EQ(config.instances, 2U);
    EXPECT_EQ(config.caller_thread_us, 0U);
    EXPECT_EQ(config.timeout_us, 9U);
    EXPECT_EQ(config.versions, (std::vector<std::size_t>{1, 3}));
    EXPECT_EQ(config.device, "cpu:0");
    EXPECT_EQ(config.hidden_activation, activation::relu);
    EXPECT_EQ(config.output_activation, activation::softmax);
    EXPECT_EQ(config.precision, nn::precision::f32);
    EXPECT_TRUE(config.devices.empty());
}

TEST(model_config, devices_and_precision) {
    const model_config config =
        parse_model_config(R"({"devices": ["cuda:0", "cuda:1"], "precision": "bf16"})", "config.json");
    EXPECT_EQ(config.devices, (std::vector<std::string>{"cuda:0", "cuda:1"}));
    EXPECT_EQ(config.precision, nn::precision::bf16);
    EXPECT_FALSE(config.resident);
    EXPECT_TRUE(parse_model_config(R"({"resident": true})", "config.json").resident);
    EXPECT_FALSE(config.kept_bytes);
    EXPECT_TRUE(config.state.empty());
    const model_config with_memory = parse_model_config(
        R"({"state": {"hn": "h0"}, "state_shapes": {"h0": [1, 0]}, "max_sequences": 5, "sequence_idle_ms": 9})",
        "config.json");
    EXPECT_EQ(with_memory.state.at("hn"), "h0");
    EXPECT_EQ(with_memory.state_shapes.at("h0"), (std::vector<std::size_t>{1, 0}));
    EXPECT_EQ(with_memory.max_sequences, 5U);
    EXPECT_EQ(with_memory.sequence_idle_ms, 9U);
    EXPECT_EQ(parse_model_config(R"({"kept_bytes": 0})", "config.json").kept_bytes, 0U);
}

TEST(model_config, policies_of_the_queue) {
    const model_config config = parse_model_config(
        R"({"priority_levels": 3, "default_priority": 2, "preferred_batch_size": [8, 4],
            "default_queue_policy": {"timeout_action": "delay", "timeout_us": 7},
            "priority_queue_policy": {"1": {"queue": 5, "allow_timeout_override": false}, "3": {}}})",
        "config.json");
    EXPECT_EQ(config.priority_levels, 3U);
    EXPECT_EQ(config.default_priority, 2U);
    EXPECT_EQ(config.preferred_batch_size, (std::vector<std::size_t>{4, 8}));
    EXPECT_EQ(config.default_queue_policy.timeout_action, timeout_action::delay);
    EXPECT_EQ(config.default_queue_policy.timeout_us, 7U);
    EXPECT_TRUE(config.default_queue_policy.allow_timeout_override);
    ASSERT_EQ(config.priority_queue_policy.size(), 2U);
    EXPECT_EQ(config.priority_queue_policy.at(1).queue, 5U);
    EXPECT_FALSE(config.priority_queue_policy.at(1).allow_timeout_override);
    EXPECT_EQ(config.priority_queue_policy.at(1).timeout_action, timeout_action::reject);
    EXPECT_TRUE(config.priority_queue_policy.contains(3));
}

struct wrong_config {
    const char* what;
    const char* text;
    const char* says;
};
class wrong_configs : public ::testing::TestWithParam<wrong_config> {};

TEST_P(wrong_configs, are_refused_with_the_file_and_the_key) {
    try {
        parse_model_config(GetParam().text, "models/digits/config.json");
        FAIL() << "accepted: " << GetParam().text;
    } catch (const file_error& failure) {
        EXPECT_THAT(failure.what(), HasSubstr("models/digits/config.json"));
        EXPECT_THAT(failure.what(), HasSubstr(GetParam().says));
    }
}

INSTANTIATE_TEST_SUITE_P(
    all, wrong_configs,
    ::testing::Values(
        wrong_config{"unknown_key", R"({"max_bach": 1})", "'max_bach': this key is unknown; the keys are"},
        wrong_config{"twice", R"({"queue": 1, "queue": 2})", "'queue': this key is there twice"},
        wrong_config{"precision", R"({"precision": "auto"})", "'precision': accepted are f32, bf16, f16 and int8"},
        wrong_config{"resident", R"({"resident": "yes"})", "\'resident\': accepted are true and false"},
        wrong_config{"kept_bytes", R"({"kept_bytes": "64 MiB"})", "\'kept_bytes\': accepted is an integer from 0"},
        wrong_config{"state", R"({"state": ["hn"]})", "'state': accepted is an object with the next inputs"},
        wrong_config{"state_name", R"({"state": {"hn": 1}})", "'state.hn': accepted is the name of an input"},
        wrong_config{"state_twice", R"({"state": {"hn": "h0", "hn": "c0"}})", "'hn': this key is there twice"},
        wrong_config{"state_shapes", R"({"state_shapes": [1]})", "'state_shapes': accepted is an object with shapes"},
        wrong_config{"state_shape", R"({"state_shapes": {"h0": [-1]}})", "'state_shapes.h0': accepted is an integer"},
        wrong_config{"no_idle", R"({"sequence_idle_ms": 0})", "'sequence_idle_ms': accepted is an integer from 1"},
        wrong_config{"no_devices", R"({"devices": []})", "'devices': accepted is a list of devices"},
        wrong_config{"device_twice", R"({"devices": ["cpu:0", "cpu:0"]})", "'devices': 'cpu:0' is there twice"},
        wrong_config{"both_devices", R"({"device": "cpu:0", "devices": ["cpu:0"]})",
                     "'devices': 'device' is there too"},
        wrong_config{"negative", R"({"queue": -1})", "an integer from 1 to 1000000"},
        wrong_config{"fraction", R"({"queue": 1.5})", "an integer from 1"},
        wrong_config{"text", R"({"queue": "1"})", "an integer from 1"},
        wrong_config{"zero", R"({"instances": 0})", "an integer from 1 to 256"},
        wrong_config{"too_large", R"({"instances": 257})", "an integer from 1 to 256"},
        wrong_config{"versions", R"({"versions": "newest"})", "\"latest\", \"all\""},
        wrong_config{"no_shares", R"({"shares": {}})", "an object with numbers by versions"},
        wrong_config{"share_of_no_version", R"({"shares": {"a": 1}})", "a key here is a version"},
        wrong_config{"share_of_zero", R"({"shares": {"1": 0}})", "an integer from 1"},
        wrong_config{"shares_of_the_latest", R"({"shares": {"1": 1}, "versions": "latest"})", "leave out"},
        wrong_config{"share_of_another_version", R"({"shares": {"2": 1}, "versions": [1]})",
                     "'versions' does not have this version"},
        wrong_config{"no_versions", R"({"versions": []})", "\"latest\", \"all\""},
        wrong_config{"version_zero", R"({"versions": [0]})", "an integer from 1"},
        wrong_config{"activation", R"({"activation": "swish"})", "accepted are none, relu"},
        wrong_config{"device", R"({"device": 0})", "the name of a device"}, wrong_config{"array", "[]", "is an object"},
        wrong_config{"no_json", "{", "no JSON"}, wrong_config{"nothing", "", "no JSON"},
        wrong_config{"two", "{} {}", "no JSON"},
        wrong_config{"deep", R"({"a":[[[[[[[[[[[[1]]]]]]]]]]]]})", "too deep"}),
    [](const auto& each) { return each.param.what; });

INSTANTIATE_TEST_SUITE_P(
    policies, wrong_configs,
    ::testing::Values(
        wrong_config{"unknown_key", R"({"default_queue_policy": {"max_queue_size": 1}})",
                     "'default_queue_policy.max_queue_size': this key is unknown; the keys are allow_timeout_override, "
                     "queue, timeout_action, timeout_us"},
        wrong_config{"twice", R"({"default_queue_policy": {"queue": 1, "queue": 1}})",
                     "'queue': this key is there twice"},
        wrong_config{"level_twice", R"({"priority_levels": 1, "default_priority": 1,
                                        "priority_queue_policy": {"1": {}, "1": {}}})",
                     "'1': this key is there twice"},
        wrong_config{"action", R"({"default_queue_policy": {"timeout_action": "drop"}})", "\"reject\" and \"delay\""},
        wrong_config{"override", R"({"default_queue_policy": {"allow_timeout_override": 1}})", "true and false"},
        wrong_config{"no_object", R"({"default_queue_policy": 1})", "an object with the keys"},
        wrong_config{"no_default", R"({"priority_levels": 2})", "'default_priority': this key is needed"},
        wrong_config{"default_above", R"({"priority_levels": 2, "default_priority": 3})", "from 1 to 2"},
        wrong_config{"no_levels", R"({"default_priority": 1})", "without 'priority_levels'"},
        wrong_config{"policy_without_levels", R"({"priority_queue_policy": {"1": {}}})", "without 'priority_levels'"},
        wrong_config{"policy_above",
                     R"({"priority_levels": 1, "default_priority": 1, "priority_queue_policy": {"2": {}}})",
                     "'priority_queue_policy.2': the priorities are 1 to 1"},
        wrong_config{"policy_of_zero", R"({"priority_levels": 1, "default_priority": 1,
                                           "priority_queue_policy": {"0": {}}})",
                     "a key here is a priority"},
        wrong_config{"policy_of_word", R"({"priority_levels": 1, "default_priority": 1,
                                           "priority_queue_policy": {"": {}}})",
                     "a key here is a priority"},
        wrong_config{"policy_list", R"({"priority_levels": 1, "default_priority": 1, "priority_queue_policy": []})",
                     "an object with policies"},
        wrong_config{"preferred_none", R"({"preferred_batch_size": []})", "a list of numbers of rows"},
        wrong_config{"preferred_twice", R"({"preferred_batch_size": [2, 2]})", "a number is there twice"},
        wrong_config{"preferred_above", R"({"max_batch": 4, "preferred_batch_size": [2, 8]})",
                     "greater than 'max_batch'"}),
    [](const auto& each) { return each.param.what; });

}  // namespace
}  // namespace sluice::serve::model_config_tests
