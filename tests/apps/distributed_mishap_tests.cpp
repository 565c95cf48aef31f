// SPDX-License-Identifier: Apache-2.0
// `mpirun -n N sluice run --distributed` of which a process hangs, dies or is interrupted: the job ends, and leaves no
// file.
#include <gmock/gmock.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <optional>
#include <thread>

#include "apps/support/ranks.hpp"
#include "apps/support/sample_files.hpp"

namespace sluice::app::testing::distributed_mishap_tests {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class distributed_mishap : public ::testing::Test {
protected:
    static constexpr std::size_t rows = std::size_t{1} << 24;

    // A run that takes far longer than the test, once all of its ranks write rows.
    void start(int size, const std::vector<std::string>& more = {}) {
        // 4 GiB of zeros that take no room on the disk.
        const std::string input = write_sparse_array(inputs_, "zeros.npy", rows, digits_files::inputs);
        rank_arguments arguments{digits().model, input, "--device", "cpu",
                                 "--batch",      "1",   "--output", directory_ / "out.npy"};
        arguments.insert(arguments.end(), more.begin(), more.end());
        job_.emplace(size, arguments);
        while (!all_write_rows(static_cast<std::size_t>(size))) {
            if (job_->has_ended()) {
                ADD_FAILURE() << "it ended too early: " << job_->wait();
                return;
            }
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
    }
    outcome end() {
        const outcome came = job_->wait();
        EXPECT_NE(came.exit_code, 0) << came;
        EXPECT_EQ(came.out, "") << came;
        EXPECT_EQ(directory_.entries(), 0) << came;
        return came;
    }

    temporary_directory inputs_;
    temporary_directory directory_;
    std::optional<ranks> job_;

private:
    // Whether there are outputs in the first rows of each rank's range: the network's answer to zeros is not zero.
    bool all_write_rows(std::size_t size) const {
        for (const auto& entry : std::filesystem::directory_iterator(directory_.path())) {
            std::ifstream stream(entry.path(), std::ios::binary);
            for (std::size_t rank = 0; rank < size; ++rank) {
                std::string start(512, '\0');
                stream.seekg(static_cast<std::streamoff>(4096 + rows / size * rank * digits_files::outputs * 4));
                stream.read(start.data(), static_cast<std::streamsize>(start.size()));
                if (std::all_of(start.begin(), start.end(), [](char byte) { return byte == '\0'; })) return false;
            }
            return true;
        }
        return false;
    }
};

class distributed_mishap_of : public distributed_mishap, public ::testing::WithParamInterface<int> {};

INSTANTIATE_TEST_SUITE_P(, distributed_mishap_of, ::testing::Values(0, 1, 3),
                         [](const auto& instance) { return "rank_" + std::to_string(instance.param); });

}  // namespace

TEST_P(distributed_mishap_of, a_rank_that_hangs_is_found) {
    start(4, {"--rank-timeout", "3"});
    ASSERT_FALSE(HasFailure());
    const auto stopped = std::chrono::steady_clock::now();
    job_->send_to(GetParam(), SIGSTOP);
    const outcome came = end();
    EXPECT_EQ(came.exit_code, 1) << came;
    EXPECT_THAT(came.err, AllOf(HasSubstr("sluice: rank " + std::to_string(GetParam()) + " on "),
                                HasSubstr(" gave no sign of life for 3 s (--rank-timeout)")));
    EXPECT_LT(std::chrono::steady_clock::now() - stopped, std::chrono::seconds(20));
}

TEST_P(distributed_mishap_of, a_rank_that_is_killed_ends_the_job) {
    start(4);
    ASSERT_FALSE(HasFailure());
    job_->send_to(GetParam(), SIGKILL);
    // Its starter says which it was.
    EXPECT_THAT(end().err, AllOf(HasSubstr("rank " + std::to_string(GetParam())), HasSubstr("signal 9")));
}

TEST_P(distributed_mishap_of, a_signal_to_a_rank_ends_the_job) {
    start(4);
    ASSERT_FALSE(HasFailure());
    job_->send_to(GetParam(), SIGTERM);
    const outcome came = end();
    EXPECT_EQ(came.exit_code, 130) << came;
    EXPECT_THAT(came.err, HasSubstr("interrupted"));
}

TEST_F(distributed_mishap, interrupting_mpirun_ends_the_job) {
    for (const int signal : {SIGINT, SIGTERM}) {
        start(2);
        ASSERT_FALSE(HasFailure());
        job_->send(signal);
        end();
    }
}

TEST_F(distributed_mishap, a_rank_that_hangs_as_it_starts_is_found) {
    // One that never becomes a rank.
    job_.emplace(std::vector<command_line>{
        rank_command({digits().model, digits().input, "--rank-timeout", "2", "--output", directory_ / "out.npy"}),
        {{"sleep", "100"}}});
    const outcome came = end();
    EXPECT_EQ(came.exit_code, 1) << came;
    EXPECT_THAT(came.err, HasSubstr("sluice: a rank did not start or end within the time limit (--rank-timeout)"));
}

TEST_F(distributed_mishap, an_input_that_becomes_shorter_is_named) {
    start(2);
    ASSERT_FALSE(HasFailure());
    std::filesystem::resize_file(inputs_ / "zeros.npy", 4096);
    const outcome came = end();
    EXPECT_EQ(came.exit_code, 2) << came;
    EXPECT_THAT(came.err, HasSubstr("zeros.npy: the file became shorter while it was read"));
}

TEST_F(distributed_mishap, leaves_an_earlier_output_alone) {
    start(2);
    ASSERT_FALSE(HasFailure());
    directory_.write("out.npy", "an earlier output");
    job_->send_to(1, SIGKILL);
    EXPECT_NE(job_->wait().exit_code, 0);
    EXPECT_THAT(snapshot(directory_), ::testing::ElementsAre(std::pair("out.npy", "an earlier output")));
}

TEST_F(distributed_mishap, a_job_that_was_stopped_as_a_whole_continues) {
    const auto input = write_sparse_array(inputs_, "zeros.npy", 3'000'000, digits_files::inputs);
    job_.emplace(2, rank_arguments{digits().model, input, "--device", "cpu", "--batch", "16", "--output",
                                   directory_ / "out.npy", "--rank-timeout", "2"});
    // A job that ends before it writes is reported below.
    for (int waits = 0; directory_.entries() == 0 && waits < 30'000; ++waits)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    for (const int rank : {0, 1}) job_->send_to(rank, SIGSTOP);
    std::this_thread::sleep_for(std::chrono::seconds(4));  // longer than a rank may be silent
    for (const int rank : {0, 1}) job_->send_to(rank, SIGCONT);
    const outcome came = job_->wait();
    EXPECT_EQ(came.exit_code, 0) << came;
    EXPECT_TRUE(std::filesystem::exists(directory_ / "out.npy"));
}

}  // namespace sluice::app::testing::distributed_mishap_tests
