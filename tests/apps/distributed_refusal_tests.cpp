// SPDX-License-Identifier: Apache-2.0
// `mpirun -n N sluice run --distributed` where one rank fails: its error, the same exit status as `sluice run` has, and
// nothing else anywhere.
#include <gmock/gmock.h>

#include "apps/support/ranks.hpp"
#include "apps/support/sample_files.hpp"
#include "io/support/file_size_limit.hpp"
#include "io/support/hostile_files.hpp"

namespace sluice::app::testing::distributed_refusal_tests {
namespace {

using io::testing::read_file;
using ::testing::HasSubstr;

std::size_t count_of(const std::string& word, const std::string& in) {
    std::size_t found = 0;
    for (std::size_t at = in.find(word); at != std::string::npos; at = in.find(word, at + 1)) ++found;
    return found;
}

class distributed_refuses : public ::testing::Test {
protected:
    void expect_refused(const outcome& came, const std::vector<std::string>& words, int exit_code = 2) {
        EXPECT_EQ(came.exit_code, exit_code) << came;
        EXPECT_EQ(came.out, "");
        for (const std::string& word : words) EXPECT_THAT(came.err, HasSubstr(word));
        EXPECT_EQ(count_of("sluice: ", came.err), 1u) << came;
        EXPECT_EQ(snapshot(target), before) << came;
    }
    std::vector<std::string> usual(const std::string& input = digits().input) const {
        return {digits().model, input, "--device", "cpu", "--batch", "64", "--output", target / "out.npy"};
    }
    std::vector<std::string> usual_with(const std::vector<std::string>& more) const {
        std::vector<std::string> all = usual();
        all.insert(all.end(), more.begin(), more.end());
        return all;
    }

    // A rank with a limit of its own.
    static command_line limited(const std::string& limit, const rank_arguments& arguments) {
        command_line command{{"prlimit", limit}};
        const command_line rank = rank_command(arguments);
        command.words.insert(command.words.end(), rank.words.begin(), rank.words.end());
        return command;
    }

    temporary_directory directory;
    const temporary_directory target;
    const std::string earlier = target.write("out.npy", "an earlier output");
    const std::map<std::string, std::string> before = snapshot(target);
};

}  // namespace

TEST_F(distributed_refuses, a_network_that_rank_0_cannot_read) {
    std::vector<std::string> arguments = usual();
    arguments[0] = directory / "absent";
    expect_refused(run_ranks(3, arguments), {"rank 0 on ", "absent: open: No such file"});
    arguments[0] = directory.write("cut", read_file(digits().model).substr(0, 1000));
    expect_refused(run_ranks(3, arguments), {"rank 0 on ", "at byte ", "data_offsets"});
}

TEST_F(distributed_refuses, an_input_that_one_rank_cannot_read) {
    expect_refused(run_ranks({usual(), usual(), usual(directory / "absent.npy")}),
                   {"rank 2 on ", "absent.npy: open: No such file"});
    const auto cut = directory.write("cut.npy", read_file(digits().input).substr(0, 5000));
    expect_refused(run_ranks({usual(), usual(cut)}), {"rank 1 on ", cut, "truncated"});
}

TEST_F(distributed_refuses, an_input_that_differs_on_one_rank) {
    const auto shorter = write_array(directory, "shorter.npy", {449, 64}, std::vector<float>(449 * 64));
    expect_refused(run_ranks({usual(), usual(shorter)}), {"rank 1 on ", "rows of the input: 449 here, 450 on rank 0"});
}

TEST_F(distributed_refuses, other_options_on_one_rank) {
    std::vector<std::string> other = usual();
    other[5] = "65";
    expect_refused(run_ranks({usual(), other}), {"rank 1 on ", "--batch: 65 here, 64 on rank 0"});
    expect_refused(run_ranks({usual(), usual_with({"--labels", digits().labels})}),
                   {"rank 1 on ", "--labels: given here, not given on rank 0"});
    const auto with_tolerance = [&](const std::string& tolerance) {
        return usual_with({"--reference", digits().reference, "--tolerance", tolerance});
    };
    expect_refused(run_ranks({with_tolerance("0.5"), with_tolerance("0.25")}),
                   {"rank 1 on ", "--tolerance: 0.25 here, 0.5 on rank 0"});
    expect_refused(run_ranks({with_tolerance("0.5"), usual_with({"--reference", digits().reference})}),
                   {"rank 1 on ", "--tolerance: not given here, 0.5 on rank 0"});
}

TEST_F(distributed_refuses, labels_that_are_no_classes_in_the_last_range) {
    std::vector<std::int64_t> labels(450);
    labels[449] = 10;
    const auto file = write_array(directory, "labels.npy", {450}, labels);
    expect_refused(run_ranks(4, usual_with({"--labels", file})),
                   {"rank 3 on ", file, "label of row 449 is not a class from 0 to 9"});
}

TEST_F(distributed_refuses, outputs_that_cannot_be_created) {
    for (const std::string& output : {std::string(directory / "absent/out.npy"), directory.path().string()}) {
        std::vector<std::string> arguments = usual();
        arguments.back() = output;
        expect_refused(run_ranks(2, arguments), {"rank 0 on ", output});
    }
    EXPECT_EQ(directory.entries(), 0);
}

TEST_F(distributed_refuses, outputs_for_which_there_is_no_room) {
    // 80 MB of outputs. The limit leaves room for the memory that an MPI shares in files.
    const auto input = write_sparse_array(directory, "zeros.npy", 2'000'000, digits_files::inputs);
    outcome came;
    {
        const io::testing::file_size_limit limit(std::size_t{64} << 20);
        came = run_ranks(2, usual(input));
    }
    expect_refused(came, {"rank 0 on ", "out.npy", "File too large"}, 1);
}

TEST_F(distributed_refuses, outputs_for_which_one_rank_finds_no_room) {
    const auto input = write_sparse_array(directory, "zeros.npy", 2'000'000, digits_files::inputs);
    expect_refused(ranks({rank_command(usual(input)), limited("--fsize=67108864", usual(input))}).wait(),
                   {"rank 1 on ", "out.npy", "at byte ", "write: File too large"}, 1);
}

TEST_F(distributed_refuses, an_input_for_which_one_rank_has_no_memory) {
    const std::size_t rows = std::size_t{16} << 20;  // 4 GiB to map
    const auto input = write_sparse_array(directory, "zeros.npy", rows, digits_files::inputs);
    expect_refused(ranks({rank_command(usual(input)), limited("--as=4294967296", usual(input))}).wait(),
                   {"rank 1 on ", input, "map: Cannot allocate memory"});
}

TEST_F(distributed_refuses, a_device_that_is_not_there) {
    std::vector<std::string> other = usual();
    other[3] = "cpu:9";
    expect_refused(run_ranks({usual(), other}), {"rank 1 on ", "no device 'cpu:9'"});
    expect_refused(run_ranks(2, other), {"no device 'cpu:9'"});  // all of them fail, one is reported
}

TEST_F(distributed_refuses, to_measure) {
    expect_refused(run_ranks(2, usual_with({"--measure", "0.1"})),
                   {"rank 0 on ", "--measure", "without --distributed"});
}

TEST_F(distributed_refuses, traces_and_timelines) {
    for (const char* option : {"--trace", "--timeline"}) {
        expect_refused(run_ranks(2, usual_with({option, target / "trace"})), {"rank 0 on ", "without --distributed"});
    }
}

TEST_F(distributed_refuses, a_time_limit_that_makes_no_sense) {
    for (const char* limit : {"0", "-1", "soon"}) {
        const outcome came = run_tool({"run", "--distributed", "--rank-timeout", limit, digits().model, "i"});
        EXPECT_EQ(came.exit_code, 2) << came;
        EXPECT_THAT(came.err, HasSubstr("--rank-timeout"));
    }
    const outcome came = run_tool({"run", "--rank-timeout", "5", digits().model, "i"});
    EXPECT_EQ(came.exit_code, 2) << came;
    EXPECT_THAT(came.err, HasSubstr("--distributed"));
}

TEST_F(distributed_refuses, names_no_rank_where_there_is_one) {
    const outcome came = run_alone({directory / "absent", digits().input});
    EXPECT_EQ(came.exit_code, 2);
    EXPECT_EQ(came.err, "sluice: " + std::string(directory / "absent") + ": open: No such file or directory\n");
}

}  // namespace sluice::app::testing::distributed_refusal_tests
