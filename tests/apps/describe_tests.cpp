// SPDX-License-Identifier: Apache-2.0
// `sluice devices` and `sluice inspect`.
#include "sluice/describe.hpp"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "apps/support/sample_files.hpp"
#include "apps/support/subprocess.hpp"
#include "sluice/runtime/runtime.hpp"

namespace sluice::app::testing::describe_tests {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::string devices_of(const runtime& machine, bool as_json) {
    std::ostringstream out;
    describe_devices(machine, as_json, out);
    return out.str();
}

}  // namespace

TEST(tool_devices, as_json_name_each_device_with_its_memory) {
    const outcome came = run_tool({"devices", "--json"});
    ASSERT_EQ(came.exit_code, 0) << came;
    EXPECT_EQ(came.err, "");
    const json report = json::parse(came.out);
    ASSERT_FALSE(report["devices"].empty());
    bool has_cpu = false, has_gpu = false;
    for (const json& each : report["devices"]) {
        const auto name = each["device"].get<std::string>();
        has_cpu = has_cpu || name == "cpu:0";
        has_gpu = has_gpu || name.starts_with("cuda:");
        EXPECT_NE(each["name"].get<std::string>(), "");
        EXPECT_GT(each["compute_units"].get<int>(), 0);
        EXPECT_GT(each["memory_bytes"].get<std::size_t>(), 0u);
        EXPECT_LE(each["free_bytes"].get<std::size_t>(), each["memory_bytes"].get<std::size_t>());
        EXPECT_GE(each["max_threads_per_block"].get<int>(), each["warp_size"].get<int>());
        EXPECT_GE(each["warp_size"].get<int>(), 1);
        EXPECT_GE(each["max_shared_bytes_per_block"].get<std::size_t>(), name.starts_with("cuda:") ? 1u : 0u);
        EXPECT_TRUE(each["concurrent_kernels"].is_boolean());
        EXPECT_GE(each["async_copy_engines"].get<int>(), 0);
        EXPECT_LE(each["highest_priority"].get<int>(), each["lowest_priority"].get<int>());
    }
    EXPECT_TRUE(has_cpu);
    EXPECT_EQ(report["why_no_gpu"].get<std::string>().empty(), has_gpu);
}

TEST(tool_devices, as_text_are_a_table) {
    const outcome came = run_tool({"devices"});
    EXPECT_EQ(came.exit_code, 0) << came;
    EXPECT_THAT(came.out, AllOf(HasSubstr("device"), HasSubstr("cpu:0"), HasSubstr("GiB")));
}

TEST(tool_devices, lists_every_virtual_device_and_its_limit) {
    const runtime machine({.cpu_devices = 3, .cpu_memory_bytes = std::size_t{1} << 20, .cuda = false});
    const json report = json::parse(devices_of(machine, true));
    ASSERT_EQ(report["devices"].size(), 3u);
    for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(report["devices"][i]["device"], "cpu:" + std::to_string(i));
        EXPECT_EQ(report["devices"][i]["memory_bytes"], std::size_t{1} << 20);
    }
    EXPECT_THAT(devices_of(machine, false), HasSubstr("no GPU: " + std::string(machine.why_no_gpu())));
    EXPECT_THAT(devices_of(machine, false), AllOf(HasSubstr("threads per block"), HasSubstr("any")));
}

TEST(tool_inspect, as_json_holds_the_nodes_of_a_perceptron) {
    const outcome came = run_tool({"inspect", digits().model, "--json"});
    ASSERT_EQ(came.exit_code, 0) << came;
    const json report = json::parse(came.out);
    EXPECT_EQ(report["model"], digits().model);
    EXPECT_EQ(report["parameters"], 17'226);
    EXPECT_EQ(report["inputs"][0]["name"], "input");
    EXPECT_EQ(report["outputs"][0]["name"], "output");
    EXPECT_EQ(report["runs"], true);
    std::string operators;
    for (const json& each : report["nodes"]) operators += each["operator"].get<std::string>() + " ";
    EXPECT_EQ(operators, "Gemm Relu Gemm Relu Gemm ");
}

TEST(tool_inspect, as_text_names_the_network_and_its_nodes) {
    const outcome came = run_tool({"inspect", digits().model});
    EXPECT_EQ(came.exit_code, 0) << came;
    EXPECT_THAT(came.out, HasSubstr(digits().model + ": 5 nodes, 17226 parameters"));
    EXPECT_THAT(came.out, AllOf(HasSubstr("input input: f32 [batch, 64]"), HasSubstr("output output: f32 [batch, 10]"),
                                HasSubstr("Relu"), HasSubstr("weight 3")));
}

TEST(tool_inspect, refuses_what_is_no_network) {
    for (const std::string& file : {digits().input, std::string("/no/such/file")}) {
        const outcome came = run_tool({"inspect", file});
        EXPECT_EQ(came.exit_code, 2) << came;
        EXPECT_EQ(came.out, "");
        EXPECT_THAT(came.err, HasSubstr(file));
    }
}

}  // namespace sluice::app::testing::describe_tests
