// SPDX-License-Identifier: Apache-2.0
#include "sluice/base/error.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "sluice/async/wait_mode.hpp"

namespace sluice::error_tests {
namespace {

std::string message(std::string_view text, const error_context& context) {
    return error(errc::invalid_argument, text, context).what();
}

}  // namespace

TEST(error, names_the_operation_the_device_and_the_line) {
    const auto here = sluice::source_location::current();
    const error refusal(errc::shape_mismatch, "too small", {"gemm", "cuda:0", here});
    EXPECT_EQ(std::string(refusal.what()), "gemm on cuda:0: too small (asked for at " + std::string(here.file_name()) +
                                               ":" + std::to_string(here.line()) + ")");
    EXPECT_EQ(refusal.operation(), "gemm");
    EXPECT_EQ(refusal.device(), "cuda:0");
    EXPECT_EQ(refusal.location().line(), here.line());
    EXPECT_EQ(refusal.code(), errc::shape_mismatch);
    EXPECT_EQ(refusal.code().category(), sluice_category());
}

TEST(error, leaves_out_unknown_parts) {
    EXPECT_EQ(message("no", {}), "no");
    EXPECT_EQ(message("no", {"gemm"}), "gemm: no");
    EXPECT_EQ(message("no", {"", "cpu:1"}), "cpu:1: no");
    EXPECT_EQ(message("no", {"gemm", "cpu:1"}), "gemm on cpu:1: no");
}

TEST(error, has_a_message_for_every_code) {
    for (int code = 1; code <= static_cast<int>(errc::io_failed); ++code) {
        EXPECT_NE(sluice_category().message(code), "unknown error") << code;
    }
    EXPECT_EQ(sluice_category().message(999), "unknown error");
    EXPECT_STREQ(sluice_category().name(), "sluice");
}

TEST(error, out_of_memory_says_how_much_was_requested_and_how_much_is_free) {
    const out_of_memory refusal(100, 7, {"zeros", "cpu:0"});
    EXPECT_STREQ(refusal.what(), "zeros on cpu:0: asked for 100 bytes, 7 bytes are free");
    EXPECT_EQ(refusal.requested_bytes(), 100u);
    EXPECT_EQ(refusal.free_bytes(), 7u);
    EXPECT_EQ(refusal.code(), errc::out_of_memory);
}

TEST(wait_mode, has_a_name) {
    EXPECT_EQ(to_string(wait_mode::spin), "spin");
    EXPECT_EQ(to_string(wait_mode::yield), "yield");
    EXPECT_EQ(to_string(wait_mode::block), "block");
}

}  // namespace sluice::error_tests
