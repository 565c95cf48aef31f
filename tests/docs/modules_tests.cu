// SPDX-License-Identifier: Apache-2.0
// The code in docs/modules.md. Runs on the default device: on a GPU with NVRTC the code runs, elsewhere it is refused.
#include <gtest/gtest.h>

#include <cstdlib>

#include "io/support/temporary_directory.hpp"
#include "sluice/cuda/kernel_module.hpp"
#include "sluice/kernels/tile_launch.hpp"  // a program may have both
#include "sluice/sluice.hpp"

namespace sluice::docs::modules_tests {
namespace {

constexpr const char* source = R"(
extern "C" __global__ void saxpy(int n, float a, const float* x, float* y) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += a * x[i];
}
)";

std::vector<float> on_a_module(device& gpu) {
    round_robin pool(gpu, 2);
    // From here on as in the page.
    const kernel_module kernels = compile_module(gpu, source, {.options = {"-std=c++17"}});
    const auto saxpy = kernels.function<void(int, float, const float*, float*)>("saxpy");

    auto pipeline = zip(upload(std::vector<float>(1000, 1)), upload(std::vector<float>(1000, 2)))
                        .and_then([=](auto x, auto y) {
                            return saxpy(blocks_over(1000, 256), 1000, 3.f, std::move(x), std::move(y));
                        })
                        .and_then(download);
    const std::vector<float> y = sync(std::move(pipeline), pool);  // 1000 times 5
    return y;
}

bool has_compiler(device& gpu) {
    try {
        static_cast<void>(compile_module(gpu, source));
        return true;
    } catch (const error& refusal) {
        EXPECT_EQ(refusal.code(), errc::unsupported) << refusal.what();
        return false;
    }
}

}  // namespace

TEST(modules, a_source_is_compiled_and_runs) {
    const io::testing::temporary_directory caches;
    ::setenv("XDG_CACHE_HOME", caches.path().c_str(), 1);
    runtime machine;
    device& gpu = machine.default_device();
    if (has_compiler(gpu)) {
        EXPECT_EQ(on_a_module(gpu), std::vector<float>(1000, 5));
    } else {
        EXPECT_THROW(on_a_module(gpu), error);
    }
}

}  // namespace sluice::docs::modules_tests
