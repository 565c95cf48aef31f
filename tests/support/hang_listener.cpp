// SPDX-License-Identifier: Apache-2.0
// Linked into each executable of GoogleTest tests: a test that does not get further is named, and ends the process.
#include <gtest/gtest.h>

#include <string>

#include "support/hang_watch.h"

namespace {

class hang_listener : public testing::EmptyTestEventListener {
    void OnTestStart(const testing::TestInfo& test) override {
        name_ = std::string(test.test_suite_name()) + "." + test.name();
        sluice_watch_test(name_.c_str());
    }
    void OnTestPartResult(const testing::TestPartResult&) override { sluice_watch_test(name_.c_str()); }
    void OnTestEnd(const testing::TestInfo&) override { sluice_end_watch(); }

    std::string name_;
};

// GoogleTest deletes it.
[[maybe_unused]] const bool is_listening =
    (testing::UnitTest::GetInstance()->listeners().Append(new hang_listener), true);

}  // namespace
