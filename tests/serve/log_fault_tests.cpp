// SPDX-License-Identifier: Apache-2.0
// The log of `sluice serve` where it cannot be written.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <ostream>
#include <streambuf>
#include <string>

#include "sluice/serve_log.hpp"

namespace sluice::serve::log_fault_tests {
namespace {

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
    const log_sink sink = app::lines_to(to, true);
    const auto say = [&](const std::string& text) { sink({log_level::info, "event", text, {}}); };
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
}

}  // namespace
}  // namespace sluice::serve::log_fault_tests
