// SPDX-License-Identifier: Apache-2.0
// `sluice run` on what it must refuse: exit code 2, a reason on standard error, and nothing else anywhere.
#include <gmock/gmock.h>

#include <cstdint>
#include <nlohmann/json.hpp>

#include "apps/support/sample_files.hpp"
#include "apps/support/subprocess.hpp"
#include "io/support/hostile_files.hpp"

namespace sluice::app::testing::refusal_tests {
namespace {

using io::testing::npy_bytes;
using io::testing::npy_dict;
using io::testing::read_file;
using io::testing::safetensors_bytes;
using ::testing::HasSubstr;

class tool_refuses : public ::testing::Test {
protected:
    // Runs twice, with no output there and with an earlier one; `words` must be in the message.
    void refuses(const std::vector<std::string>& arguments, const std::vector<std::string>& words) {
        const temporary_directory target;
        for (const bool with_earlier : {false, true}) {
            if (with_earlier) target.write("out.npy", "an earlier output");
            std::vector<std::string> all{"run", "--device", "cpu", "--output", target / "out.npy"};
            all.insert(all.end(), arguments.begin(), arguments.end());
            expect_refused(all, words, target);
        }
    }
    void expect_refused(const std::vector<std::string>& arguments, const std::vector<std::string>& words,
                        const temporary_directory& target) {
        const auto before = snapshot(target), inputs_before = snapshot(directory);
        const outcome came = run_tool(arguments);
        EXPECT_EQ(came.exit_code, 2) << came;
        EXPECT_EQ(came.out, "");
        for (const std::string& word : words) EXPECT_THAT(came.err, HasSubstr(word));
        EXPECT_EQ(snapshot(target), before) << came;
        EXPECT_EQ(snapshot(directory), inputs_before) << came;
    }
    void refuses_model(const std::string& contents, std::vector<std::string> words) {
        const std::string model = directory.write("model.safetensors", contents);
        words.push_back(model);
        refuses({model, digits().input}, words);
    }
    void refuses_input(const std::string& contents, std::vector<std::string> words) {
        const std::string input = directory.write("input.npy", contents);
        words.push_back(input);
        refuses({digits().model, input}, words);
    }
    void refuses_labels(const std::string& labels, const std::string& why) {
        refuses({digits().model, digits().input, "--labels", labels}, {labels, why});
    }
    void refuses_reference(const std::string& reference, const std::string& why) {
        refuses({digits().model, digits().input, "--reference", reference}, {reference, why});
    }

    temporary_directory directory;
};

// `--device` given again: the last one would be ambiguous, so these run by themselves.
class tool_refuses_device : public tool_refuses {
protected:
    void refuses(const std::string& device, const std::vector<std::string>& words) {
        const temporary_directory target;
        expect_refused({"run", "--device", device, "--output", target / "out.npy", digits().model, digits().input},
                       words, target);
    }
};

}  // namespace

TEST_F(tool_refuses, a_network_that_is_cut_off) {
    const std::string whole = read_file(digits().model);
    refuses_model(whole.substr(0, whole.size() - 1), {"at byte ", "data_offsets"});
    refuses_model(whole.substr(0, whole.size() / 2), {"at byte ", "data_offsets"});
    refuses_model(whole.substr(0, 100), {"at byte 0", "header length"});
    refuses_model(whole.substr(0, 7), {"at byte 0", "header length"});
    refuses_model("", {"empty"});
}

TEST_F(tool_refuses, a_network_that_lies) {
    refuses_model(safetensors_bytes(R"({"0.weight":{"dtype":"F32","shape":[2,64],"data_offsets":[0,8]}})", "12345678"),
                  {"at byte ", "data_offsets", "does not match the shape"});
    refuses_model(
        safetensors_bytes(R"({"0.weight":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})"),
        {"at byte ", "shape", "overflows"});
    refuses_model(std::string(8, '\xff') + "{}", {"at byte 0", "header length"});
    refuses_model(safetensors_bytes("{]"), {"at byte ", "invalid JSON"});
    refuses_model(safetensors_bytes("{}"), {"no layers"});
    refuses_model(read_file(digits().model) + "x", {"at byte ", "data"});
}

TEST_F(tool_refuses, layers_that_do_not_chain) {
    refuses_model(safetensors_bytes(R"({"0.weight":{"dtype":"F32","shape":[2,64],"data_offsets":[0,512]},)"
                                    R"("2.weight":{"dtype":"F32","shape":[2,3],"data_offsets":[512,536]}})",
                                    std::string(536, '\0')),
                  {"at byte ", "'2.weight'", "takes 3 inputs", "has 2 outputs"});
}

TEST_F(tool_refuses, weights_that_are_no_floats) {
    refuses_model(safetensors_bytes(R"({"0.weight":{"dtype":"I32","shape":[1,64],"data_offsets":[0,256]}})",
                                    std::string(256, '\0')),
                  {"at byte ", "'0.weight'", "i32"});
}

TEST_F(tool_refuses, an_unknown_activation) {
    refuses_model(safetensors_bytes(R"({"__metadata__":{"activation":"swish"},)"
                                    R"("0.weight":{"dtype":"F32","shape":[1,64],"data_offsets":[0,256]}})",
                                    std::string(256, '\0')),
                  {"at byte ", "__metadata__.activation", "swish"});
}

TEST_F(tool_refuses, inputs_of_another_width) {
    const auto input = write_array(directory, "input.npy", {3, 63}, std::vector<float>(3 * 63));
    refuses({digits().model, input}, {input, "shape", "63", "64"});
}

TEST_F(tool_refuses, inputs_that_are_no_matrix) {
    const std::vector<float> values(64);
    for (const std::vector<std::size_t>& shape : {std::vector<std::size_t>{64}, {1, 8, 8}, {1, 64, 1}}) {
        const auto input = write_array(directory, "input.npy", shape, values);
        refuses({digits().model, input}, {input, "shape", "two dimensions"});
    }
}

TEST_F(tool_refuses, an_empty_batch) {
    const auto input = write_array(directory, "input.npy", {0, 64}, std::vector<float>{});
    refuses({digits().model, input}, {input, "shape", "no rows"});
}

TEST_F(tool_refuses, arrays_of_other_layouts) {
    const std::string data(2 * 64 * 4, '\0');
    refuses_input(npy_bytes(npy_dict("'<f4'", "True", "(2, 64)"), data), {"at byte ", "fortran_order", "column-major"});
    refuses_input(npy_bytes(npy_dict("'>f4'", "False", "(2, 64)"), data), {"at byte ", "descr", "big-endian"});
    refuses_input(npy_bytes(npy_dict("'|O'", "False", "(2, 64)"), data), {"at byte ", "descr", "pickled"});
    refuses_input(npy_bytes(npy_dict("[('x', '<f4')]", "False", "(2, 64)"), data), {"at byte ", "descr", "structured"});
    refuses_input(npy_bytes(npy_dict("'<c8'", "False", "(1, 64)"), data), {"at byte ", "descr"});
}

TEST_F(tool_refuses, the_arrays_of_numpy_that_it_cannot_read) {
    const std::string folder = std::string(SLUICE_SOURCE_DIR) + "/tests/nn/data/";
    for (const char* name : {"fortran", "big_endian", "object", "structured", "complex", "text"}) {
        const std::string input = folder + name + ".npy";
        refuses({digits().model, input}, {input, "at byte "});
    }
}

TEST_F(tool_refuses, arrays_that_are_cut_off_or_too_long) {
    const std::string whole = read_file(digits().input);
    refuses_input(whole.substr(0, whole.size() - 1), {"at byte " + std::to_string(whole.size() - 1), "truncated"});
    refuses_input(whole.substr(0, 128), {"at byte 128", "truncated"});
    refuses_input(whole.substr(0, 60), {"at byte ", "header length"});
    refuses_input(whole.substr(0, 3), {"at byte 0", "magic"});
    refuses_input(whole + "x", {"at byte " + std::to_string(whole.size()), "too long"});
    refuses_input("", {"empty"});
    refuses_input("PK\x03\x04 a zip file", {"at byte 0", "magic"});
    refuses_input(npy_bytes(npy_dict("'<f4'", "False", "(4611686018427387904, 64)")), {"at byte ", "overflows"});
}

TEST_F(tool_refuses, labels_of_another_length_or_shape) {
    using whole_numbers = std::vector<std::int64_t>;
    refuses_labels(write_array(directory, "l", {449}, whole_numbers(449)), "one label for each of the 450");
    refuses_labels(write_array(directory, "l", {451}, whole_numbers(451)), "one label for each of the 450");
    refuses_labels(write_array(directory, "l", {450, 1}, whole_numbers(450)), "one label for each of the 450");
    refuses_labels(write_array(directory, "l", {}, whole_numbers(1)), "one label for each of the 450");
}

TEST_F(tool_refuses, labels_that_are_no_classes) {
    for (const std::int64_t wrong :
         {std::int64_t{-1}, std::int64_t{10}, std::int64_t{1} << 62, -(std::int64_t{1} << 62)}) {
        std::vector<std::int64_t> labels(450);
        labels[449] = wrong;
        refuses_labels(write_array(directory, "l", {450}, labels), "label of row 449 is not a class from 0 to 9");
    }
    for (const float wrong :
         {0.5f, -0.25f, std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
        std::vector<float> labels(450);
        labels[7] = wrong;
        refuses_labels(write_array(directory, "l", {450}, labels), "label of row 7 is not a class from 0 to 9");
    }
    refuses_labels(write_array(directory, "l", {450}, std::vector<std::uint8_t>(450), io::dtype::boolean), "descr");
}

TEST_F(tool_refuses, labels_that_are_no_array) {
    refuses_labels(directory.write("l", "0\n1\n2\n"), "magic");
    refuses_labels(directory / "absent.npy", "No such file");
}

TEST_F(tool_refuses, a_reference_of_another_shape) {
    for (const std::vector<std::size_t>& shape :
         {std::vector<std::size_t>{449, 10}, {451, 10}, {450, 9}, {450, 11}, {4500}, {450, 10, 1}, {10, 450}}) {
        std::size_t size = 1;
        for (const std::size_t extent : shape) size *= extent;
        refuses_reference(write_array(directory, "r", shape, std::vector<float>(size)), "450 rows of 10");
    }
    refuses_reference(directory.write("r", read_file(digits().reference).substr(0, 1000)), "truncated");
}

TEST_F(tool_refuses, files_that_are_not_there_or_are_no_files) {
    refuses({directory / "absent", digits().input}, {directory / "absent", "No such file"});
    refuses({digits().model, directory / "absent"}, {directory / "absent", "No such file"});
    refuses({directory.path(), digits().input}, {directory.path(), "directory"});
    refuses({digits().model, directory.path()}, {directory.path(), "directory"});
    refuses({digits().model, "/dev/null"}, {"/dev/null", "not a regular file"});
}

TEST_F(tool_refuses, numbers_that_make_no_sense) {
    for (const char* option : {"--batch", "--streams"}) {
        for (const char* value : {"0", "-1", "many", "1.5"}) {
            refuses({digits().model, digits().input, option, value}, {option});
        }
    }
    refuses({digits().model, digits().input, "--streams", "257"}, {"--streams"});
}

TEST_F(tool_refuses, outputs_that_cannot_be_created) {
    const std::string file = directory.write("file", "here");
    std::filesystem::create_directory(directory / "folder");
    for (const std::string& output :
         {std::string(directory / "absent/out.npy"), file + "/out.npy", std::string(directory / "folder"),
          std::string(directory / "folder") + "/", std::string("/dev/null")}) {
        expect_refused({"run", "--device", "cpu", digits().model, digits().input, "--output", output}, {output},
                       directory);
    }
    EXPECT_TRUE(std::filesystem::is_empty(directory / "folder"));
}

TEST_F(tool_refuses, traces_and_timelines_that_cannot_be_created) {
    std::filesystem::create_directory(directory / "folder");
    for (const char* option : {"--trace", "--timeline"}) {
        for (const std::string& target :
             {std::string(directory / "absent/out"), std::string(directory / "folder"), std::string("/dev/null")}) {
            refuses({digits().model, digits().input, option, target}, {target});
        }
    }
}

TEST_F(tool_refuses, two_outputs_in_one_file) {
    const std::string both = directory / "both";
    refuses({digits().model, digits().input, "--trace", both, "--timeline", directory / "./both"},
            {"both is to be written twice"});
    expect_refused({"run", "--device", "cpu", digits().model, digits().input, "--output", both, "--trace", both},
                   {both + " is to be written twice"}, directory);
}

TEST_F(tool_refuses_device, that_is_not_there) {
    for (const char* name : {"gpu7", "cpu:9", "cuda:99", "", "cpu:", "CPU", "cpux", "cpu:00", "cuda:-1", "cpu:0 "}) {
        refuses(name, {"no device '" + std::string(name) + "'", "cpu:0"});
    }
}

TEST_F(tool_refuses_device, cuda_where_there_is_no_gpu_and_says_why) {
    const auto machine = nlohmann::json::parse(run_tool({"devices", "--json"}).out);
    const auto why = machine["why_no_gpu"].get<std::string>();
    if (why.empty()) GTEST_SKIP() << "there is a GPU here";
    refuses("cuda", {"no device 'cuda'", why});
    refuses("cuda:0", {"no device 'cuda:0'", why});
}

}  // namespace sluice::app::testing::refusal_tests
