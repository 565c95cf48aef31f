// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "fuzz/read_config_pbtxt.hpp"
#include "fuzz/replay.hpp"
#include "io/support/temporary_directory.hpp"
#include "serve/support/fake_engine.hpp"
#include "sluice/base/file_error.hpp"
#include "sluice/serve/server.hpp"

namespace sluice::serve::config_pbtxt_tests {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

model_config parsed(const std::string& text) { return parse_model_config(text, "models/m/config.pbtxt"); }

std::string why_not(const std::string& text) {
    try {
        parsed(text);
    } catch (const file_error& failure) {
        EXPECT_THAT(failure.what(), HasSubstr("models/m/config.pbtxt"));
        return failure.what();
    }
    ADD_FAILURE() << "accepted: " << text;
    return {};
}

TEST(config_pbtxt, sets_what_means_something_here) {
    const model_config config = parsed(R"(
        name: "m"  # as the folder
        platform: "onnxruntime_onnx"
        backend: "onnxruntime"
        max_batch_size: 8
        default_model_filename: "net.onnx"
        input [ { name: "x" data_type: TYPE_FP32 dims: [ 3, -1 ] } ]
        output { name: "y" data_type: TYPE_INT64 dims: 2 }
        instance_group [ { count: 2 kind: KIND_GPU gpus: [ 0, 2 ] } ]
        version_policy: { specific: { versions: [ 1, 3 ] } }
        dynamic_batching {
          preferred_batch_size: [ 4, 8 ]
          max_queue_delay_microseconds: 100
          priority_levels: 2
          default_priority_level: 2
          default_queue_policy { timeout_action: DELAY default_timeout_microseconds: 500 max_queue_size: 5 }
          priority_queue_policy { key: 1 value { allow_timeout_override: true } }
        })");
    EXPECT_EQ(config.name, "m");
    EXPECT_EQ(config.model_file, "net.onnx");
    EXPECT_EQ(config.max_batch, 8U);
    EXPECT_THAT(config.preferred_batch_size, ElementsAre(4, 8));
    EXPECT_EQ(config.max_delay_us, 100U);
    EXPECT_EQ(config.priority_levels, 2U);
    EXPECT_EQ(config.default_priority, 2U);
    EXPECT_EQ(config.default_queue_policy.timeout_action, timeout_action::delay);
    EXPECT_EQ(config.default_queue_policy.timeout_us, 500U);
    EXPECT_EQ(config.default_queue_policy.queue, 5U);
    EXPECT_FALSE(config.default_queue_policy.allow_timeout_override);  // Triton's default
    EXPECT_TRUE(config.priority_queue_policy.at(1).allow_timeout_override);
    EXPECT_EQ(config.instances, 4U);
    EXPECT_THAT(config.devices, ElementsAre("cuda:0", "cuda:2"));
    EXPECT_EQ(config.versions, (std::vector<std::size_t>{1, 3}));
    ASSERT_EQ(config.inputs.all.size(), 1U);
    EXPECT_TRUE(config.inputs.has_rows);
    EXPECT_EQ(config.inputs.all[0].name, "x");
    EXPECT_EQ(config.inputs.all[0].type, io::dtype::f32);
    EXPECT_THAT(config.inputs.all[0].dims, ElementsAre(3, -1));
    EXPECT_EQ(config.outputs.all[0].type, io::dtype::i64);
}

TEST(config_pbtxt, joins_rows_only_with_dynamic_batching_and_a_batch_size) {
    EXPECT_EQ(parsed("").max_batch, 1U);
    EXPECT_EQ(parsed("max_batch_size: 0").max_batch, 1U);
    EXPECT_EQ(parsed("max_batch_size: 8").max_batch, 1U);
    EXPECT_EQ(parsed("max_batch_size: 8 dynamic_batching {}").max_batch, 8U);
    EXPECT_THAT(why_not("dynamic_batching {}"), HasSubstr("max_batch_size is 0"));
}

TEST(config_pbtxt, says_where_a_model_runs) {
    EXPECT_EQ(parsed("instance_group { kind: KIND_CPU count: 3 }").device, "cpu");
    EXPECT_EQ(parsed("instance_group { kind: KIND_CPU count: 3 }").instances, 3U);
    EXPECT_EQ(parsed("instance_group { kind: KIND_GPU }").device, "cuda");
    EXPECT_EQ(parsed("instance_group { count: 2 }").device, "");
    EXPECT_THAT(why_not("instance_group { kind: KIND_MODEL }"), HasSubstr("KIND_CPU"));
    EXPECT_THAT(why_not("instance_group {} instance_group {}"), HasSubstr("one group"));
}

TEST(config_pbtxt, refuses_other_fields_by_name_with_those_that_are_accepted) {
    EXPECT_THAT(why_not("name: \"m\"\noptimization { }"),
                AllOf(HasSubstr("line 2"), HasSubstr("\"optimization\""), HasSubstr("accepted are name, platform")));
    EXPECT_THAT(why_not("input { name: \"x\" reshape { shape: 1 } }"),
                AllOf(HasSubstr("\"reshape\""), HasSubstr("accepted are name, data_type, dims")));
    EXPECT_THAT(why_not("dynamic_batching { preserve_ordering: true }"), HasSubstr("preserve_ordering"));
    EXPECT_THAT(why_not("sequence_batching { }"), HasSubstr("sequence_batching"));
    EXPECT_THAT(why_not("platform: \"tensorrt_plan\""),
                AllOf(HasSubstr("'tensorrt_plan' does not run here"), HasSubstr("onnxruntime_onnx")));
    EXPECT_THAT(why_not("backend: \"python\""), HasSubstr("'python' does not run here"));
    EXPECT_THAT(why_not("version_policy { latest { num_versions: 2 } }"), HasSubstr("num_versions: 1"));
    EXPECT_THAT(why_not("model_transaction_policy { decoupled: true }"), HasSubstr("decoupled: false"));
    EXPECT_THAT(why_not("input { name: \"x\" data_type: TYPE_INVALID }"), HasSubstr("one of STRING, BOOL"));
    EXPECT_THAT(why_not("input { name: \"x\" data_type: TYPE_FP32 dims: -2 }"), HasSubstr("-1 for any length"));
    EXPECT_THAT(why_not("default_model_filename: \"../m.onnx\""), HasSubstr("default_model_filename"));
    EXPECT_THAT(why_not("default_model_filename: \"m.plan\""), HasSubstr("default_model_filename"));
    EXPECT_THAT(why_not("max_batch_size: 1 max_batch_size: 2"), HasSubstr("line 1"));
    EXPECT_THAT(why_not("max_batch_size: -1"), HasSubstr("max_batch_size"));
    EXPECT_THAT(why_not("{\"max_batch\": 1}"), HasSubstr("text format"));
}

// x [batch, 2] -> y.
class repository : public ::testing::Test {
protected:
    void write(const std::string& path, const std::string& text) {
        fs::create_directories((folder / path).parent_path());
        std::ofstream(folder / path) << text;
    }
    std::string why_not_loaded() {
        try {
            server(model_source::repository(folder / ""), engine).load_all();
        } catch (const error& failure) {
            return failure.what();
        }
        ADD_FAILURE() << "it is loaded";
        return {};
    }

    io::testing::temporary_directory folder;
    std::string loaded;
    testing::fake_engine engine{[this](const model_version& which) {
        loaded = which.file.filename();
        return std::make_shared<testing::fake_model>();
    }};
};

TEST_F(repository, has_one_configuration_for_a_model) {
    write("m/1/model.onnx", "x");
    write("m/config.pbtxt", "");
    write("m/config.json", "{}");
    EXPECT_THAT(why_not_loaded(), HasSubstr("there are both config.json and config.pbtxt"));
    fs::remove(folder / "m/config.json");
    write("m/config.pbtxt", "name: \"other\"");
    EXPECT_THAT(why_not_loaded(), HasSubstr("of a model 'other', in the folder of 'm'"));
}

TEST_F(repository, never_joins_rows_where_the_configuration_has_no_batches) {
    write("m/1/net.onnx", "x");
    write("m/config.pbtxt", R"(name: "m" max_batch_size: 0 default_model_filename: "net.onnx"
        input { name: "x" data_type: TYPE_FP32 dims: [ -1, 2 ] })");
    server all(model_source::repository(folder / ""), engine);
    all.load_all();
    EXPECT_EQ(loaded, "net.onnx");
    EXPECT_EQ(all.find("m")->max_batch(), 1U);
    write("m/config.pbtxt", R"(max_batch_size: 16 default_model_filename: "net.onnx" dynamic_batching {}
        input { name: "x" data_type: TYPE_FP32 dims: 2 } output { name: "y" data_type: TYPE_FP32 dims: 2 })");
    all.load("m");
    EXPECT_EQ(all.find("m")->max_batch(), 16U);
    fs::remove(folder / "m/1/net.onnx");
    EXPECT_THROW(all.load("m"), file_error);
}

TEST_F(repository, refuses_tensors_that_the_network_does_not_have) {
    write("m/1/model.onnx", "x");
    const auto why = [&](const std::string& text) {
        write("m/config.pbtxt", text);
        return why_not_loaded();
    };
    EXPECT_THAT(why(R"(input { name: "z" data_type: TYPE_FP32 dims: [ -1, 2 ] })"),
                AllOf(HasSubstr("input 'z'"), HasSubstr("it has 'x'")));
    EXPECT_THAT(why(R"(input { name: "x" data_type: TYPE_FP16 dims: [ -1, 2 ] })"),
                HasSubstr("says FP16, and the network has FP32"));
    EXPECT_THAT(why(R"(input { name: "x" data_type: TYPE_FP32 dims: [ -1, 3 ] })"),
                HasSubstr("dims [-1, 3], and the network has the shape [-1, 2]"));
    EXPECT_THAT(why(R"(max_batch_size: 4 input { name: "x" data_type: TYPE_FP32 dims: [ -1, 2 ] })"),
                HasSubstr("dims [-1, 2] after the first dimension"));
    EXPECT_THAT(why(R"(output { name: "x" data_type: TYPE_FP32 dims: [ -1, 2 ] })"), HasSubstr("it has 'y'"));
}

TEST(config_pbtxt, files_of_the_fuzzer_are_read_or_refused) {
    sluice::fuzz::replay("fuzz/corpus/config_pbtxt", fuzz::read_config_pbtxt);
}

}  // namespace
}  // namespace sluice::serve::config_pbtxt_tests
