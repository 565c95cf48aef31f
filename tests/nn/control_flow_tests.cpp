// SPDX-License-Identifier: Apache-2.0
// If, Loop and Scan: which inner graph runs, how often, on what, and what they refuse.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "nn/support/single_nodes.hpp"
#include "sluice/base/run_guard.hpp"

namespace sluice::nn::control_flow_tests {
namespace {

using namespace test_support;
using enum errc;
using ::testing::ElementsAre;

value_info value(const std::string& name, io::dtype type = io::dtype::f32) { return {name, type, {}}; }
attribute inner(graph from) { return std::make_shared<const graph>(std::move(from)); }

// Gives twice these numbers.
graph twice(const std::vector<float>& values) {
    graph made;
    made.outputs = {value("doubled")};
    made.constants = {{"c", tensor_of<float>(values, {values.size()})}};
    made.nodes = {make_node("Add", {"c", "c"}, {"doubled"})};
    return made;
}
any_tensor truth(bool is_true) {
    return any_tensor(constant{io::dtype::boolean, {}, std::make_shared<const std::string>(1, is_true ? '\1' : '\0')});
}

// Doubles a value in each round, and lists what it was. The list's parts are declared to have one element.
graph doubling() {
    graph made;
    made.inputs = {value("round", io::dtype::i64), value("goes_on", io::dtype::boolean), value("v")};
    made.outputs = {value("goes_on_too", io::dtype::boolean), value("next"), f32("part", {of(1)})};
    made.nodes = {make_node("Identity", {"goes_on"}, {"goes_on_too"}), make_node("Add", {"v", "v"}, {"next"}),
                  make_node("Identity", {"v"}, {"part"})};
    return made;
}

// Adds what is scanned to a state, and lists the sums.
graph adding() {
    graph made;
    made.inputs = {value("state"), value("x")};
    made.outputs = {value("sum"), value("part")};
    made.nodes = {make_node("Add", {"state", "x"}, {"sum"}), make_node("Identity", {"sum"}, {"part"})};
    return made;
}

std::vector<float> floats_of(const any_tensor& from) {
    const auto values = from.values<float>();
    return {values.begin(), values.end()};
}

}  // namespace

TEST(if_operators, run_one_of_two_graphs) {
    const attributes with{{"then_branch", inner(twice({1, 2}))}, {"else_branch", inner(twice({5}))}};
    EXPECT_THAT(floats_of(outputs_of({"If", {truth(true)}, with}).at(0)), ElementsAre(2, 4));
    EXPECT_THAT(floats_of(outputs_of({"If", {truth(false)}, with}).at(0)), ElementsAre(10));
    expect_refusals(
        {{"If", {truth(true)}, with, bad_file, "has 2 outputs, and an inner graph with 1", 17, "", 2},
         {"If", {truth(true)}, {{"then_branch", inner(twice({1}))}}, bad_file, "has no graph 'else_branch'"}});
}

// A client decides how many rounds there are.
TEST(loops, end_between_two_rounds_where_the_callers_guard_says_so) {
    graph empty;  // a round without a step
    empty.inputs = {value("round"), value("goes_on"), value("state")};
    empty.outputs = {value("goes_on"), value("state")};
    graph adds = empty;
    adds.outputs = {value("goes_on"), value("sum")};
    adds.nodes = {make_node("Add", {"state", "state"}, {"sum"})};
    struct over {};
    for (const graph& body : {empty, adds}) {
        const run_guard guard([] { throw over(); });
        EXPECT_THROW(outputs_of({"Loop",
                                 {number(std::int64_t{1} << 40), any_tensor(), list<float>({1})},
                                 {{"body", inner(body)}},
                                 "",
                                 17,
                                 1}),
                     over);
    }
}

TEST(loops, run_as_often_as_they_should) {
    const attributes with{{"body", inner(doubling())}};
    const any_tensor one = list<float>({1});
    const auto made = outputs_of({"Loop", {number(std::int64_t{3}), any_tensor(), one}, with, "", 17, 2});
    EXPECT_THAT(floats_of(made.at(0)), ElementsAre(8));
    EXPECT_THAT(made.at(1).shape(), ElementsAre(3, 1));
    EXPECT_THAT(floats_of(made.at(1)), ElementsAre(1, 2, 4));
    for (const auto& [rounds, goes_on] : {std::pair(std::int64_t{0}, true), std::pair(std::int64_t{3}, false)}) {
        const auto none = outputs_of({"Loop", {number(rounds), truth(goes_on), one}, with, "", 17, 2});
        EXPECT_THAT(floats_of(none.at(0)), ElementsAre(1));
        EXPECT_THAT(none.at(1).shape(), ElementsAre(0, 1));
    }
}

TEST(loops, refuse_inner_graphs_and_conditions_that_do_not_fit) {
    const attributes with{{"body", inner(doubling())}};
    const any_tensor one = list<float>({1}), three = number(std::int64_t{3}), none;
    expect_refusals({
        {"Loop", {three}, with, bad_file, "has fewer than 2 inputs"},
        {"Loop",
         {three, none, one, one},
         with,
         bad_file,
         "has 2 values that rounds hand on, and an inner graph with 3 inputs"},
        {"Loop", {three, none, one}, with, bad_file, "has 3 outputs, and an inner graph with 3", 17, "", 3},
        {"Loop", {list({1, 2}), none, one}, with, bad_file, "has the number of rounds i64 [2]"},
        {"Loop", {three, one, one}, with, bad_file, "has the condition f32 [1]"},
    });
}

TEST(loops, of_no_rounds_give_outputs_without_elements_of_the_shape_that_is_declared) {
    graph body = doubling();
    const auto shape_of_none = [&] {
        const auto made = outputs_of(
            {"Loop", {number(std::int64_t{0}), any_tensor(), list<float>({1})}, {{"body", inner(body)}}, "", 17, 2});
        return made.at(1).shape();
    };
    body.outputs[2].shape = std::vector<dimension>{{.length = {}, .name = "n"}, {.length = 4, .name = {}}};
    EXPECT_THAT(shape_of_none(), ElementsAre(0, 0, 4));
    body.outputs[2].shape.reset();
    EXPECT_THAT(shape_of_none(), ElementsAre(0));
}

TEST(scans, hand_a_state_on_along_an_axis) {
    attributes with{{"body", inner(adding())}, {"num_scan_inputs", whole(1)}};
    const any_tensor zero = list<float>({0}), x(std::vector<float>{1, 2, 4}, {3, 1});
    auto made = outputs_of({"Scan", {zero, x}, with, "", 17, 2});
    EXPECT_THAT(floats_of(made.at(0)), ElementsAre(7));
    EXPECT_THAT(made.at(1).shape(), ElementsAre(3, 1));
    EXPECT_THAT(floats_of(made.at(1)), ElementsAre(1, 3, 7));
    with["scan_input_directions"] = wholes({1});
    EXPECT_THAT(floats_of(outputs_of({"Scan", {zero, x}, with, "", 17, 2}).at(1)), ElementsAre(4, 6, 7));
    with["scan_output_directions"] = wholes({1});
    EXPECT_THAT(floats_of(outputs_of({"Scan", {zero, x}, with, "", 17, 2}).at(1)), ElementsAre(7, 6, 4));
    with["scan_input_axes"] = wholes({1});
    with["scan_output_axes"] = wholes({1});
    const any_tensor columns(std::vector<float>{1, 2, 4, 10, 20, 40}, {2, 3});
    made = outputs_of({"Scan", {list<float>({0, 0}), columns}, with, "", 17, 2});
    EXPECT_THAT(made.at(1).shape(), ElementsAre(2, 3));
    EXPECT_THAT(floats_of(made.at(1)), ElementsAre(7, 6, 4, 70, 60, 40));
}

TEST(scans, of_operator_set_8_end_each_sequence_at_its_length) {
    const attributes with{{"body", inner(adding())}, {"num_scan_inputs", whole(1)}};
    const any_tensor states(std::vector<float>{0, 100}, {2, 1}), x(std::vector<float>{1, 2, 4, 10, 20, 40}, {2, 3, 1});
    const auto made = outputs_of({"Scan", {list({1, 3}), states, x}, with, "", 8, 2});
    EXPECT_THAT(floats_of(made.at(0)), ElementsAre(1, 170));
    EXPECT_THAT(floats_of(made.at(1)), ElementsAre(1, 0, 0, 110, 130, 170));
    EXPECT_THAT(floats_of(outputs_of({"Scan", {any_tensor(), states, x}, with, "", 8, 2}).at(0)), ElementsAre(7, 170));
    expect_refusals({
        {"Scan", {list({1, 4}), states, x}, with, out_of_range, "has the length 4 of sequences of 3", 8, "", 2},
        {"Scan", {list({1}), states, x}, with, bad_file, "has 1 sequence lengths for a batch of 2", 8, "", 2},
        {"Scan",
         {any_tensor(), list<float>({0}), x},
         with,
         shape_mismatch,
         "has the input f32 [1] for a batch of 2 sequences of 3",
         8,
         "",
         2},
        {"Scan",
         {any_tensor(), states, list<float>({1, 2})},
         with,
         shape_mismatch,
         "scans an input without a batch and a sequence",
         8,
         "",
         2},
    });
}

TEST(scans, refuse_numbers_that_do_not_fit) {
    const any_tensor zero = list<float>({0}), x(std::vector<float>{1, 2, 4}, {3, 1});
    const auto bad = [&](const std::string& name, attribute value, const std::string& why) {
        attributes with{{"body", inner(adding())}, {"num_scan_inputs", whole(1)}};
        with[name] = std::move(value);
        return bad_node{"Scan", {zero, x}, with, bad_file, why, 17, "", 2};
    };
    graph of_two = adding();
    of_two.inputs.push_back(value("other"));
    expect_refusals({
        bad("num_scan_inputs", whole(0), "scans 0 of 2 inputs"),
        bad("num_scan_inputs", whole(3), "scans 3 of 2 inputs"),
        bad("scan_input_axes", wholes({0, 0}), "has 2 numbers in scan_input_axes; it takes 1"),
        bad("scan_input_directions", wholes({2}), "has the number 2 in scan_input_directions"),
        bad("body", inner(of_two), "has 2 inputs, and an inner graph with 3 inputs and 2 outputs"),
        {"Scan",
         {zero, x, list<float>({1, 2})},
         {{"body", inner(of_two)}, {"num_scan_inputs", whole(2)}},
         shape_mismatch,
         "scans inputs of the lengths 3 and 2",
         17,
         "",
         2},
    });
}

}  // namespace sluice::nn::control_flow_tests
