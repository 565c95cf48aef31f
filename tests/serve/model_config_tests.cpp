// SPDX-License-Identifier: Apache-2.0
#include "sluice/serve/model_config.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/base/file_error.hpp"

namespace sluice::serve::model_config_tests {
namespace {

using ::testing::HasSubstr;

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
    ::testing::Values(wrong_config{"unknown_key", R"({"max_bach": 1})",
                                   "'max_bach': this key is unknown; the keys are"},
                      wrong_config{"twice", R"({"queue": 1, "queue": 2})", "'queue': this key is there twice"},
                      wrong_config{"negative", R"({"queue": -1})", "an integer from 1 to 1000000"},
                      wrong_config{"fraction", R"({"queue": 1.5})", "an integer from 1"},
                      wrong_config{"text", R"({"queue": "1"})", "an integer from 1"},
                      wrong_config{"zero", R"({"instances": 0})", "an integer from 1 to 256"},
                      wrong_config{"too_large", R"({"instances": 257})", "an integer from 1 to 256"},
                      wrong_config{"versions", R"({"versions": "newest"})", "\"latest\", \"all\""},
                      wrong_config{"no_versions", R"({"versions": []})", "\"latest\", \"all\""},
                      wrong_config{"version_zero", R"({"versions": [0]})", "an integer from 1"},
                      wrong_config{"activation", R"({"activation": "swish"})", "accepted are none, relu"},
                      wrong_config{"device", R"({"device": 0})", "the name of a device"},
                      wrong_config{"array", "[]", "a JSON object"}, wrong_config{"no_json", "{", "no JSON"},
                      wrong_config{"nothing", "", "no JSON"}, wrong_config{"two", "{} {}", "no JSON"},
                      wrong_config{"deep", R"({"a":[[[[[[[[[[[[1]]]]]]]]]]]]})", "too deep"}),
    [](const auto& each) { return each.param.what; });

}  // namespace
}  // namespace sluice::serve::model_config_tests
