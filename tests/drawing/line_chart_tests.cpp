// SPDX-License-Identifier: Apache-2.0
// Line charts: points are where their numbers are, whatever the numbers and names.
#include "sluice/drawing/line_chart.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <sstream>

#include "support/xml_reader.hpp"

namespace sluice::line_chart_tests {
namespace {

using testing::xml_element;
using testing::xml_reader;

xml_element picture_of(const std::string& title, const std::vector<line_chart>& charts) {
    std::ostringstream out;
    write_line_charts(title, charts, out);
    return xml_reader::read(out.str());
}
xml_element picture_of(std::vector<chart_point> points) {
    return picture_of("title", {{.title = "t", .x_label = "x", .y_label = "y", .series = {{"s", std::move(points)}}}});
}

struct place {
    double x, y;
};
// The dots of the series, not those of the legend.
std::vector<place> dots_of(const xml_element& picture) {
    std::vector<place> dots;
    for (const xml_element* series : picture.of_class("series")) {
        if (series->children.empty() || series->children.front().name != "title") continue;
        for (const xml_element* each : series->of_class("dot")) dots.push_back({each->number("x"), each->number("y")});
    }
    return dots;
}
std::vector<std::string> words_of(const xml_element& picture) {
    std::vector<std::string> words;
    for (const xml_element* each : picture.all([](const xml_element& one) { return one.name == "text"; }))
        words.push_back(each->text);
    return words;
}
bool has(const std::vector<std::string>& words, const std::string& word) {
    return std::find(words.begin(), words.end(), word) != words.end();
}

}  // namespace

TEST(line_chart, puts_points_where_their_logarithms_are) {
    const auto dots = dots_of(picture_of({{1, 10}, {10, 100}, {100, 1000}}));
    ASSERT_EQ(dots.size(), 3u);
    EXPECT_LT(dots[0].x, dots[1].x);
    EXPECT_GT(dots[0].y, dots[1].y);  // larger numbers are higher
    EXPECT_NEAR(dots[1].x - dots[0].x, dots[2].x - dots[1].x, 0.02);
    EXPECT_NEAR(dots[1].y - dots[0].y, dots[2].y - dots[1].y, 0.02);
}

TEST(line_chart, has_a_tick_for_each_x_and_round_ticks_for_y) {
    const auto words = words_of(picture_of({{1, 12}, {8, 70}, {2048, 130}}));
    for (const char* each : {"1", "8", "2,048", "10", "20", "50", "100", "200", "x", "y", "t", "title", "s"})
        EXPECT_TRUE(has(words, each)) << each;
    for (const char* each : {"5", "500"}) EXPECT_FALSE(has(words, each)) << each;
}

TEST(line_chart, draws_how_far_a_point_spreads) {
    const xml_element picture = picture_of({{1, 10, 40}, {2, 10}});
    EXPECT_EQ(picture.of_class("spread").size(), 2u);  // a line and its end
    EXPECT_LT(picture.of_class("spread")[0]->number("y2"), picture.of_class("spread")[0]->number("y1"));
}

TEST(line_chart, stays_inside_whatever_the_numbers_are) {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    const std::vector<std::vector<chart_point>> all{{{1, 5}},
                                                    {{1, 1}, {2, 1}},
                                                    {{1, 1e-9}, {1e9, 1e12}},
                                                    {{1, 0.00123}, {3, 0.00124}},
                                                    {{1, 5e-324}, {2, 1e308}, {1e-320, 3}, {1e308, 3}},
                                                    {{1, 3, infinity}, {2, 4, std::nan("")}}};
    for (const auto& points : all) {
        const xml_element picture = picture_of(points);
        for (const place& each : dots_of(picture)) {
            EXPECT_GE(each.x, 0);
            EXPECT_GE(each.y, 0);
            EXPECT_LE(each.x, picture.number("width"));
            EXPECT_LE(each.y, picture.number("height"));
        }
    }
    EXPECT_EQ(dots_of(picture_of({{0, 1}, {1, 0}, {-1, 1}, {1, -1}, {std::nan(""), 1}, {1, infinity}})).size(), 0u);
    EXPECT_TRUE(has(words_of(picture_of({})), "There is nothing in it."));
    EXPECT_NO_THROW(picture_of("", {}));
}

TEST(line_chart, escapes_all_words) {
    const std::string hostile = "</text><script>\"&\x01\xff";
    const xml_element picture = picture_of(
        hostile,
        {{.title = hostile, .x_label = hostile, .y_label = hostile, .series = {{hostile, {{1, 1}, {2, 2}}, 3, true}}}});
    EXPECT_TRUE(picture.all([](const xml_element& each) { return each.name == "script"; }).empty());
    EXPECT_FALSE(picture.of_class("dashed").empty());
    EXPECT_FALSE(picture.of_class("c3").empty());
}

TEST(line_chart, has_a_dark_colour_for_each_light_one) {
    std::ostringstream out;
    write_line_charts("title", {}, out);
    const std::string picture = out.str();
    const std::size_t dark = picture.find("prefers-color-scheme:dark");
    ASSERT_NE(dark, std::string::npos);
    for (const char* each : {".ground{", ".grid{", ".axis{", ".c0{", ".c3{", ".c7{"}) {
        EXPECT_LT(picture.find(each), dark) << each;
        EXPECT_NE(picture.find(each, dark), std::string::npos) << each;
    }
}

}  // namespace sluice::line_chart_tests
