// SPDX-License-Identifier: Apache-2.0
// What the result of compiling a source depends on.
#include "cuda/module_source.hpp"

#include <gmock/gmock.h>

namespace sluice::cuda::module_source_tests {
namespace {

using testing::ElementsAre;

bool is_whole(std::string_view source, const source_options& how = {}) {
    return depends_on_given_text_only(source, how);
}

std::string key(std::string_view source, const source_options& how = {}, std::string_view versions = "1") {
    return key_of(source, how, options_for(90, how.options), versions);
}

}  // namespace

TEST(module_sources, are_compiled_for_the_gpu_unless_the_options_name_an_architecture) {
    EXPECT_THAT(options_for(90, {"-DN=3"}), ElementsAre("-DN=3", "-arch=sm_90"));
    EXPECT_THAT(options_for(90, {"-arch=sm_90a"}), ElementsAre("-arch=sm_90a"));
    EXPECT_THAT(options_for(90, {"--gpu-architecture", "compute_80"}), ElementsAre("--gpu-architecture", "compute_80"));
}

TEST(module_sources, a_source_that_includes_other_files_depends_on_them) {
    EXPECT_TRUE(is_whole("extern \"C\" __global__ void f(int* x) { *x = 1; }"));
    EXPECT_FALSE(is_whole("#include <cuda_fp16.h>\n"));
    EXPECT_FALSE(is_whole("#include \"x.h\"\n"));
    EXPECT_FALSE(is_whole("#inc\\\nlude \"x.h\"\n"));
    EXPECT_FALSE(is_whole("#inc\\\r\nlude \"x.h\"\n"));
    EXPECT_FALSE(is_whole("#include NAME\n"));
    EXPECT_FALSE(is_whole("#  include <unclosed\n"));
    EXPECT_FALSE(is_whole("#embed \"x.bin\"\n"));
}

TEST(module_sources, given_headers_are_part_of_the_source) {
    const source_options given{.headers = {{"x.h", "int x();"}, {"y.h", "#include \"x.h\""}}};
    EXPECT_TRUE(is_whole("#include \"x.h\"\n # include <y.h>\n", given));
    EXPECT_FALSE(is_whole("#include \"x.h\"\n#include \"z.h\"\n", given));
    EXPECT_FALSE(is_whole("#include \"y.h\"", {.headers = {{"y.h", "#include \"x.h\""}}}));
}

TEST(module_sources, options_may_read_files_too) {
    EXPECT_TRUE(is_whole("", {.options = {"-std=c++20", "-I/usr/include", "--include-path=/usr"}}));
    EXPECT_FALSE(is_whole("", {.options = {"-include", "x.h"}}));
    EXPECT_FALSE(is_whole("", {.options = {"--pre-include=x.h"}}));
    EXPECT_FALSE(is_whole("", {.options = {"--options-file=x"}}));
    EXPECT_FALSE(is_whole("", {.options = {"-optf", "x"}}));
    EXPECT_FALSE(is_whole("", {.options = {"--use-pch=x"}}));
}

TEST(module_sources, everything_that_the_result_depends_on_is_in_the_key) {
    const std::string plain = key("source");
    EXPECT_EQ(key("source"), plain);
    EXPECT_NE(key("source "), plain);
    EXPECT_NE(key("source", {}, "2"), plain);
    EXPECT_NE(key("source", {.name = "other.cu"}), plain);
    EXPECT_NE(key("source", {.options = {"-DN=3"}}), plain);
    EXPECT_NE(key("source", {.headers = {{"x.h", ""}}}), plain);
    EXPECT_NE(key_of("source", {}, options_for(80, {}), "1"), plain);
    // Texts that are split in other places.
    EXPECT_NE(key("source", {.options = {"-a", "-b"}}), key("source", {.options = {"-a-b"}}));
    EXPECT_NE(key("source", {.headers = {{"x", "yz"}}}), key("source", {.headers = {{"xy", "z"}}}));
    EXPECT_NE(key("", {.headers = {{"x", "y"}}}), key("x", {.headers = {}}));
}

}  // namespace sluice::cuda::module_source_tests
