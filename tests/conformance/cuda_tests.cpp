// SPDX-License-Identifier: Apache-2.0
// Features of GPUs only: handles of CUDA's libraries, native streams, and the refusal of kernels without GPU code.
#include <algorithm>

#include "conformance/backend.hpp"
#include "conformance/expect_refused.hpp"
#include "conformance/kernels.hpp"
#include "cuda/api/cublaslt.hpp"
#include "cuda/api/handles.hpp"
#include "sluice/cuda/device_context.hpp"
#include "sluice/kernels/elementwise.hpp"
#include "sluice/kernels/gemm.hpp"

namespace sluice::conformance::cuda_tests {
namespace {

class cuda_device_test : public testing::Test {
protected:
    // Null when the library is not installed; the test is then skipped.
    template <typename Function>
    auto installed(Function make) -> decltype(make()) {
        try {
            return make();
        } catch (const error& refusal) {
            EXPECT_EQ(refusal.code(), errc::unsupported) << refusal.what();
            return nullptr;
        }
    }

    runtime owner;
    device& gpu = owner.find("cuda:0");
    cuda::device_context& context = cuda::device_context::of(gpu);
    round_robin pool{gpu, 2};
    stream a = pool.next();
    stream b = pool.next();
};

// This file is not compiled by nvcc.
struct host_only {
    void operator()(index_1d at, disjoint_view<int> x) const {
        if (int* const e = x.at(at)) *e = 1;
    }
};

}  // namespace

TEST_F(cuda_device_test, is_the_default_device) {
    EXPECT_EQ(&owner.default_device(), &gpu);
    EXPECT_EQ(&owner.find("cuda"), &gpu);
    EXPECT_EQ(gpu.kind(), device_kind::cuda);
    EXPECT_EQ(owner.why_no_gpu(), "");
}

TEST_F(cuda_device_test, is_not_used_by_a_runtime_without_cuda) {
    const runtime without({.cuda = false});
    EXPECT_NE(without.why_no_gpu(), "");
    expect_refused(errc::device_not_found, {"cuda:0", "cpu:0"}, [&] { without.find("cuda:0"); });
}

TEST_F(cuda_device_test, reports_its_properties) {
    const device_properties& all = context.properties();
    EXPECT_FALSE(all.name.empty());
    EXPECT_GT(all.compute_units, 0);
    EXPECT_GE(all.compute_capability, 75);
    EXPECT_GT(all.memory_bytes, std::size_t{1} << 30);
    EXPECT_GT(all.l2_cache_bytes, 0u);
    EXPECT_GE(all.max_shared_bytes_per_block, 48u << 10);
    EXPECT_EQ(all.max_threads_per_block, 1024);
    EXPECT_EQ(all.warp_size, 32);
    EXPECT_TRUE(all.concurrent_kernels);
    EXPECT_GE(all.async_copy_engines, 1);
    EXPECT_LE(gpu.priorities().highest, gpu.priorities().lowest);
    EXPECT_GT(context.free_memory().free_bytes, 0u);
    EXPECT_LE(context.free_memory().free_bytes, context.free_memory().total_bytes);
    EXPECT_FALSE(gpu.shares_host_memory());
}

TEST_F(cuda_device_test, has_one_native_stream_for_each_stream) {
    EXPECT_EQ(a.native().kind, device_kind::cuda);
    EXPECT_NE(a.native().handle, nullptr);
    EXPECT_NE(a.native().handle, b.native().handle);
    EXPECT_EQ(a.native().queue, &a.queue());
}

TEST_F(cuda_device_test, has_one_cublaslt_handle) {
    auto* const handle = installed([&] { return context.cublaslt_handle(); });
    if (handle == nullptr) GTEST_SKIP() << "cuBLASLt is not installed";
    EXPECT_EQ(context.cublaslt_handle(), handle);
}

TEST_F(cuda_device_test, has_one_cublas_handle_for_each_stream) {
    auto* const handle = installed([&] { return context.cublas(a); });
    if (handle == nullptr) GTEST_SKIP() << "cuBLAS is not installed";
    EXPECT_EQ(context.cublas(a), handle);
    EXPECT_NE(context.cublas(b), handle);
}

TEST_F(cuda_device_test, has_one_cudnn_handle_for_each_stream) {
    auto* const handle = installed([&] { return context.cudnn(a); });
    if (handle == nullptr) GTEST_SKIP() << "cuDNN is not installed";
    EXPECT_EQ(context.cudnn(a), handle);
    EXPECT_NE(context.cudnn(b), handle);
}

TEST_F(cuda_device_test, reports_a_failure_of_a_library_in_its_own_words) {
    if (installed([&] { return context.cudnn(a); }) == nullptr) GTEST_SKIP() << "cuDNN is not installed";
    try {
        cuda::api::check_cudnn(2000, "cudnnTest");
        ADD_FAILURE() << "nothing was thrown";
    } catch (const device_error& failure) {
        EXPECT_NE(std::string_view(failure.what()).find("CUDNN_STATUS_BAD_PARAM"), std::string_view::npos)
            << failure.what();
        EXPECT_NE(std::string_view(failure.what()).find("cudnnTest"), std::string_view::npos) << failure.what();
    }
}

TEST_F(cuda_device_test, reports_a_failure_of_cublas_in_its_own_words) {
    if (installed([&] { return context.cublas(a); }) == nullptr) GTEST_SKIP() << "cuBLAS is not installed";
    const std::string words = cuda::api::cublaslt_functions::get().describe(CUBLAS_STATUS_INVALID_VALUE);
    EXPECT_FALSE(words.empty());
    try {
        cuda::api::check(CUBLAS_STATUS_INVALID_VALUE, "cublasTest");
        ADD_FAILURE() << "nothing was thrown";
    } catch (const device_error& failure) {
        for (const std::string& each : {words, std::string("status 7"), std::string("cublasTest")})
            EXPECT_NE(std::string_view(failure.what()).find(each), std::string_view::npos) << failure.what();
    }
}

TEST_F(cuda_device_test, has_a_workspace_for_each_stream_that_only_grows) {
    const storage_ref small = context.workspace(a, 1000);
    EXPECT_EQ(context.workspace(a, 10).get(), small.get());
    const storage_ref large = context.workspace(a, 10'000'000);
    EXPECT_GE(large->capacity_bytes(), 10'000'000u);
    EXPECT_EQ(context.workspace(a, 1000).get(), large.get());
    EXPECT_NE(context.workspace(b, 1000).get(), large.get());
}

TEST_F(cuda_device_test, refuses_a_kernel_that_was_not_compiled_by_nvcc) {
    auto x = sync(zeros<int>({4}), pool);
    const ticket before = a.issued();
    expect_refused_here(errc::unsupported, {"host_only on cuda:0", "nvcc"},
                        [&] { launch_on(a, host_only{}, each_of(x), x); });
    EXPECT_EQ(a.issued(), before);
    EXPECT_EQ(contents(std::move(x), a), std::vector<int>(4, 0));
}

TEST_F(cuda_device_test, has_a_cpu_device_next_to_it_that_runs_the_same_kernel) {
    single_stream cpu(owner.find("cpu"));
    auto x = sync(zeros<int>({4}), cpu);
    launch_on(cpu.next(), host_only{}, each_of(x), x);
    EXPECT_EQ(contents(std::move(x), cpu.next()), std::vector<int>(4, 1));
}

TEST_F(cuda_device_test, a_context_is_only_for_gpus) {
    expect_refused(errc::invalid_argument, {"cpu:0"}, [&] { cuda::device_context::of(owner.find("cpu")); });
}

TEST_F(cuda_device_test, orders_launches_after_library_calls_on_other_streams) {
    constexpr std::size_t n = 512;
    auto ones = sync(share(full<float>({n, n}, 1)), pool);
    for (int round = 0; round < 20; ++round) {
        auto out = submit_to(a, full<float>({n, n}, -1));
        gemm(a, *ones, *ones, nullptr, out);
        activate(b, out, activation::relu);
        const auto got = contents(std::move(out), b);
        ASSERT_TRUE(std::all_of(got.begin(), got.end(), [](float each) { return each == static_cast<float>(n); }));
    }
}

}  // namespace sluice::conformance::cuda_tests
