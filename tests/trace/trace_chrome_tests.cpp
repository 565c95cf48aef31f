// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <ios>
#include <limits>
#include <locale>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "sluice/trace/trace.hpp"
#include "trace/sample_trace.hpp"

namespace sluice::trace_chrome_tests {
namespace {

using nlohmann::json;

json written(const trace& of) {
    std::ostringstream text;
    write_chrome_trace(of, text);
    return json::parse(text.str()).at("traceEvents");  // also refuses text that is not UTF-8
}

std::vector<json> of_phase(const json& events, const std::string& phase) {
    std::vector<json> found;
    for (const json& each : events) {
        if (each.at("ph") == phase) found.push_back(each);
    }
    return found;
}

std::int64_t ns(const json& us) { return std::llround(us.get<double>() * 1e3); }

trace trace_of(double start_us, double end_us) {
    trace result;
    result.devices = {"cpu"};
    result.events.push_back({.name = "k", .start_us = start_us, .end_us = end_us});
    return result;
}

std::pair<double, double> slice_of(double start_us, double end_us) {
    const json slice = of_phase(written(trace_of(start_us, end_us)), "X").at(0);
    return {slice["ts"], slice["dur"]};
}

}  // namespace

TEST(chrome_trace, names_processes_after_devices_and_threads_after_streams) {
    trace of;
    of.devices = {"cuda:0", "cuda:1", "unused"};
    of.events.push_back({.name = "a", .device = 1, .stream = 3});
    of.events.push_back({.name = "b", .device = 0, .stream = 0});
    of.events.push_back({.name = "c", .device = 7, .stream = 0});  // not among the devices
    std::map<int, std::string> processes;
    std::map<std::pair<int, int>, std::string> threads;
    for (const json& each : of_phase(written(of), "M")) {
        if (each["name"] == "process_name") processes[each["pid"]] = each["args"]["name"];
        if (each["name"] == "thread_name") threads[{each["pid"], each["tid"]}] = each["args"]["name"];
    }
    EXPECT_EQ(processes, (std::map<int, std::string>{{0, "cuda:0"}, {1, "cuda:1"}, {7, "device 7"}}));
    EXPECT_EQ(threads, (std::map<std::pair<int, int>, std::string>{
                           {{0, 0}, "stream 0"}, {{1, 3}, "stream 3"}, {{7, 0}, "stream 0"}}));
}

TEST(chrome_trace, has_a_slice_for_each_command_with_all_known_details) {
    trace of;
    of.devices = {"cuda:0"};
    of.events.push_back(
        {"upload", "images", 0, 2, 17, trace_kind::host_to_device, 1.5, 4.25, std::size_t{3} << 30, "main.cpp:12"});
    const json slice = of_phase(written(of), "X").at(0);
    const json expected = {
        {"name", "upload"},
        {"cat", "upload"},
        {"ph", "X"},
        {"pid", 0},
        {"tid", 2},
        {"ts", 1.5},
        {"dur", 2.75},
        {"args", {{"operation", "images"}, {"ticket", 17}, {"bytes", 3221225472}, {"location", "main.cpp:12"}}}};
    EXPECT_EQ(slice, expected);
}

TEST(chrome_trace, leaves_out_unknown_details) {
    EXPECT_EQ(of_phase(written(trace_of(0, 1)), "X").at(0)["args"], json({{"ticket", 0}}));
}

TEST(chrome_trace, keeps_names_with_any_characters) {
    const std::string hostile = "\"quo\\te\" </script>\n\t\r\x01\x1f\x7f \u00fc\u6f22\U0001F30A" + std::string(1, '\0');
    trace of = trace_of(0, 1);
    of.devices = {hostile};
    of.events[0].name = of.events[0].operation = of.events[0].location = hostile;
    const json events = written(of);
    EXPECT_EQ(events.at(0)["args"]["name"], hostile);
    const json slice = of_phase(events, "X").at(0);
    EXPECT_EQ(slice["name"], hostile);
    EXPECT_EQ(slice["args"]["operation"], hostile);
    EXPECT_EQ(slice["args"]["location"], hostile);
}

TEST(chrome_trace, replaces_bytes_that_are_not_utf8) {
    trace of = trace_of(0, 1);
    of.events[0].name = "a\xff\xc3(\xed\xa0\x80";
    EXPECT_EQ(of_phase(written(of), "X").at(0)["name"], "a\uFFFD\uFFFD(\uFFFD\uFFFD\uFFFD");
}

TEST(chrome_trace, has_arrows_from_the_end_of_the_awaited_slice_to_the_start_of_the_one_that_waited) {
    const trace sample = testing::sample_trace();
    const json events = written(sample);
    const auto slice = [&](std::size_t stream, std::uint64_t ticket) {
        for (const json& each : of_phase(events, "X")) {
            if (each["tid"] == stream && each["args"]["ticket"] == ticket) return each;
        }
        return json();
    };
    const auto begins = of_phase(events, "s"), ends = of_phase(events, "f");
    ASSERT_EQ(begins.size(), sample.waits.size());
    ASSERT_EQ(ends.size(), sample.waits.size());
    for (std::size_t i = 0; i < sample.waits.size(); ++i) {
        const json from = slice(sample.waits[i].from_stream, sample.waits[i].from_ticket);
        const json to = slice(sample.waits[i].to_stream, sample.waits[i].to_ticket);
        EXPECT_EQ(begins[i]["id"], ends[i]["id"]);
        EXPECT_EQ(begins[i]["tid"], from["tid"]);
        EXPECT_EQ(ends[i]["tid"], to["tid"]);
        EXPECT_EQ(ends[i]["bp"], "e");
        EXPECT_EQ(ns(begins[i]["ts"]), ns(from["ts"]) + ns(from["dur"]) - 1);  // still within the slice
        EXPECT_EQ(ns(ends[i]["ts"]), ns(to["ts"]));
    }
    EXPECT_NE(begins[0]["id"], begins[1]["id"]);
}

TEST(chrome_trace, leaves_out_waits_for_commands_that_it_does_not_have) {
    trace of = testing::sample_trace();
    of.waits = {{0, 0, 99, 1, 4}, {0, 0, 4, 1, 99}, {5, 0, 4, 1, 4}, {0, 9, 4, 1, 4}};
    EXPECT_TRUE(of_phase(written(of), "s").empty());
    EXPECT_TRUE(of_phase(written(of), "f").empty());
}

TEST(chrome_trace, has_the_details_and_the_names_of_streams_that_the_trace_has) {
    trace of;
    of.devices = {"cpu:0"};
    of.events.push_back({.name = "queue", .stream = 2, .kind = trace_kind::stage, .end_us = 1});
    of.events.back().details = {{"id", "\"}"}, {"rows", "2"}};
    of.stream_names = {{0, 2, "requests"}};
    const json events = written(of);
    EXPECT_EQ(of_phase(events, "X").at(0)["cat"], "stage");
    EXPECT_EQ(of_phase(events, "X").at(0)["args"], (json{{"ticket", 0}, {"id", "\"}"}, {"rows", "2"}}));
    for (const json& each : of_phase(events, "M")) {
        if (each["name"] != "thread_name") continue;
        EXPECT_EQ(each["args"]["name"], "requests");
    }
}

TEST(chrome_trace, has_no_slices_that_overlap_on_a_stream) {
    std::mt19937 random(7);
    std::uniform_real_distribution<double> time_us(-1, 50);
    trace of;
    of.devices = {"cuda:0"};
    for (std::uint64_t i = 0; i < 2000; ++i) {
        of.events.push_back({.name = "k", .stream = i % 3, .ticket = i, .start_us = time_us(random)});
        of.events.back().end_us = time_us(random);
    }
    const auto slices = of_phase(written(of), "X");
    ASSERT_EQ(slices.size(), of.events.size());
    std::map<int, std::int64_t> ends;
    for (const json& each : slices) {  // written in the order of their starts
        EXPECT_GE(ns(each["ts"]), ends[each["tid"]]);
        EXPECT_GE(ns(each["dur"]), 0);
        ends[each["tid"]] = ns(each["ts"]) + ns(each["dur"]);
    }
}

TEST(chrome_trace, clamps_invalid_times) {
    using slice = std::pair<double, double>;
    EXPECT_EQ(slice_of(-3, 2), slice(0, 2));
    EXPECT_EQ(slice_of(-3, -2), slice(0, 0));
    EXPECT_EQ(slice_of(5, 2), slice(5, 0));
    EXPECT_EQ(slice_of(0, 1e300), slice(0, 1e15));
    EXPECT_EQ(slice_of(1e300, 1e300), slice(1e15, 0));
}

TEST(chrome_trace, skips_commands_whose_times_are_not_finite) {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const double infinity = std::numeric_limits<double>::infinity();
    for (const auto& [start_us, end_us] : {std::pair(nan, 1.0), std::pair(0.0, nan), std::pair(0.0, infinity)}) {
        EXPECT_EQ(written(trace_of(start_us, end_us)), json::array());
    }
}

TEST(chrome_trace, of_an_empty_trace_is_a_list_without_events) { EXPECT_EQ(written({}), json::array()); }

TEST(chrome_trace, does_not_depend_on_the_locale_and_format_of_the_stream) {
    struct commas : std::numpunct<char> {
        char do_decimal_point() const override { return ','; }
        char do_thousands_sep() const override { return '.'; }
        std::string do_grouping() const override { return "\3"; }
    };
    std::ostringstream plain, odd;
    odd.imbue(std::locale(std::locale::classic(), new commas));
    odd << std::hex << std::showbase;
    odd.width(40);
    write_chrome_trace(testing::sample_trace(), plain);
    write_chrome_trace(testing::sample_trace(), odd);
    EXPECT_EQ(plain.str(), odd.str());
}

}  // namespace sluice::trace_chrome_tests
