// SPDX-License-Identifier: Apache-2.0
// `sluice run` where the system does not bring the output to the disk.
#include "io/support/sync_failure.hpp"

#include <gmock/gmock.h>

#include <cerrno>
#include <optional>

#include "apps/support/sample_files.hpp"
#include "sluice/exit_status.hpp"
#include "sluice/network_file.hpp"
#include "sluice/row_network.hpp"
#include "sluice/run_command.hpp"

namespace sluice::app::testing::sync_failure_tests {
namespace {

using io::testing::sync_failure;
using io::testing::synced;
using ::testing::AllOf;
using ::testing::HasSubstr;

struct report {
    exit_status status;
    std::string message;
};

class tool_sync_failures : public ::testing::Test {
protected:
    // What the tool reports; empty when the run succeeds.
    std::optional<report> run() const {
        run_options options;
        options.model = digits().model;
        options.input = digits().input;
        options.device = "cpu";
        options.output = output;
        try {
            static_cast<void>(app::run(options, *by_rows(load_model(options.model, {}))));
        } catch (const std::exception& failure) {
            return report{status_of(failure), message_of(failure)};
        }
        return std::nullopt;
    }

    const temporary_directory directory;
    const std::string output = directory / "out.npy";
};

}  // namespace

TEST_F(tool_sync_failures, of_the_directory_are_the_systems_and_say_that_the_output_has_its_place) {
    std::optional<report> came;
    {
        const sync_failure here(synced::directories, EIO);
        came = run();
    }
    ASSERT_TRUE(came);
    EXPECT_EQ(came->status, failed);
    EXPECT_THAT(came->message, AllOf(HasSubstr(output), HasSubstr("in which the file now has its place"),
                                     HasSubstr("Input/output error")));
    EXPECT_EQ(read_array(output).size(), digits_files::rows * digits_files::outputs);
    EXPECT_EQ(directory.entries(), 1);
    // The text of --help does not contradict it.
    EXPECT_THAT(std::string(exit_status_help), HasSubstr("no output is written unless the message says that it is"));
}

TEST_F(tool_sync_failures, of_the_file_are_the_systems_and_leave_no_output) {
    std::optional<report> came;
    {
        const sync_failure here(synced::files, EIO);
        came = run();
    }
    ASSERT_TRUE(came);
    EXPECT_EQ(came->status, failed);
    EXPECT_THAT(came->message, AllOf(HasSubstr(output), HasSubstr("Input/output error")));
    EXPECT_EQ(directory.entries(), 0);
}

TEST_F(tool_sync_failures, that_do_not_come_let_the_run_succeed) {
    EXPECT_FALSE(run());
    EXPECT_EQ(read_array(output).size(), digits_files::rows * digits_files::outputs);
}

}  // namespace sluice::app::testing::sync_failure_tests
