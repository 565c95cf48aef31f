// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "drawing/timeline_layout.hpp"
#include "drawing/timeline_picture.hpp"
#include "drawing/timeline_script.hpp"
#include "drawing/timeline_text.hpp"
#include "sluice/trace/trace.hpp"
#include "trace/sample_trace.hpp"

namespace sluice::timeline_tests {
namespace {

using testing::bar_with;
using testing::drawn;
using testing::picture;
using testing::texts_of;
using testing::xml_element;

struct box {
    double left, top, right, bottom;
};

box box_of(const xml_element& rect) {
    const double x = rect.number("x"), y = rect.number("y");
    return {x, y, x + rect.number("width"), y + rect.number("height")};
}

box bar_box(const xml_element& bar) { return box_of(bar.child("rect")); }

// The numbers of a path.
std::vector<double> numbers_of(std::string path) {
    std::ranges::replace_if(path, [](char c) { return c == 'M' || c == 'C' || c == 'L' || c == 'Z'; }, ' ');
    std::istringstream stream(path);
    std::vector<double> numbers;
    for (double number; stream >> number;) numbers.push_back(number);
    return numbers;
}

// Commands on one stream that take `busy_us` each and are `idle_us` apart.
trace dense_trace(std::size_t count, double busy_us, double idle_us) {
    trace result;
    result.devices = {"cuda:0"};
    testing::trace_filler on(result, 0, 0, 0);
    for (std::size_t i = 0; i < count; ++i) {
        on.add(i % 3 == 0 ? trace_kind::fill : trace_kind::kernel, "k", busy_us, {}, 0, idle_us);
    }
    return result;
}

}  // namespace

TEST(timeline, has_a_row_for_each_stream_and_a_name_for_each_device) {
    trace of = testing::sample_trace();
    of.devices.push_back("cuda:1");
    of.devices.push_back("unused");
    of.events.push_back({.name = "k", .device = 1, .stream = 5, .end_us = 3});
    of.events.push_back({.name = "k", .device = 9, .stream = 0, .end_us = 3});  // not among the devices
    const xml_element shown = picture(of);
    EXPECT_EQ(texts_of(shown, "stream"),
              (std::vector<std::string>{"stream 0", "stream 1", "stream 2", "stream 3", "stream 5", "stream 0"}));
    EXPECT_EQ(texts_of(shown, "device"), (std::vector<std::string>{"cuda:0 NVIDIA H200", "cuda:1", "device 9"}));
    EXPECT_EQ(shown.of_class("row").size(), 6u);
    EXPECT_EQ(shown.of_class("band").size(), 6u);
}

TEST(timeline, keeps_bars_in_their_rows_and_apart) {
    const xml_element shown = picture(testing::sample_trace());
    const auto rows = shown.of_class("row"), bands = shown.of_class("band");
    ASSERT_EQ(rows.size(), 4u);
    ASSERT_EQ(bands.size(), 4u);
    double above_px = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
        const box band = box_of(*bands[i]);
        EXPECT_GT(band.top, above_px);
        above_px = band.bottom;
        const auto bars = rows[i]->of_class("bar");
        EXPECT_EQ(bars.size(), 7u);
        double left_px = band.left;
        for (const xml_element* each : bars) {
            const box bar = bar_box(*each);
            EXPECT_GE(bar.left, left_px - 0.01);
            EXPECT_LE(bar.right, band.right + 0.01);
            EXPECT_GT(bar.top, band.top);
            EXPECT_LT(bar.bottom, band.bottom);
            left_px = bar.right;
        }
    }
    EXPECT_LT(above_px, shown.number("height"));
}

TEST(timeline, puts_bars_where_their_times_are) {
    trace of;
    of.devices = {"cpu"};
    of.events.push_back({.name = "first", .ticket = 1, .start_us = 0, .end_us = 100});
    of.events.push_back({.name = "second", .ticket = 2, .start_us = 300, .end_us = 400});
    const xml_element shown = picture(of);
    const box first = bar_box(bar_with(shown, "first")), second = bar_box(bar_with(shown, "second"));
    const box band = box_of(*shown.of_class("band").at(0));
    EXPECT_NEAR(first.left, band.left, 0.01);
    EXPECT_NEAR(second.left - first.left, 0.75 * (band.right - band.left), 0.02);
    EXPECT_NEAR(second.right - second.left, 0.25 * (band.right - band.left) - 1, 0.02);  // a hairline is left
    EXPECT_NEAR(second.right, band.right - 1, 0.02);
}

TEST(timeline, describes_all_that_is_known_of_a_command_in_its_tooltip) {
    trace of;
    of.devices = {"cuda:0"};
    of.events.push_back({"stage", "images", 0, 2, 17, trace_kind::host_to_device, 1.5, 5.5, 4096, "main.cpp:12"});
    EXPECT_EQ(picture(of).of_class("bar").at(0)->child("title").text,
              "stage (upload)\noperation images\ncuda:0, stream 2, ticket 17\nfrom 1.5 µs to 5.5 µs: 4 µs\n"
              "4 KiB, 977 MiB a second\nmain.cpp:12");
}

TEST(timeline, shows_names_of_streams_and_details_that_the_trace_has) {
    trace of;
    of.devices = {"cpu:0"};
    of.events.push_back({.name = "queue", .ticket = 1, .kind = trace_kind::stage, .start_us = 1, .end_us = 2});
    of.events.back().details = {{"id", "<seven>"}, {"rows", "2"}};
    of.events.push_back({.name = "join", .stream = 1, .ticket = 1, .start_us = 2, .end_us = 3});
    of.stream_names = {{0, 0, "requests"}, {0, 2, "unused"}, {1, 1, "of no device"}};
    of.waits.push_back({0, 0, 1, 1, 1});
    const xml_element shown = picture(of);
    EXPECT_EQ(texts_of(shown, "stream"), (std::vector<std::string>{"requests", "stream 1"}));
    EXPECT_EQ(shown.of_class("bar").at(0)->child("title").text,
              "queue (stage)\ncpu:0, requests, ticket 1\nfrom 1 µs to 2 µs: 1 µs\nid <seven>\nrows 2");
    EXPECT_EQ(shown.of_class("arrow").at(0)->child("title").text,
              "join (stream 1, ticket 1)\nwaited for queue (requests, ticket 1)");
}

TEST(timeline, draws_arrows_from_the_end_of_the_awaited_bar_to_the_start_of_the_one_that_waited) {
    trace of = testing::sample_trace();
    of.waits.push_back({0, 3, 1, 0, 7});  // upwards
    const xml_element shown = picture(of);
    const auto rows = shown.of_class("row"), arrows = shown.of_class("arrow");
    ASSERT_EQ(arrows.size(), of.waits.size());
    for (std::size_t i = 0; i < arrows.size(); ++i) {
        const trace_wait& wait = of.waits[i];
        const auto bar = [&](std::size_t stream, std::uint64_t ticket) {
            return bar_box(*rows.at(stream)->of_class("bar").at(ticket - 1));
        };
        const box from = bar(wait.from_stream, wait.from_ticket), to = bar(wait.to_stream, wait.to_ticket);
        const bool down = wait.from_stream < wait.to_stream;
        const auto line = numbers_of(arrows[i]->of_class("wait").at(0)->attribute("d"));
        const auto tip = numbers_of(arrows[i]->of_class("tip").at(0)->attribute("d"));
        ASSERT_EQ(line.size(), 8u);
        EXPECT_NEAR(line[0], from.right, 4);
        EXPECT_LE(line[0], from.right + 0.01);
        EXPECT_NEAR(line[1], down ? from.bottom : from.top, 0.01);
        EXPECT_NEAR(tip[0], to.left, 4);
        EXPECT_GE(tip[0], to.left - 0.01);
        EXPECT_NEAR(tip[1], down ? to.top : to.bottom, 0.01);
    }
    EXPECT_EQ(arrows[0]->child("title").text,
              "sgemm_naive (stream 1, ticket 4)\nwaited for sgemm_naive (stream 0, ticket 4)");
}

TEST(timeline, writes_names_only_where_they_fit) {
    const xml_element shown = picture(testing::sample_trace());
    std::size_t named = 0;
    for (const xml_element* bar : shown.of_class("bar")) {
        for (const xml_element& clip : bar->children) {
            if (clip.name != "svg") continue;
            ++named;
            const box inside = box_of(clip), around = bar_box(*bar);  // clips what is too wide all the same
            EXPECT_NEAR(inside.left, around.left, 0.01);
            EXPECT_NEAR(inside.right, around.right, 0.02);
            EXPECT_LE(detail::text_px(clip.child("text").text, 11), around.right - around.left);
        }
    }
    EXPECT_EQ(named, 20u);  // all but the fills
}

TEST(timeline, shortens_names_between_characters) {
    EXPECT_EQ(detail::elided("short", 10, 100), "short");
    EXPECT_EQ(detail::elided("", 10, 100), "");
    EXPECT_EQ(detail::elided("anything", 10, 5), "");
    EXPECT_EQ(detail::elided("anything", 10, -5), "");
    EXPECT_EQ(detail::elided("\u6f22\u5b57\u6f22\u5b57\u6f22\u5b57", 10, 45), "\u6f22\u5b57\u6f22…");
    for (double room_px = 0; room_px < 60; room_px += 0.5) {
        EXPECT_LE(detail::text_px(detail::elided("elementwise_kernel", 10, room_px), 10), room_px);
    }
}

TEST(timeline, is_well_formed_whatever_the_names_hold) {
    trace of = testing::sample_trace();
    const std::string hostile = "</title></svg><script>\"'&amp;]]>\n\r\x01\x7f\xff\xed\xa0\x80\xef\xbf\xbe" +
                                std::string(1, '\0') + "\u00fc\U0001F30A";
    of.devices = {hostile};
    for (trace_event& event : of.events) event.name = event.operation = event.location = hostile;
    const std::string text = drawn(of, {.title = hostile});
    const xml_element shown = testing::xml_reader::read(text);
    EXPECT_NO_THROW((void)nlohmann::json(text).dump());  // which refuses what is not UTF-8
    const auto scripts_of = [](const xml_element& in) {
        return in.all([](const xml_element& each) { return each.name == "script"; });
    };
    const xml_element harmless = picture(testing::sample_trace());
    ASSERT_EQ(scripts_of(shown).size(), 1u);
    EXPECT_EQ(scripts_of(shown)[0]->text, scripts_of(harmless)[0]->text);
    const std::string kept =
        "</title></svg><script>\"'&amp;]]>\n\r\uFFFD\x7f\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD"
        "\u00fc\U0001F30A";
    EXPECT_EQ(bar_with(shown, "ticket 1").child("title").text.substr(0, kept.size()), kept);
    EXPECT_EQ(shown.attribute("aria-label").substr(0, kept.size()), kept);
}

TEST(timeline, needs_nothing_outside_itself) {
    const std::string text = drawn(testing::sample_trace());
    for (const std::string needs : {"href", "url(", "@import", "@font-face", "src=", "fetch", "eval", "innerHTML"}) {
        EXPECT_EQ(text.find(needs), std::string::npos) << needs;
    }
}

TEST(timeline, has_a_script_that_is_xml_and_html_as_it_is) {
    std::string_view script = detail::timeline_script;
    ASSERT_TRUE(script.starts_with("<script>") && script.ends_with("</script>\n"));
    script.remove_prefix(8);
    script.remove_suffix(10);
    EXPECT_EQ(script.find_first_of("<&"), std::string_view::npos);
    EXPECT_EQ(script.find("]]>"), std::string_view::npos);
}

TEST(timeline, gives_its_script_the_times_at_the_ends_of_the_axis) {
    trace of;
    of.events.push_back({.name = "k", .start_us = 5'000'000, .end_us = 5'000'000.125});
    const xml_element shown = picture(of);
    EXPECT_EQ(shown.attribute("data-begin-us"), "5e+06");
    EXPECT_EQ(shown.attribute("data-end-us"), "5000000.125");
    const box band = box_of(*shown.of_class("band").at(0));
    EXPECT_EQ(shown.number("data-left"), band.left);
    EXPECT_EQ(shown.number("data-right"), band.right);
    const xml_element& pane = *shown.of_class("pane").at(0);
    EXPECT_EQ(pane.number("x"), band.left);
    EXPECT_NEAR(pane.number("width"), band.right - band.left, 0.01);
    EXPECT_EQ(pane.of_class("time").at(0)->of_class("bar").size(), 1u);
}

TEST(timeline, of_nothing_says_so) {
    trace nothing_finite;
    nothing_finite.events.push_back({.name = "k", .end_us = std::numeric_limits<double>::quiet_NaN()});
    for (const trace& of : {trace{}, nothing_finite}) {
        const xml_element shown = picture(of, {.title = "Quiet"});
        const auto labels = texts_of(shown, "muted");
        EXPECT_EQ(std::ranges::count(labels, "Nothing was traced."), 1);
        EXPECT_TRUE(shown.of_class("bar").empty());
    }
}

TEST(timeline, merges_bars_too_narrow_to_be_told_apart) {
    const trace of = dense_trace(100'000, 0.4, 0.1);
    const std::string text = drawn(of, {.width_px = 1200});
    EXPECT_LT(text.size(), 400'000u);
    const xml_element shown = testing::xml_reader::read(text);
    const auto bars = shown.of_class("bar");
    EXPECT_GT(bars.size(), 400u);  // about two pixels each
    EXPECT_LT(bars.size(), 1200u);
    std::size_t commands = 0;
    for (const xml_element* bar : bars) {
        std::size_t count = 0;
        ASSERT_EQ(std::sscanf(bar->child("title").text.c_str(), "%zu commands: ", &count), 1);
        commands += count;
        EXPECT_TRUE(bar->child("rect").is("kernel"));  // two thirds are
        EXPECT_LE(bar->child("rect").number("width"), 2.01);
        EXPECT_NEAR(bar->child("rect").number("fill-opacity"), 0.25 + 0.75 * 0.8, 0.02);  // busy four fifths
    }
    EXPECT_EQ(commands, of.events.size());
}

TEST(timeline, leaves_bars_alone_that_are_far_from_others) {
    trace of = dense_trace(10, 0.001, 1000);
    const xml_element shown = picture(of);
    const auto bars = shown.of_class("bar");
    ASSERT_EQ(bars.size(), 10u);
    for (const xml_element* bar : bars) EXPECT_GE(bar->child("rect").number("width"), 1);  // still to be seen
}

TEST(timeline, draws_arrows_that_lie_on_each_other_once) {
    trace of = dense_trace(50'000, 0.4, 0.1);
    testing::trace_filler below(of, 0, 1, 0.2);
    for (std::uint64_t i = 1; i <= 50'000; ++i) {
        below.add(trace_kind::kernel, "k", 0.4, {}, 0, 0.1);
        of.waits.push_back({0, 0, i, 1, i});
    }
    EXPECT_LT(picture(of, {.width_px = 1200}).of_class("arrow").size(), 1300u);
}

TEST(timeline, survives_times_that_make_no_sense) {
    std::mt19937 random(11);
    const double odd[] = {0,
                          -1,
                          1,
                          -1e300,
                          1e300,
                          5e-324,
                          1e15,
                          std::numeric_limits<double>::infinity(),
                          std::numeric_limits<double>::quiet_NaN()};
    for (int round = 0; round < 300; ++round) {
        trace of;
        for (std::uint64_t i = 1; i <= 6; ++i) {
            of.events.push_back({.name = "k", .device = random() % 2, .stream = random() % 2, .ticket = i});
            of.events.back().start_us = odd[random() % std::size(odd)];
            of.events.back().end_us = odd[random() % std::size(odd)];
            of.waits.push_back({random() % 2, random() % 2, random() % 6, random() % 2, random() % 6});
        }
        const std::string text = drawn(of, {.width_px = 1200});
        EXPECT_EQ(text.find("\"nan"), std::string::npos);
        EXPECT_EQ(text.find("inf\""), std::string::npos);
        EXPECT_NO_THROW((void)drawn(of));
        const xml_element shown = testing::xml_reader::read(text);
        for (const xml_element* bar : shown.of_class("bar")) {
            EXPECT_GE(bar_box(*bar).left, 0);
            EXPECT_LE(bar_box(*bar).right, 1200);
        }
    }
}

TEST(timeline, survives_kinds_and_numbers_that_make_no_sense) {
    trace of;
    const std::size_t most = std::numeric_limits<std::size_t>::max();
    of.events.push_back({"k", "", most, most, most, static_cast<trace_kind>(200), 0, 1, most, ""});
    const xml_element shown = picture(of, {.width_px = 1});
    EXPECT_EQ(shown.of_class("bar").size(), 1u);
    EXPECT_GT(bar_box(*shown.of_class("bar").at(0)).right, bar_box(*shown.of_class("bar").at(0)).left + 50);
}

TEST(timeline, is_wide_enough_for_short_names_without_a_request) {
    const auto width = [](std::size_t commands) { return picture(dense_trace(commands, 0.4, 0.1)).number("width"); };
    EXPECT_EQ(width(5), 1200);
    EXPECT_NEAR(width(60), 60 * 40 * 0.5 / 0.4, 20);
    EXPECT_EQ(width(100'000), 4800);
    EXPECT_LT(drawn(dense_trace(100'000, 0.4, 0.1)).size(), 1'500'000u);
}

TEST(timeline, is_as_wide_as_requested_within_reason) {
    EXPECT_EQ(picture({}, {.width_px = 800}).number("width"), 800);
    EXPECT_EQ(picture({}, {.width_px = -5}).number("width"), 480);
    EXPECT_EQ(picture({}, {.width_px = std::numeric_limits<int>::max()}).number("width"), 20'000);
}

TEST(timeline, has_an_axis_whose_labels_stay_apart) {
    for (const int width_px : {480, 1200, 3000}) {
        for (double span_us = 1e-2; span_us < 1e14; span_us *= 1.7) {
            for (const double begin_us : {0.0, span_us / 3, span_us * 1e4}) {
                trace of;
                of.events.push_back({.name = "k", .start_us = begin_us, .end_us = begin_us + span_us});
                const xml_element shown = picture(of, {.width_px = width_px});
                const auto labels = shown.of_class("tick");
                EXPECT_GE(labels.size(), width_px < 1000 ? 1u : 3u) << span_us << " from " << begin_us;
                std::set<std::string> different;
                double right_px = 0;
                for (const xml_element* label : labels) {
                    const double wide_px = detail::text_px(label->text, 11);
                    const double x =
                        label->number("x") - wide_px * (label->attribute("text-anchor") == "end" ? 1 : 0.5);
                    EXPECT_GT(x, right_px) << label->text;
                    right_px = x + wide_px;
                    EXPECT_LE(right_px, width_px) << label->text;
                    different.insert(label->text);
                }
                EXPECT_EQ(different.size(), labels.size()) << span_us << " from " << begin_us;
            }
        }
    }
}

TEST(timeline, has_round_numbers_at_its_axis) {
    EXPECT_EQ(
        texts_of(picture(testing::sample_trace()), "tick"),
        (std::vector<std::string>{"0 µs", "20 µs", "40 µs", "60 µs", "80 µs", "100 µs", "120 µs", "140 µs", "160 µs"}));
}

TEST(timeline, begins_its_axis_at_the_first_command_when_that_is_late) {
    trace of;
    of.events.push_back({.name = "k", .start_us = 5'000'000, .end_us = 5'000'100});
    const xml_element shown = picture(of);
    EXPECT_NEAR(bar_box(*shown.of_class("bar").at(0)).left, box_of(*shown.of_class("band").at(0)).left, 0.01);
    EXPECT_EQ(texts_of(shown, "tick").at(0), "5000.00 ms");
}

}  // namespace sluice::timeline_tests
