// SPDX-License-Identifier: Apache-2.0
// `mpirun -n N sluice run --distributed` where all is well.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <set>

#include "apps/support/ranks.hpp"
#include "apps/support/sample_files.hpp"
#include "io/support/hostile_files.hpp"

namespace sluice::app::testing::distributed_run_tests {
namespace {

using io::testing::read_file;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

class distributed_run : public ::testing::Test {
protected:
    // The report of this number of ranks with these arguments.
    static json run(int size, rank_arguments arguments) {
        arguments.push_back("--json");
        const outcome came = run_ranks(size, arguments);
        EXPECT_EQ(came.exit_code, 0) << came;
        EXPECT_EQ(std::count(came.out.begin(), came.out.end(), '\n'), 1) << came;
        return came.exit_code == 0 ? json::parse(came.out) : json();
    }
    // What `sluice run` writes for these arguments is what each number of ranks writes.
    void expect_the_same(const rank_arguments& arguments, const std::vector<int>& sizes) {
        const std::string plain = directory / "plain.npy", shared = directory / "shared.npy";
        rank_arguments all{"run"};
        all.insert(all.end(), arguments.begin(), arguments.end());
        all.insert(all.end(), {"--output", plain});
        const outcome came = run_tool(all);
        ASSERT_EQ(came.exit_code, 0) << came;
        for (const int size : sizes) {
            std::filesystem::remove(shared);
            rank_arguments with_output = arguments;
            with_output.insert(with_output.end(), {"--output", shared});
            const json report = run(size, with_output);
            EXPECT_EQ(report["ranks"].size(), static_cast<std::size_t>(size));
            EXPECT_TRUE(read_file(shared) == read_file(plain)) << size << " ranks";
            EXPECT_EQ(left_over(), 0);
        }
    }
    int left_over() const {
        int found = 0;
        for (const auto& each : std::filesystem::directory_iterator(directory.path())) {
            found += each.path().extension() == ".tmp" ? 1 : 0;
        }
        return found;
    }

    temporary_directory directory;
};

}  // namespace

TEST_F(distributed_run, writes_the_same_bytes_for_any_number_of_ranks) {
    expect_the_same({digits().model, digits().input, "--device", "cpu", "--batch", "64"}, {1, 2, 4});
}

TEST_F(distributed_run, writes_the_same_bytes_with_more_ranks_than_batches) {
    expect_the_same({digits().model, digits().input, "--device", "cpu", "--batch", "300"}, {4});
    const auto three = write_array(directory, "three.npy", {3, 64}, quarters(3 * 64));
    expect_the_same({digits().model, three, "--device", "cpu", "--batch", "1"}, {4});
    expect_the_same({digits().model, three, "--device", "cpu"}, {2});
}

TEST_F(distributed_run, writes_the_same_bytes_for_inputs_of_other_types) {
    std::vector<std::uint16_t> half;
    for (const float each : quarters(90 * 64)) half.push_back(f16_bits(each));
    const auto input = write_array(directory, "half.npy", {90, 64}, half, io::dtype::f16);
    expect_the_same({digits().model, input, "--device", "cpu", "--batch", "7"}, {3});
}

TEST_F(distributed_run, broadcasts_networks_of_many_pieces) {
    // 25 MB of weights, without biases in between that would end a piece.
    const auto model = write_model(directory, "large", {2500, 2500, 3});
    const auto input = write_array(directory, "input.npy", {8, 2500}, quarters(8 * 2500));
    expect_the_same({model, input, "--device", "cpu", "--batch", "3"}, {3});
}

// Rank 0 says what the network is, also where its file does not.
TEST_F(distributed_run, computes_the_network_of_rank_0_on_all_ranks) {
    std::string bytes = read_file(write_model(directory, "with_metadata", {8, 8, 3}));
    const std::string metadata = R"("__metadata__":{"activation":"relu"},)";
    ASSERT_NE(bytes.find(metadata), std::string::npos);
    bytes.replace(bytes.find(metadata), metadata.size(), metadata.size(), ' ');
    const std::string model = directory.write("net.safetensors", bytes), plain = directory / "plain.npy";
    const auto input = write_array(directory, "input.npy", {40, 8}, quarters(40 * 8));
    const rank_arguments first{
        model, input, "--device", "cpu", "--batch", "5", "--output", directory / "ranks.npy", "--activation", "tanh"};
    rank_arguments alone{"run"};
    alone.insert(alone.end(), first.begin(), first.end());
    alone[8] = plain;
    ASSERT_EQ(run_tool(alone).exit_code, 0);
    rank_arguments other = first;
    other.back() = "relu";
    const outcome came = run_ranks({first, other, rank_arguments(first.begin(), first.end() - 2)});
    EXPECT_EQ(came.exit_code, 0) << came;
    EXPECT_TRUE(read_file(directory / "ranks.npy") == read_file(plain));
}

TEST_F(distributed_run, reports_what_one_process_reports) {
    const rank_arguments arguments{digits().model,     digits().input, "--labels", digits().labels, "--reference",
                                   digits().reference, "--device",     "cpu",      "--batch",       "32"};
    rank_arguments plain{"run", "--json"};
    plain.insert(plain.end(), arguments.begin(), arguments.end());
    const json expected = json::parse(run_tool(plain).out);
    for (const int size : {2, 4}) {
        const json report = run(size, arguments);
        for (const char* same : {"model", "input", "rows", "outputs", "batch", "accuracy", "largest_difference"}) {
            EXPECT_EQ(report[same], expected[same]) << same;
        }
        EXPECT_GT(report["seconds"].get<double>(), 0);
        EXPECT_EQ(report["rows_per_second"].is_null(), report["seconds"].get<double>() < 0.1) << report;
        EXPECT_EQ(report["devices"].size(), static_cast<std::size_t>(size));
        ASSERT_EQ(report["ranks"].size(), static_cast<std::size_t>(size));
        std::size_t rows = 0;
        for (const json& each : report["ranks"]) {
            EXPECT_EQ(each["host"], report["ranks"][0]["host"]);
            EXPECT_EQ(each["devices"][0]["device"], "cpu:0");
            EXPECT_GT(each["streams"].get<int>(), 0);
            rows += each["rows"].get<std::size_t>();
        }
        EXPECT_EQ(rows, digits_files::rows);
    }
}

TEST_F(distributed_run, as_text_is_written_once_and_names_every_rank) {
    const outcome came = run_ranks(2, {digits().model, digits().input, "--labels", digits().labels, "--reference",
                                       digits().reference, "--device", "cpu", "--batch", "100"});
    ASSERT_EQ(came.exit_code, 0) << came;
    EXPECT_THAT(came.out,
                AllOf(HasSubstr("ranks               2\ndevice              rank 0 on "), HasSubstr("rank 1 on "),
                      HasSubstr("accuracy            0.9867 (444 of 450)\n"), HasSubstr("largest difference  ")));
    EXPECT_EQ(came.out.find("throughput"), came.out.rfind("throughput"));
}

TEST_F(distributed_run, finds_the_one_output_that_differs_on_any_rank) {
    for (const std::size_t place : {0, 4499}) {
        std::vector<float> wrong = read_array(digits().reference);
        wrong[place] += 3;
        const auto reference = write_array(directory, "reference", {450, 10}, wrong);
        EXPECT_NEAR(run(2, {digits().model, digits().input, "--device", "cpu", "--batch", "64", "--reference",
                            reference})["largest_difference"]
                        .get<double>(),
                    3, 1e-3);
        wrong[place] = std::numeric_limits<float>::quiet_NaN();
        write_array(directory, "reference", {450, 10}, wrong);
        EXPECT_TRUE(run(2, {digits().model, digits().input, "--device", "cpu", "--batch", "64", "--reference",
                            reference})["largest_difference"]
                        .is_null());
    }
}

TEST_F(distributed_run, that_misses_a_requirement_reports_it_and_writes_no_output) {
    const std::string output = directory.write("out.npy", "an earlier output");
    const outcome came = run_ranks(2, {digits().model, digits().input, "--device", "cpu", "--batch", "64",
                                       "--reference", digits().reference, "--tolerance", "1e-9", "--output", output});
    EXPECT_EQ(came.exit_code, 3) << came;
    EXPECT_THAT(came.out, HasSubstr(", at most 1e-09: missed\n"));
    EXPECT_THAT(came.err, HasSubstr("sluice: the largest difference from "));
    EXPECT_EQ(read_file(output), "an earlier output");
    EXPECT_EQ(left_over(), 0);
}

TEST_F(distributed_run, divides_the_cores) {
    const json report = run(4, {digits().model, digits().input, "--device", "cpu"});
    const json alone = json::parse(run_tool({"run", "--json", "--device", "cpu", digits().model, digits().input}).out);
    const auto all = alone["streams"].get<std::size_t>();  // 4 for each core
    EXPECT_EQ(report["streams"], std::max<std::size_t>(4, all / 4 / 4 * 4));
}

TEST_F(distributed_run, sums_the_progress_of_all_ranks) {
    const std::string input = write_sparse_array(directory, "zeros.npy", 1'000'000, digits_files::inputs);
    const outcome came = run_ranks(3, {digits().model, input, "--device", "cpu", "--batch", "64", "--progress"});
    ASSERT_EQ(came.exit_code, 0) << came;
    EXPECT_THAT(came.err, HasSubstr("1000000 of 1000000 rows, "));
}

TEST_F(distributed_run, takes_another_device_and_path_for_each_rank) {
    const auto elsewhere = directory.write("same.npy", read_file(digits().input));
    const std::string output = directory / "out.npy";
    const outcome came =
        run_ranks({{digits().model, digits().input, "--device", "cpu", "--batch", "90", "--output", output},
                   {"only/rank/0/reads/it", elsewhere, "--device", "cpu:0", "--streams", "1", "--batch", "90",
                    "--output", "any"}});
    ASSERT_EQ(came.exit_code, 0) << came;
    EXPECT_TRUE(std::filesystem::exists(output));
}

TEST_F(distributed_run, without_mpirun_is_a_job_of_one_rank) {
    const std::string output = directory / "out.npy";
    const outcome came = run_alone(
        {"--json", digits().model, digits().input, "--labels", digits().labels, "--device", "cpu", "--output", output});
    ASSERT_EQ(came.exit_code, 0) << came;
    const json report = json::parse(came.out);
    EXPECT_EQ(report["ranks"].size(), 1u);
    EXPECT_GE(report["accuracy"].get<double>(), 0.97);
    EXPECT_EQ(directory.entries(), 1);
}

TEST_F(distributed_run, replaces_an_earlier_output) {
    const auto output = directory.write("out.npy", "an earlier output");
    run(2, {digits().model, digits().input, "--device", "cpu", "--batch", "64", "--output", output});
    EXPECT_EQ(directory.entries(), 1);
    EXPECT_EQ(read_array(output).size(), digits_files::rows * digits_files::outputs);
}

}  // namespace sluice::app::testing::distributed_run_tests
