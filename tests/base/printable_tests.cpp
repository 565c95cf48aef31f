// SPDX-License-Identifier: Apache-2.0
#include "sluice/base/printable.hpp"

#include <gtest/gtest.h>

#include "sluice/base/file_error.hpp"

namespace sluice {

TEST(printable, leaves_text_in_any_script_as_it_is) {
    for (const std::string text : {"", "net.0.weight", "Grüße", "重み", "вес", "\xf0\x9f\x98\x80", "a\\b 'c' \"d\""}) {
        EXPECT_EQ(printable(text), text);
    }
}

TEST(printable, shows_control_characters) {
    EXPECT_EQ(printable("\x1b]0;x\x07"), "\\x1b]0;x\\x07");
    EXPECT_EQ(printable("a\nb\rc\td\bz"), "a\\x0ab\\x0dc\\x09d\\x08z");
    EXPECT_EQ(printable(std::string_view("\0\x7f", 2)), "\\x00\\x7f");
}

TEST(printable, shows_the_control_characters_beyond_ascii) {
    EXPECT_EQ(printable("\xc2\x9b"
                        "31m"),
              "\\u009b31m");  // starts a sequence, as ESC [ does
    EXPECT_EQ(printable("\xc2\x80\xc2\x9f\xc2\xa0"), "\\u0080\\u009f\xc2\xa0");
    EXPECT_EQ(printable("\xe2\x80\xae"
                        "gpj"),
              "\\u202egpj");  // from right to left
    EXPECT_EQ(printable("\xe2\x80\xa8"), "\\u2028");
}

TEST(printable, shows_bytes_that_are_not_utf_8) {
    EXPECT_EQ(printable("\xff"), "\\xff");
    EXPECT_EQ(printable("\x9b"
                        "31m"),
              "\\x9b31m");
    EXPECT_EQ(printable("\xc3"), "\\xc3");                             // cut off
    EXPECT_EQ(printable("\xc3("), "\\xc3(");                           // not continued
    EXPECT_EQ(printable("\xc0\x9b"), "\\xc0\\x9b");                    // overlong
    EXPECT_EQ(printable("\xe0\x82\x9b"), "\\xe0\\x82\\x9b");           // overlong
    EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");           // a surrogate
    EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");  // beyond Unicode
}

TEST(printable, does_not_change_printable_text) {
    const std::string once = printable("\x1b[1m\xff\xc2\x9b");
    EXPECT_EQ(printable(once), once);
}

TEST(printable, cuts_long_text_between_characters) {
    EXPECT_EQ(printable("abcdef", 6), "abcdef");
    EXPECT_EQ(printable("abcdefg", 6), "abcdef...");
    EXPECT_EQ(printable("abcde\xc3\xbc", 6), "abcde...");
    EXPECT_EQ(in_quotes("a"), "'a'");
    EXPECT_EQ(in_quotes(std::string(1000, 'x')), "'" + std::string(80, 'x') + "...'");
}

TEST(printable, is_applied_to_every_message_of_an_error) {
    EXPECT_STREQ(error(errc::invalid_argument, "no device '\x1b[2J'").what(), "no device '\\x1b[2J'");
    EXPECT_STREQ(file_error("a\nb", 7, "\xc2\x9b", "why\r").what(), "a\\x0ab: at byte 7: \\u009b: why\\x0d");
    EXPECT_EQ(file_error("a\nb", 7, "field", "why").path(), "a\nb");
}

}  // namespace sluice
