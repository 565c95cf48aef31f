// SPDX-License-Identifier: Apache-2.0
#include "serve/http/base64.hpp"

#include <gtest/gtest.h>

#include <span>
#include <string>
#include <vector>

namespace sluice::serve::base64_tests {
namespace {

// Nothing where it is refused.
std::string decoded(std::string_view text, std::size_t bytes) {
    std::vector<char> to(bytes);
    return decode_base64(text, std::as_writable_bytes(std::span(to))) ? std::string(to.begin(), to.end()) : "";
}

TEST(base64, is_decoded_as_rfc_4648_has_it) {
    EXPECT_TRUE(decode_base64("", {}));
    EXPECT_EQ(decoded("Zg==", 1), "f");
    EXPECT_EQ(decoded("Zm8=", 2), "fo");
    EXPECT_EQ(decoded("Zm9v", 3), "foo");
    EXPECT_EQ(decoded("Zm9vYg==", 4), "foob");
    EXPECT_EQ(decoded("Zm9vYmE=", 5), "fooba");
    EXPECT_EQ(decoded("Zm9vYmFy", 6), "foobar");
    EXPECT_EQ(decoded("+/9A", 3), "\xfb\xff\x40");
}

TEST(base64, other_texts_are_refused) {
    for (const char* text :
         {"", "Zg", "Zg=", "Zg===", "Z===", "====", "Zh==", "Zm8=", "Zg==\n", " Zg==", "Z-==", "Zm9v"})
        EXPECT_EQ(decoded(text, 1), "") << text;
    for (const char* text : {"Zm9", "Zm9=", "Zm9v====", "Zm!v", "Zm\xc3\xa4", "Zm9vYg=="})
        EXPECT_EQ(decoded(text, 3), "") << text;
    EXPECT_EQ(decoded("Zm9=", 2), "");  // its last two bits are not 0
}

}  // namespace
}  // namespace sluice::serve::base64_tests
