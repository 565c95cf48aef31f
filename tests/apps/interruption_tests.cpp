// SPDX-License-Identifier: Apache-2.0
// `sluice run` when a signal interrupts it.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <optional>
#include <thread>

#include "apps/support/sample_files.hpp"
#include "apps/support/subprocess.hpp"
#include "sluice/error_report.hpp"

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

// What one call of the system writes to standard error while `write` runs: each call is one packet of a socket.
template <class F>
std::vector<std::string> packets_on_standard_error(F write) {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_DGRAM, 0, ends), 0);
    const int before = ::dup(STDERR_FILENO);
    ::dup2(ends[1], STDERR_FILENO);
    write();
    ::dup2(before, STDERR_FILENO);
    std::vector<std::string> packets;
    std::string packet(1 << 16, '\0');
    for (;;) {
        const ssize_t bytes = ::recv(ends[0], packet.data(), packet.size(), MSG_DONTWAIT);
        if (bytes < 0) break;
        packets.push_back(packet.substr(0, static_cast<std::size_t>(bytes)));
    }
    for (const int each : {ends[0], ends[1], before}) ::close(each);
    return packets;
}

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

// Otherwise a line of --progress comes between its parts.
TEST(errors_of_handlers, are_written_by_one_call) {
    const std::string file = "/a \"file\" with \\ in its name";
    const auto write = [&] { write_error_from_handler(file, ": the file became shorter", bad_input); };
    const std::string message = file + ": the file became shorter";
    EXPECT_THAT(packets_on_standard_error(write), ElementsAre(error_line(message, bad_input)));
    report_errors_as_json(true);
    const std::string line = error_line(message, bad_input);
    const std::vector<std::string> packets = packets_on_standard_error(write);
    report_errors_as_json(false);
    EXPECT_THAT(packets, ElementsAre(line));
}

TEST(errors_of_handlers, lose_nothing_of_a_long_message) {
    const std::string message(20'000, 'x');
    std::string all;
    for (const auto& each : packets_on_standard_error([&] { write_error_from_handler(message, "", failed); }))
        all += each;
    EXPECT_EQ(all, error_line(message, failed));
}

}  // namespace sluice::app::testing::interruption_tests
