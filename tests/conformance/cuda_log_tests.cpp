// SPDX-License-Identifier: Apache-2.0
// What only a GPU reports to the program's logger: handles of libraries, and modules.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "conformance/module_test.hpp"
#include "cuda/api/nvrtc.hpp"
#include "sluice/cuda/device_context.hpp"

namespace sluice::conformance::cuda_log_tests {
namespace {

class gpu_logs : public conformance_test {
protected:
    using told_name = std::pair<log_event, std::string>;

    runtime_options noting() {
        runtime_options all = GetParam().options;
        all.log = [this](const log_entry& entry) {
            if (entry.device == GetParam().device) told.emplace_back(entry.event, std::string(entry.name));
        };
        return all;
    }
    auto count(log_event event, const std::string& name) const {
        return std::ranges::count(told, told_name(event, name));
    }
    auto handles() const { return std::ranges::count(told, log_event::library_handle, &told_name::first); }

    std::vector<told_name> told;
    runtime machine{noting()};
    device& gpu = machine.find(GetParam().device);
};
INSTANTIATE_TEST_SUITE_P(, gpu_logs, testing::ValuesIn(enrolled_backends()), backend_name);

}  // namespace

TEST_P(gpu_logs, name_each_handle_once) {
    auto& context = cuda::device_context::of(gpu);
    single_stream pool(gpu);
    const stream home = pool.next();
    EXPECT_EQ(context.cublas(home), context.cublas(home));
    EXPECT_EQ(context.cublaslt_handle(), context.cublaslt_handle());
    EXPECT_EQ(count(log_event::library_handle, "cuBLAS"), 1);
    EXPECT_EQ(count(log_event::library_handle, "cuBLASLt"), 1);
    EXPECT_EQ(count(log_event::library_handle, "cuDNN"), 0);
}

TEST_P(gpu_logs, name_the_handle_of_cudnn_when_it_is_first_used) {
    auto& context = cuda::device_context::of(gpu);
    single_stream pool(gpu);
    const stream home = pool.next();
    EXPECT_EQ(handles(), 0);
    try {
        static_cast<void>(context.cudnn(home));
    } catch (const error& refusal) {
        ASSERT_EQ(refusal.code(), errc::unsupported) << refusal.what();
        GTEST_SKIP() << "cuDNN is not installed";
    }
    EXPECT_EQ(handles(), 1);
    EXPECT_EQ(count(log_event::library_handle, "cuDNN"), 1);
    static_cast<void>(context.cudnn(home));
    EXPECT_EQ(handles(), 1);
}

TEST_P(gpu_logs, name_modules_that_are_loaded_and_compiled) {
    static_cast<void>(load_module(gpu, bytes_of(ptx_kernels), "test.ptx"));
    EXPECT_EQ(count(log_event::module_loaded, "test.ptx"), 1);
    EXPECT_EQ(count(log_event::module_compiled, "test.ptx"), 0);
    try {
        static_cast<void>(cuda::api::compiler_version());
    } catch (const error& refusal) {
        GTEST_SKIP() << refusal.what();
    }
    static_cast<void>(compile_module(gpu, source_of_set_all, {.name = "mine.cu", .cache = ""}));
    EXPECT_EQ(count(log_event::module_compiled, "mine.cu"), 1);
    EXPECT_EQ(count(log_event::module_loaded, "mine.cu"), 1);
}

}  // namespace sluice::conformance::cuda_log_tests
