// SPDX-License-Identifier: Apache-2.0
// `sluice run` when a signal interrupts it.
#include <gmock/gmock.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <optional>
#include <thread>

#include "apps/support/sample_files.hpp"
#include "apps/support/subprocess.hpp"

namespace sluice::app::testing::interruption_tests {
namespace {

using ::testing::ElementsAre;

// The name that the output has while it is written.
std::optional<std::filesystem::path> temporary_output(const temporary_directory& directory) {
    for (const auto& entry : std::filesystem::directory_iterator(directory.path())) {
        if (entry.path().extension() == ".tmp") return entry.path();
    }
    return std::nullopt;
}

// Whether outputs were written: the network's answer to zeros is not zero.
bool has_rows(const std::filesystem::path& file) {
    std::ifstream stream(file, std::ios::binary);
    std::string start(512, '\0');
    stream.seekg(4096);
    stream.read(start.data(), static_cast<std::streamsize>(start.size()));
    return std::any_of(start.begin(), start.end(), [](char byte) { return byte != '\0'; });
}

class tool_interrupted : public ::testing::TestWithParam<int> {
protected:
    // A run that takes far longer than the test, once it writes rows.
    void start() {
        // 16 GiB of zeros that take no room on the disk.
        const std::string input = write_sparse_array(inputs_, "zeros.npy", std::size_t{1} << 26, digits_files::inputs);
        run_.emplace(std::vector<std::string>{"run", digits().model, input, "--device", "cpu", "--batch", "64",
                                              "--output", directory_ / "out.npy"});
        for (;;) {
            const auto temporary = temporary_output(directory_);
            if (temporary && has_rows(*temporary)) return;
            if (run_->has_ended()) {
                ADD_FAILURE() << "it ended too early: " << run_->wait();
                return;
            }
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
    }
    void interrupt() {
        ASSERT_FALSE(HasFailure());
        run_->send(GetParam());
        const outcome came = run_->wait();
        EXPECT_EQ(came.exit_code, 130) << came;
        EXPECT_EQ(came.out, "");
        EXPECT_EQ(came.err, "sluice: interrupted\n");
    }

    temporary_directory inputs_;
    temporary_directory directory_;
    std::optional<tool_process> run_;
};

INSTANTIATE_TEST_SUITE_P(, tool_interrupted, ::testing::Values(SIGINT, SIGTERM),
                         [](const auto& instance) { return instance.param == SIGINT ? "by_SIGINT" : "by_SIGTERM"; });

}  // namespace

TEST_P(tool_interrupted, leaves_no_file) {
    start();
    interrupt();
    EXPECT_EQ(directory_.entries(), 0);
}

TEST_P(tool_interrupted, leaves_an_earlier_output_alone) {
    directory_.write("out.npy", "an earlier output");
    start();
    EXPECT_EQ(directory_.entries(), 2);
    interrupt();
    EXPECT_THAT(snapshot(directory_), ElementsAre(std::pair("out.npy", "an earlier output")));
}

}  // namespace sluice::app::testing::interruption_tests
