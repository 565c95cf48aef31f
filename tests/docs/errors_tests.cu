// SPDX-License-Identifier: Apache-2.0
// The code in docs/errors.md.
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <stdexcept>

#include "sluice/sluice.hpp"

namespace sluice::docs::errors_tests {
namespace {

using namespace std::chrono_literals;

class errors : public testing::Test {
protected:
    runtime machine;
    round_robin pool{machine.default_device(), 2};
};

auto risky(bool works) {
    return host_call([works]() -> float {
        if (!works) throw std::range_error("out of range");
        return 1;
    });
}

std::string told(scheduling_policy& pool) {
    try {
        sync(risky(false), pool);
        return "";
    } catch (const out_of_memory& shortage) {  // says requested_bytes() and free_bytes()
        return "memory";
    } catch (const device_error& fault) {  // a device failed; after a fault it is lost
        return "fault";
    } catch (const error& refusal) {  // code(), operation(), device(), where()
        return refusal.code().message();
    } catch (const std::exception& mine) {  // what the code in the pipeline threw, as it was
        return mine.what();
    }
}

}  // namespace

TEST_F(errors, an_exception_of_the_pipelines_code_arrives_unchanged) { EXPECT_EQ(told(pool), "out of range"); }

TEST_F(errors, shapes_are_checked_before_anything_runs) {
    try {
        sync(upload(std::vector<float>{1, 2, 3}, {2, 2}), pool);
        FAIL();
    } catch (const error& refusal) {
        EXPECT_EQ(refusal.code(), errc::shape_mismatch);
        EXPECT_EQ(refusal.operation(), "upload");
        EXPECT_NE(refusal.location().line(), 0u);  // of the call of upload
    }
}

TEST_F(errors, a_failure_follows_the_data) {
    auto broken = spawn(risky(false), pool);
    auto unrelated = spawn(risky(true), pool);
    EXPECT_EQ(std::move(unrelated).get(), 1);  // on whatever stream
    EXPECT_THROW(std::move(broken).get(), std::range_error);
}

TEST_F(errors, a_pipeline_recovers_from_a_failure) {
    int attempts = 0;
    auto safe = retry(3, [&] { return risky(++attempts == 3); })  // tried up to three times
                    .or_else([](std::exception_ptr) { return value(0.f); });
    EXPECT_EQ(sync(std::move(safe), pool), 1);
    EXPECT_EQ(attempts, 3);
    auto limited = timeout(risky(true), 1h).or_else([](std::exception_ptr failure) {
        try {
            std::rethrow_exception(failure);
        } catch (const error& late) {
            if (late.code() != errc::timed_out) throw;
        }
        return value(-1.f);
    });
    EXPECT_EQ(sync(std::move(limited), pool), 1);
}

}  // namespace sluice::docs::errors_tests
