#include "sluice/runtime/error.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "runtime/failure_log.hpp"
#include "sluice/runtime/wait_mode.hpp"

namespace sluice {
namespace {

std::string message(std::string_view text, const error_context& context) {
    return error(errc::invalid_argument, text, context).what();
}

std::string failure_in(detail::failure_log& log, ticket after, ticket upto,
                       std::thread::id submitter = std::this_thread::get_id()) {
    try {
        log.rethrow(after, upto, submitter);
        return "none";
    } catch (const std::runtime_error& failure) {
        return failure.what();
    }
}

void note(detail::failure_log& log, ticket number) {
    log.note(number, std::this_thread::get_id(), std::make_exception_ptr(std::runtime_error(std::to_string(number))));
}

}  // namespace

TEST(error, names_the_operation_the_device_and_the_line) {
    const auto here = sluice::source_location::current();
    const error refusal(errc::shape_mismatch, "too small", {"gemm", "cuda:0", here});
    EXPECT_EQ(std::string(refusal.what()), "gemm on cuda:0: too small (asked for at " + std::string(here.file_name()) +
                                               ":" + std::to_string(here.line()) + ")");
    EXPECT_EQ(refusal.operation(), "gemm");
    EXPECT_EQ(refusal.device(), "cuda:0");
    EXPECT_EQ(refusal.where().line(), here.line());
    EXPECT_EQ(refusal.code(), errc::shape_mismatch);
    EXPECT_EQ(refusal.code().category(), sluice_category());
}

TEST(error, leaves_out_what_it_does_not_know) {
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

TEST(error, of_memory_says_what_was_asked_and_what_is_free) {
    const out_of_memory refusal(100, 7, {"zeros", "cpu:0"});
    EXPECT_STREQ(refusal.what(), "zeros on cpu:0: asked for 100 bytes, 7 bytes are free");
    EXPECT_EQ(refusal.asked_bytes(), 100u);
    EXPECT_EQ(refusal.free_bytes(), 7u);
    EXPECT_EQ(refusal.code(), errc::out_of_memory);
}

TEST(failure_log, tells_each_failure_once_to_the_range_it_is_in) {
    detail::failure_log log;
    for (const ticket number : {3, 5, 9}) note(log, number);
    EXPECT_EQ(failure_in(log, 5, 8), "none");
    EXPECT_EQ(failure_in(log, 4, 5), "5");
    EXPECT_EQ(failure_in(log, 4, 5), "none");
    EXPECT_EQ(failure_in(log, 0, 100), "3");
    EXPECT_EQ(failure_in(log, 0, 100), "9");
    EXPECT_EQ(failure_in(log, 0, 100), "none");
}

TEST(failure_log, keeps_the_failures_of_each_submitting_thread_apart) {
    detail::failure_log log;
    note(log, 4);
    EXPECT_EQ(failure_in(log, 0, 10, std::thread::id()), "none");
    EXPECT_EQ(failure_in(log, 0, 10), "4");
}

TEST(failure_log, tells_whoever_might_have_asked_for_one_that_it_forgot) {
    detail::failure_log log;
    for (ticket number = 1; number <= 5000; ++number) note(log, number);
    EXPECT_THAT(failure_in(log, 0, 1), testing::HasSubstr("no longer known"));
    EXPECT_EQ(failure_in(log, 4999, 5000), "5000");
    EXPECT_EQ(failure_in(log, 5000, 6000), "none");
}

TEST(wait_mode, has_a_name) {
    EXPECT_EQ(to_string(wait_mode::spin), "spin");
    EXPECT_EQ(to_string(wait_mode::yield), "yield");
    EXPECT_EQ(to_string(wait_mode::block), "block");
}

}  // namespace sluice
