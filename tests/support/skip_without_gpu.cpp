// SPDX-License-Identifier: Apache-2.0
// Linked into test executables labelled `gpu`: where there is no GPU, every test is reported as skipped.
// SLUICE_REQUIRE_GPU (set to anything) makes a missing GPU a failure, for machines known to have one.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

namespace {

// Queries the driver directly, so that the result does not depend on the code under test.
int gpu_count() {
    void* driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver) return 0;
    auto* init = reinterpret_cast<int (*)(unsigned)>(dlsym(driver, "cuInit"));
    auto* get_count = reinterpret_cast<int (*)(int*)>(dlsym(driver, "cuDeviceGetCount"));
    int count = 0;
    if (!init || !get_count || init(0) != 0 || get_count(&count) != 0) return 0;
    return count;
}

class needs_gpu : public testing::Environment {
    void SetUp() override {
        if (gpu_count() > 0) return;
        const char* required = std::getenv("SLUICE_REQUIRE_GPU");
        if (required && *required) {
            // Not FAIL(): GoogleTest would then print that it skipped the tests, and ctest would believe it.
            std::fputs("SLUICE_REQUIRE_GPU is set, but there is no GPU here\n", stderr);
            std::_Exit(1);
        }
        // ctest looks for the bracketed word; GoogleTest does not print it for an environment.
        GTEST_SKIP() << "[  SKIPPED ] there is no GPU here";
    }
};

const testing::Environment* const registered = testing::AddGlobalTestEnvironment(new needs_gpu);

}  // namespace
