// SPDX-License-Identifier: Apache-2.0
// find_state: the names of exporters, and what is not guessed.
#include <gmock/gmock.h>

#include <string>
#include <utility>
#include <vector>

#include "nn/small_models.hpp"
#include "sluice/base/error.hpp"
#include "sluice/nn/session.hpp"

namespace sluice::nn::state_names_tests {
namespace {

using namespace test_support;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<value_info> values(const std::vector<std::string>& names) {
    std::vector<value_info> made;
    for (const std::string& each : names) made.push_back(f32(each, {of(1), named("n")}));
    return made;
}
// The pairs as "output>input", or what the error says.
std::vector<std::string> found(const std::vector<value_info>& inputs, const std::vector<value_info>& outputs) {
    std::vector<std::string> made;
    try {
        for (const state_pair& each : find_state(inputs, outputs)) made.push_back(each.output + ">" + each.input);
    } catch (const error& failure) {
        EXPECT_EQ(failure.code(), errc::invalid_argument);
        made.emplace_back(failure.what());
    }
    return made;
}
std::vector<std::string> found(const std::vector<std::string>& inputs, const std::vector<std::string>& outputs) {
    return found(values(inputs), values(outputs));
}

TEST(state_names, of_exporters_are_found) {
    const std::vector<std::pair<std::string, std::string>> pairs = {
        {"h0", "hn"},
        {"c_0", "c_n"},
        {"h", "hn"},
        {"c", "cn"},
        {"state", "stateN"},
        {"state", "new_state"},
        {"state_in", "state_out"},
        {"state_in_0", "state_out_0"},
        {"state_1", "state_out_1"},
        {"state0", "state_out0"},
        {"h_in", "h_out"},
        {"in_state", "out_state"},
        {"prev_state", "state"},
        {"states.3", "next_states.3"},
        {"recurrent_in", "recurrent_out"},
        {"cached_len_0", "new_cached_len_0"},
        {"conv_cache", "conv_cache_out"},
        {"cache_last_channel_len", "cache_last_channel_next_len"},
        {"hiddenIn", "hiddenOut"},
        {"past_key_values.0.key", "present.0.key"},
        {"past_key_values.11.decoder.value", "present.11.decoder.value"},
        {"past_key_values.0.key", "present_key_values.0.key"},
        {"past_0", "present_0"},
        {"past_key_self_3", "present_key_self_3"},
        {"serving_default_state_in:0", "serving_default_state_out:0"},
    };
    for (const auto& [input, output] : pairs)
        EXPECT_THAT(found({"x", input}, {"y", output}), ElementsAre(output + ">" + input));
}

TEST(state_names, are_in_the_order_of_the_inputs) {
    EXPECT_THAT(found({"input", "sr", "h", "c"}, {"output", "hn", "cn"}), ElementsAre("hn>h", "cn>c"));
    EXPECT_THAT(found({"x", "c0", "h0"}, {"y", "hn", "cn"}), ElementsAre("cn>c0", "hn>h0"));
    EXPECT_THAT(found({"past.0.key", "past.0.value", "past.1.key", "past.1.value", "ids"},
                      {"logits", "present.0.key", "present.0.value", "present.1.key", "present.1.value"}),
                ElementsAre("present.0.key>past.0.key", "present.0.value>past.0.value", "present.1.key>past.1.key",
                            "present.1.value>past.1.value"));
    // With an h1 the 0 is a number.
    EXPECT_THAT(found({"x", "h0", "h1"}, {"y", "h0_out", "h1_out"}), ElementsAre("h0_out>h0", "h1_out>h1"));
}

TEST(state_names, are_not_guessed) {
    const std::vector<std::pair<std::string, std::string>> strangers = {
        {"input", "output"},
        {"data_in", "data_out"},
        {"image_in", "image_out"},
        {"input_1", "output_1"},
        {"audio_in", "audio_out"},
        {"input_buffer", "output_buffer"},
        {"state", "status_out"},
        {"h0", "h1"},
        {"state_a_in", "state_b_out"},
        {"hidden_states", "last_hidden_state"},
        {"hidden_states", "output_hidden_states"},
        {"past_key_values.0.encoder.key", "present.0.encoder.key"},
        {"memory.1", "memory_1"},
    };
    for (const auto& [input, output] : strangers)
        EXPECT_THAT(found({"x", input}, {"y", output}),
                    ElementsAre(AllOf(HasSubstr("no output is by its name"), HasSubstr(input), HasSubstr("pairs"))));
    EXPECT_THAT(found({"x", "h0", "h1"}, {"y", "hn"}), ElementsAre(HasSubstr("no output is by its name")));
}

TEST(state_names, that_are_ambiguous_are_refused_with_all_candidates) {
    EXPECT_THAT(
        found({"x", "state"}, {"y", "state_out", "next_state"}),
        ElementsAre(AllOf(HasSubstr("ambiguous"), HasSubstr("'state_out' or 'next_state' for the input 'state'"))));
    EXPECT_THAT(
        found({"x", "state", "state_in"}, {"y", "state_out"}),
        ElementsAre(AllOf(HasSubstr("ambiguous"), HasSubstr("'state_out'"), HasSubstr("'state_in' or for 'state'"))));
    EXPECT_THAT(found({"h_in"}, {"y", "h_out"}),
                ElementsAre(HasSubstr("by their names all inputs are state ('h_in')")));
}

TEST(state_names, of_other_types_or_shapes_are_refused) {
    const value_info x = f32("x", {of(1)});
    EXPECT_THAT(found({x, f32("h0", {of(2), of(64)})}, {f32("hn", {of(1), of(64)})}),
                ElementsAre(AllOf(HasSubstr("'hn', f32 [1, 64], cannot be the next input 'h0', f32 [2, 64]"))));
    EXPECT_THAT(found({x, f32("h0", {of(64)})}, {f32("hn", {of(1), of(64)})}), ElementsAre(HasSubstr("cannot be")));
    EXPECT_THAT(found({x, {"h0", io::dtype::f64, {{of(64)}}}}, {f32("hn", {of(64)})}),
                ElementsAre(HasSubstr("f64 [64]")));
    value_info any = f32("hn", {});
    any.shape.reset();
    EXPECT_THAT(found({x, f32("h0", {of(64)})}, {any}), ElementsAre("hn>h0"));
}

}  // namespace
}  // namespace sluice::nn::state_names_tests
