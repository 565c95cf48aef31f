// SPDX-License-Identifier: Apache-2.0
// Flow charts: every box and arrow is there, with its words, whatever they hold.
#include "sluice/drawing/flow_chart.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <sstream>

#include "sluice/base/error.hpp"
#include "support/xml_reader.hpp"

namespace sluice::flow_chart_tests {
namespace {

using testing::xml_element;
using testing::xml_reader;

const std::string hostile = "</text></svg><script>\"'&amp;]]>\n\x01\xff" + std::string(1, '\0') + "\u00fc";

std::string text_of(std::span<const flow_chart> charts) {
    std::ostringstream out;
    write_flow_charts(charts, out);
    return out.str();
}
xml_element picture_of(const flow_chart& chart) { return xml_reader::read(text_of({&chart, 1})); }

std::vector<const xml_element*> boxes_of(const xml_element& picture) {
    return picture.all([](const xml_element& each) { return each.name == "g" && each.is("box"); });
}
double top_of(const xml_element& box) { return box.child("rect").number("y"); }

// A chain in which each box also comes after the first.
flow_chart chain(std::size_t count) {
    flow_chart made;
    for (std::size_t i = 0; i < count; ++i) {
        flow_box box{.title = "box " + std::to_string(i)};
        if (i > 0) box.after.push_back({i - 1, "x"});
        if (i > 1) box.after.push_back({0, "first"});
        made.boxes.push_back(std::move(box));
    }
    return made;
}

}  // namespace

TEST(flow_chart, shows_each_box_below_those_it_comes_after) {
    flow_chart chart{.heading = "two layers", .boxes = {}, .legend = {{flow_look::source, "input"}}};
    chart.boxes.push_back({.title = "input", .lines = {}, .tooltip = "given", .look = flow_look::source});
    chart.boxes.push_back({.title = "Gemm", .lines = {"fc1", "f32 [128, 64]"}, .after = {{0, "x"}}});
    chart.boxes.push_back({.title = "output", .look = flow_look::sink, .after = {{1, "y"}}});
    const xml_element picture = picture_of(chart);
    const auto boxes = boxes_of(picture);
    ASSERT_EQ(boxes.size(), 3u);
    EXPECT_LT(top_of(*boxes[0]), top_of(*boxes[1]));
    EXPECT_LT(top_of(*boxes[1]), top_of(*boxes[2]));
    EXPECT_TRUE(boxes[0]->child("rect").is("upload"));
    EXPECT_EQ(boxes[0]->child("title").text, "given");
    ASSERT_EQ(boxes[1]->of_class("what").size(), 2u);
    EXPECT_EQ(boxes[1]->of_class("what")[1]->text, "f32 [128, 64]");
    const auto arrows = picture.of_class("arrow");
    ASSERT_EQ(arrows.size(), 2u);
    EXPECT_EQ(arrows[0]->child("title").text, "x");
    EXPECT_EQ(picture.of_class("device")[0]->text, "two layers");
}

TEST(flow_chart, draws_boxes_inside_a_box) {
    flow_chart chart;
    chart.boxes.push_back({.title = "loop", .inside = std::make_shared<const flow_chart>(chain(3))});
    const xml_element picture = picture_of(chart);
    ASSERT_EQ(boxes_of(picture).size(), 4u);
    const xml_element& outer = boxes_of(picture)[0]->child("rect");
    for (std::size_t i = 1; i < 4; ++i) {
        const xml_element& inner = boxes_of(picture)[i]->child("rect");
        EXPECT_GT(inner.number("x"), outer.number("x"));
        EXPECT_GT(inner.number("y"), outer.number("y"));
        EXPECT_LT(inner.number("x") + inner.number("width"), outer.number("x") + outer.number("width"));
        EXPECT_LT(inner.number("y") + inner.number("height"), outer.number("y") + outer.number("height"));
    }
}

TEST(flow_chart, puts_charts_side_by_side) {
    const std::vector<flow_chart> charts{chain(2), chain(3)};
    const xml_element picture = xml_reader::read(text_of(charts));
    const auto groups = picture.of_class("chart");
    ASSERT_EQ(groups.size(), 2u);
    const auto right_of = [](const xml_element& box) {
        return box.child("rect").number("x") + box.child("rect").number("width");
    };
    for (const xml_element* left : boxes_of(*groups[0]))
        for (const xml_element* right : boxes_of(*groups[1]))
            EXPECT_LT(right_of(*left), right->child("rect").number("x"));
    EXPECT_NO_THROW(xml_reader::read(text_of({})));
}

TEST(flow_chart, escapes_all_words_and_cuts_long_ones) {
    flow_chart chart{.heading = hostile, .boxes = {}, .legend = {{flow_look::step, hostile}}};
    chart.boxes.push_back({.title = hostile, .lines = {hostile, std::string(10'000, 'x')}, .tooltip = hostile});
    chart.boxes.push_back({.title = "b", .after = {{0, hostile}}});
    const xml_element picture = picture_of(chart);
    EXPECT_TRUE(picture.all([](const xml_element& each) { return each.name == "script"; }).empty());
    EXPECT_LT(boxes_of(picture)[0]->child("rect").number("width"), 400);
    EXPECT_EQ(boxes_of(picture)[0]->child("title").text.substr(0, 16), "</text></svg><sc");
}

TEST(flow_chart, refuses_arrows_that_lead_up) {
    for (const std::size_t from : {std::size_t{1}, std::size_t{2}, ~std::size_t{0}}) {
        flow_chart chart = chain(3);
        chart.boxes[1].after = {{from}};
        EXPECT_THROW(text_of({&chart, 1}), error);
    }
}

TEST(flow_chart, of_a_thousand_boxes_is_quick_and_small) {
    const flow_chart chart = chain(1000);
    const auto begin = std::chrono::steady_clock::now();
    const std::string text = text_of({&chart, 1});
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
    EXPECT_LT(text.size(), 2'000'000u);
    EXPECT_EQ(boxes_of(xml_reader::read(text)).size(), 1000u);
}

}  // namespace sluice::flow_chart_tests
