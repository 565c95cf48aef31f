// SPDX-License-Identifier: Apache-2.0
// The log of `sluice serve` where it cannot be written.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <nlohmann/json.hpp>
#include <ostream>
#include <streambuf>
#include <string>

#include "sluice/serve_log.hpp"

namespace sluice::serve::log_fault_tests {
namespace {

using namespace std::chrono_literals;

// A disk that the test fills.
class disk final : public std::streambuf {
public:
    bool is_full = false;
    std::string written;

protected:
    std::streamsize xsputn(const char* text, std::streamsize length) override {
        if (is_full) return 0;
        written.append(text, static_cast<std::size_t>(length));
        return length;
    }
    int_type overflow(int_type c) override {
        if (is_full) return traits_type::eof();
        written += traits_type::to_char_type(c);
        return c;
    }
};

TEST(serve_log, lines_are_written_again_after_a_full_disk_and_the_loss_is_said) {
    disk full;
    std::ostream to(&full);
    const app::log_writer writer(to, true);
    const log_sink sink = writer.sink();
    const auto say = [&](const std::string& text) {
        sink({log_level::info, "event", text, {}});
        EXPECT_TRUE(writer.flush(20s));
    };
    say("one");
    full.is_full = true;
    say("two");
    say("three");
    full.is_full = false;
    say("four");
    say("five");
    std::vector<std::string> messages;
    std::istringstream lines(full.written);
    for (std::string line; std::getline(lines, line);)
        if (!line.empty()) messages.push_back(nlohmann::json::parse(line)["message"]);
    EXPECT_THAT(messages, ::testing::ElementsAre(
                              "one", "the log could not be written: 2 lines before this one are lost", "four", "five"));
    EXPECT_EQ(writer.lost(), 2U);
}

// A pipe that is full, until the test opens it.
class full_pipe final : public std::streambuf {
public:
    void open() {
        is_open_ = true;
        is_open_.notify_all();
    }
    std::atomic<std::size_t> bytes{0};

protected:
    std::streamsize xsputn(const char*, std::streamsize length) override {
        is_open_.wait(false);
        bytes += static_cast<std::size_t>(length);
        return length;
    }
    int_type overflow(int_type c) override {
        is_open_.wait(false);
        ++bytes;
        return c;
    }

private:
    std::atomic<bool> is_open_{false};
};

TEST(serve_log, nothing_waits_for_a_pipe_that_nobody_reads_and_lines_are_lost_and_counted) {
    full_pipe pipe;
    std::ostream to(&pipe);
    const app::log_writer writer(to, true);
    const log_sink sink = writer.sink();
    const std::string text(1000, 'a');
    constexpr std::size_t lines = 3000;  // more than wait at most
    for (std::size_t i = 0; i < lines; ++i) sink({log_level::info, "event", text, {}});
    EXPECT_FALSE(writer.flush(1ms));
    EXPECT_GT(writer.lost(), 0U);
    EXPECT_LT(writer.lost(), lines);
    EXPECT_NE(writer.metrics().find("sluice_log_lines_lost_total " + std::to_string(writer.lost())), std::string::npos);
    pipe.open();
    EXPECT_TRUE(writer.flush(20s));
    EXPECT_GE(pipe.bytes, (lines - writer.lost()) * text.size());
}

}  // namespace
}  // namespace sluice::serve::log_fault_tests
