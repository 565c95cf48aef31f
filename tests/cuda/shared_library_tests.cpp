// SPDX-License-Identifier: Apache-2.0
// Where the libraries of CUDA are looked for.
#include <gmock/gmock.h>

#include <filesystem>

#include "cuda/api/shared_library.hpp"
#include "sluice/base/error.hpp"

namespace sluice::cuda::api {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(shared_library, the_folders_of_wheels_lie_beside_the_python_package) {
    namespace fs = std::filesystem;
    const fs::path packages = fs::path(::testing::TempDir()) / "sluice_wheel_folders";
    fs::remove_all(packages);
    for (const char* each : {"sluice", "other", "nvidia/cudnn/lib", "nvidia/cu13/lib", "nvidia/headers/include"})
        fs::create_directories(packages / each);
    const std::string nvidia = (packages / "nvidia").string();
    EXPECT_THAT(folders_of_wheels((packages / "sluice/libsluice_c.so.1").string()),
                ElementsAre(nvidia + "/cu13/lib", nvidia + "/cudnn/lib"));
    EXPECT_THAT(folders_of_wheels((packages / "other/libsluice_c.so.1").string()), IsEmpty());
    fs::remove_all(packages / "nvidia");
    EXPECT_THAT(folders_of_wheels((packages / "sluice/libsluice_c.so.1").string()), IsEmpty());
    EXPECT_THAT(folders_of_wheels(""), IsEmpty());
    fs::remove_all(packages);
}

TEST(shared_library, that_is_nowhere_is_refused_with_the_names_that_were_tried) {
    try {
        const shared_library library("sluice_no_such_library", 13);
        FAIL() << "it was opened";
    } catch (const error& refused) {
        EXPECT_EQ(refused.code(), errc::unsupported);
        EXPECT_THAT(refused.what(), HasSubstr("cannot open libsluice_no_such_library.so.13"));
        EXPECT_THAT(refused.what(), HasSubstr("/usr/local/cuda/lib64"));
    }
}

}  // namespace sluice::cuda::api
