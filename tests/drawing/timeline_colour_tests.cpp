// SPDX-License-Identifier: Apache-2.0
// The colours of timelines: one per name, explained, and readable.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "drawing/timeline_layout.hpp"
#include "drawing/timeline_picture.hpp"
#include "drawing/timeline_style.hpp"
#include "trace/sample_trace.hpp"

namespace sluice::timeline_colour_tests {
namespace {

using testing::bar_with;
using testing::picture;
using testing::texts_of;
using testing::xml_element;

TEST(timeline_colours, gives_kinds_a_look_and_names_a_colour_and_explains_both) {
    const xml_element shown = picture(testing::sample_trace());
    const auto colour = [](const std::string& name) { return "n" + std::to_string(detail::colour_of(name)); };
    const xml_element library = bar_with(shown, "cublasLtMatmul").child("rect");
    EXPECT_TRUE(library.is("library-call") && library.is("solid") && library.is(colour("cublasLtMatmul")));
    const xml_element kernel = bar_with(shown, "softmax").child("rect");
    EXPECT_TRUE(kernel.is("kernel") && kernel.is("solid") && kernel.is(colour("softmax")));
    const xml_element download = bar_with(shown, "download").child("rect");
    EXPECT_TRUE(download.is("download") && download.is("hollow"));
    for (std::size_t i = 0; i < detail::name_colours; ++i) EXPECT_FALSE(download.is("n" + std::to_string(i)));
    const auto labels = texts_of(shown, "muted");
    for (const std::string label : {"upload", "download", "fill", "kernel", "library call", "wait", "sgemm_naive",
                                    "softmax", "relu", "cublasLtMatmul"}) {
        EXPECT_EQ(std::ranges::count(labels, label), 1) << label;
    }
    EXPECT_EQ(std::ranges::count(labels, "device copy"), 0);
    EXPECT_EQ(std::ranges::count(labels, "28 commands on 4 streams in 166 µs, 2 waits"), 1);
}

TEST(timeline_colours, gives_a_name_the_same_colour_everywhere) {
    EXPECT_EQ(detail::colour_of(""), 1u);  // FNV-1a, folded: on every machine
    EXPECT_EQ(detail::colour_of("relu"), 4u);
    std::set<std::size_t> colours;
    for (int i = 0; i < 200; ++i) colours.insert(detail::colour_of("kernel_" + std::to_string(i)));
    EXPECT_EQ(colours.size(), detail::name_colours);
}

TEST(timeline_colours, colours_a_merged_bar_by_the_name_that_took_the_most_time) {
    trace of;
    testing::trace_filler on(of, 0, 0, 0);
    for (int i = 0; i < 60'000; ++i) on.add(trace_kind::kernel, i % 3 == 0 ? "short" : "long", 0.4, {}, 0, 0.1);
    ASSERT_NE(detail::colour_of("short"), detail::colour_of("long"));
    const std::string look = "n" + std::to_string(detail::colour_of("long"));
    const xml_element shown = picture(of);
    for (const xml_element* bar : shown.of_class("bar")) EXPECT_TRUE(bar->child("rect").is(look));
}

TEST(timeline_colours, explains_the_colours_of_no_more_than_twelve_names) {
    trace of;
    testing::trace_filler on(of, 0, 0, 0);
    for (int i = 0; i < 1000; ++i) on.add(trace_kind::kernel, "kernel_" + std::to_string(i), 1000.0 - i);
    const auto labels = texts_of(picture(of), "muted");
    for (int i = 0; i < 12; ++i) EXPECT_EQ(std::ranges::count(labels, "kernel_" + std::to_string(i)), 1);
    EXPECT_EQ(std::ranges::count(labels, "kernel_12"), 0);
    EXPECT_EQ(std::ranges::count(labels, "and 988 more names"), 1);
}

// The contrast of WCAG 2 between two colours.
double contrast(const std::string& left, const std::string& right) {
    const auto luminance = [](const std::string& colour) {
        const double weights[] = {0.2126, 0.7152, 0.0722};
        double sum = 0;
        for (std::size_t i = 0; i < 3; ++i) {
            const double part = std::stoi(colour.substr(1 + 2 * i, 2), nullptr, 16) / 255.0;
            sum += weights[i] * (part <= 0.04045 ? part / 12.92 : std::pow((part + 0.055) / 1.055, 2.4));
        }
        return sum;
    };
    const double a = luminance(left), b = luminance(right);
    return (std::max(a, b) + 0.05) / (std::min(a, b) + 0.05);
}

TEST(timeline_colours, writes_readable_text_on_each_colour) {
    const std::string style(detail::timeline_style);
    for (std::size_t i = 0; i < detail::name_colours; ++i) {
        const std::string look = ".n" + std::to_string(i);
        const std::string fill = style.substr(style.find(look + "{fill:") + look.size() + 6, 7);
        // Of a bar alone: a look in the legend comes before the names of all bars too.
        const std::size_t names = style.find(look + "~svg .name");
        ASSERT_NE(names, std::string::npos);
        EXPECT_EQ(style.substr(names - 5, 5), ".bar>") << look;
        const std::string ink = style.substr(style.find("{fill:", names) + 6, 7);
        EXPECT_GE(contrast(fill, ink), 4.5) << look;
        EXPECT_GE(contrast(fill, "#f1f4f8"), 2) << look;  // the rows in the light
        EXPECT_GE(contrast(fill, "#19212d"), 2) << look;  // and in the dark
    }
}

}  // namespace
}  // namespace sluice::timeline_colour_tests
