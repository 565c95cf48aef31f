// SPDX-License-Identifier: Apache-2.0
#include "sluice/trace/trace.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <sstream>
#include <string>

#include "sluice/base/file_error.hpp"
#include "trace/sample_trace.hpp"
#include "trace/trace_text.hpp"

namespace sluice::trace_tests {
namespace {

std::filesystem::path fresh_file(const std::string& name) {
    const auto file = std::filesystem::path(::testing::TempDir()) / ("sluice_trace_tests_" + name);
    std::filesystem::remove(file);
    return file;
}

std::string contents(const std::filesystem::path& file) {
    std::ifstream stream(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
}

void expect_io_failed(const std::filesystem::path& file, const std::function<void()>& save) {
    try {
        save();
        FAIL() << "nothing was thrown for " << file;
    } catch (const file_error& failure) {
        EXPECT_EQ(failure.code(), errc::io_failed);
        EXPECT_EQ(failure.path(), file);
        EXPECT_NE(std::string(failure.what()).find(file.string()), std::string::npos) << failure.what();
    }
}

std::string repaired(std::string_view text) {
    std::string result;
    for (std::size_t at = 0; at < text.size();) detail::append_utf8(result, detail::next_code_point(text, at));
    return result;
}

std::string compact(double value, int decimals) {
    std::string text;
    detail::append_compact(text, value, decimals);
    return text;
}

}  // namespace

TEST(trace_files, hold_what_the_writers_write) {
    const trace sample = testing::sample_trace();
    std::ostringstream chrome, timeline;
    write_chrome_trace(sample, chrome);
    write_timeline(sample, timeline, {.title = "A title"});

    const auto json = fresh_file("a.json"), svg = fresh_file("a.svg");
    save_chrome_trace(sample, json);
    save_timeline(sample, svg, {.title = "A title"});
    EXPECT_EQ(contents(json), chrome.str());
    EXPECT_EQ(contents(svg), timeline.str());
    std::filesystem::remove(json);
    std::filesystem::remove(svg);
}

TEST(trace_files, replace_longer_ones) {
    const auto file = fresh_file("b.json");
    std::ofstream(file) << std::string(100'000, 'x');
    save_chrome_trace({}, file);
    EXPECT_LT(contents(file).size(), 100u);
    std::filesystem::remove(file);
}

TEST(trace_files, that_cannot_be_created_are_an_error_that_names_them) {
    const std::filesystem::path nowhere = fresh_file("no_such_folder") / "trace";
    expect_io_failed(nowhere, [&] { save_chrome_trace({}, nowhere); });
    expect_io_failed(nowhere, [&] { save_timeline({}, nowhere); });
}

TEST(trace_files, that_do_not_fit_on_the_disk_are_an_error_that_names_them) {
    const std::filesystem::path full = "/dev/full";
    if (!std::filesystem::exists(full)) GTEST_SKIP() << "there is no /dev/full";
    expect_io_failed(full, [&] { save_chrome_trace(testing::sample_trace(), full); });
    expect_io_failed(full, [&] { save_timeline(testing::sample_trace(), full); });
}

// SLUICE_TIMELINE=picture.svg writes the sample to that file.
TEST(trace_files, a_sample_timeline_is_written_on_request) {
    const char* file = std::getenv("SLUICE_TIMELINE");
    if (file == nullptr) return;
    save_timeline(testing::sample_trace(), file, {.title = "Four batches on four streams"});
}

TEST(trace_text, keeps_utf8) {
    for (const std::string text : {"plain", "gr\u00fc\u00df", "\u6f22\u5b57", "\U0001F30A", "\uFFFD", "\x7f"}) {
        EXPECT_EQ(repaired(text), text);
    }
}

TEST(trace_text, replaces_each_byte_that_is_not_utf8) {
    const std::string_view one = "\uFFFD";
    const auto times = [&](int count) {
        std::string result;
        while (count-- > 0) result += one;
        return result;
    };
    EXPECT_EQ(repaired("\xff"), times(1));
    EXPECT_EQ(repaired("a\x80z"), "a" + times(1) + "z");
    EXPECT_EQ(repaired("\xc3"), times(1));              // ends too early
    EXPECT_EQ(repaired("\xe6\xbc"), times(2));          // the same
    EXPECT_EQ(repaired("\xc3("), times(1) + "(");       // wrong continuation byte
    EXPECT_EQ(repaired("\xc0\xaf"), times(2));          // an overlong '/'
    EXPECT_EQ(repaired("\xe0\x80\xaf"), times(3));      // the same
    EXPECT_EQ(repaired("\xf0\x80\x80\xaf"), times(4));  // the same
    EXPECT_EQ(repaired("\xed\xa0\x80"), times(3));      // a surrogate
    EXPECT_EQ(repaired("\xf4\x90\x80\x80"), times(4));  // above U+10FFFF
    EXPECT_EQ(repaired("\xf5\x80\x80\x80"), times(4));  // the same
    EXPECT_EQ(repaired("\xf0\x9f\x8c\x8a"), "\U0001F30A");
}

TEST(trace_text, writes_numbers_without_needless_zeros) {
    EXPECT_EQ(compact(12.5, 2), "12.5");
    EXPECT_EQ(compact(12, 2), "12");
    EXPECT_EQ(compact(100, 0), "100");
    EXPECT_EQ(compact(-0.001, 2), "0");
    EXPECT_EQ(compact(1e15, 3), "1000000000000000");
}

TEST(trace_text, writes_quantities_with_a_suitable_unit) {
    EXPECT_EQ(detail::duration_text(0), "0 µs");
    EXPECT_EQ(detail::duration_text(1.234), "1.23 µs");
    EXPECT_EQ(detail::duration_text(999.7), "1 ms");
    EXPECT_EQ(detail::duration_text(75'432), "75.4 ms");
    EXPECT_EQ(detail::duration_text(2.5e6), "2.5 s");
    EXPECT_EQ(detail::bytes_text(512), "512 bytes");
    EXPECT_EQ(detail::bytes_text(1536), "1.5 KiB");
    EXPECT_EQ(detail::bytes_text(3.0 * (1 << 30)), "3 GiB");
    EXPECT_EQ(detail::count_text(1, "command"), "1 command");
    EXPECT_EQ(detail::count_text(0, "command"), "0 commands");
    EXPECT_EQ(detail::count_text(1'234'567), "1,234,567");
    EXPECT_EQ(detail::count_text(123), "123");
}

}  // namespace sluice::trace_tests
