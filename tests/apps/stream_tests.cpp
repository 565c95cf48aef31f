// SPDX-License-Identifier: Apache-2.0
// `sluice run --stream`: a step for each line.
#include <gmock/gmock.h>

#include <sstream>
#include <string>
#include <vector>

#include "sluice/base/error.hpp"
#include "sluice/nn/onnx.hpp"
#include "sluice/run_stream.hpp"

namespace sluice::app::testing::stream_tests {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// state_out = (state_in + x) / 2, y = 2 * state_out + weights[place]
run_options memory() {
    run_options options;
    options.model = SLUICE_SOURCE_DIR "/tests/c/networks/memory.onnx";
    options.device = "cpu";
    return options;
}

std::string answers(const run_options& options, const std::string& lines, const std::vector<std::string>& pairs = {}) {
    std::istringstream from(lines);
    std::ostringstream to;
    run_stream(options, {.is_requested = true, .pairs = pairs}, nn::load_onnx(options.model), from, to);
    return to.str();
}

// What is written before the error, and the error.
std::string refused(const run_options& options, const std::string& lines, const std::vector<std::string>& pairs = {}) {
    std::istringstream from(lines);
    std::ostringstream to;
    try {
        run_stream(options, {.is_requested = true, .pairs = pairs}, nn::load_onnx(options.model), from, to);
    } catch (const error& failure) {
        return to.str() + failure.what();
    }
    return "no error";
}

}  // namespace

TEST(tool_stream, answers_each_line_and_remembers) {
    EXPECT_EQ(answers(memory(), "8;0\n0; 0\n0;0\r\n 1.5 ;1\n"), "8\n4\n2\n12.5\n");
    EXPECT_EQ(answers(memory(), ""), "");
}

TEST(tool_stream, begins_the_next_sequence_after_an_empty_line) {
    EXPECT_EQ(answers(memory(), "8;0\n\n8;0\n0;0\n"), "8\n8\n4\n");
}

TEST(tool_stream, takes_the_state_that_is_named) {
    EXPECT_EQ(answers(memory(), "8;0\n0;0", {"state_out=state_in"}), "8\n4\n");
    // Then state_out is an output as any other.
    EXPECT_EQ(answers(memory(), "8;0\n0;0", {"y=state_in"}), "4\n4\n");
    EXPECT_THAT(refused(memory(), "", {"y"}), HasSubstr("--state 'y': give OUTPUT=INPUT"));
    EXPECT_THAT(refused(memory(), "", {"y=z"}), HasSubstr("no input 'z'"));
}

TEST(tool_stream, refuses_lines_with_their_numbers) {
    EXPECT_THAT(refused(memory(), "8;0\n8\n"), AllOf(HasSubstr("8\n"), HasSubstr("line 2: a step takes 2 inputs")));
    EXPECT_THAT(refused(memory(), "8;0;0\n"), HasSubstr("line 1: a step takes 2 inputs"));
    EXPECT_THAT(refused(memory(), "8,9;0\n"),
                HasSubstr("line 1: the input 'x' takes 1 numbers a step, [1], and is given 2"));
    EXPECT_THAT(refused(memory(), "many;0\n"), HasSubstr("line 1"));
    EXPECT_THAT(refused(memory(), "8;0.5\n"), HasSubstr("line 1"));
    EXPECT_THAT(refused(memory(), ";0\n"), HasSubstr("line 1"));
    EXPECT_THAT(refused(memory(), "8;7\n"), HasSubstr("index 7"));
}

TEST(tool_stream, refuses_what_is_for_whole_arrays) {
    run_options options = memory();
    options.input = "x.npy";
    EXPECT_THAT(refused(options, ""), HasSubstr("INPUT has no meaning with --stream"));
    options = memory();
    options.named_outputs = {"y.npy"};
    EXPECT_THAT(refused(options, ""), HasSubstr("--output has no meaning with --stream"));
    options = memory();
    options.network.hidden = activation::relu;
    EXPECT_THAT(refused(options, ""), HasSubstr("--activation has no meaning with --stream"));
    options = memory();
    options.model = SLUICE_SOURCE_DIR "/models/digits.onnx";
    EXPECT_THAT(refused(options, ""), HasSubstr("no output is by its name"));
}

}  // namespace sluice::app::testing::stream_tests
