// SPDX-License-Identifier: Apache-2.0
// A kernel that checks its bounds has ended the GPU: the error names the kernel, the index, the size and the line of
// the access, whichever way the kernel was launched.
//
// The GPU is lost for the process: run these tests under ctest, which runs each test in its own process.
#include <optional>
#include <ostream>
#include <string_view>
#include <utility>

#include "conformance/support/awaiting.hpp"
#include "faults/out_of_range_kernels.hpp"

namespace sluice::faults::cuda_bounds_fault_tests {
namespace {

using conformance::failure_of;
using conformance::submit_to;

// A fault ends the GPU for the process, so a process runs one of these tests.
bool is_gone = false;

struct bounds_fault {
    overrun how;
    bool is_in_graph;
};
std::string to_string(const bounds_fault& of) { return to_string(of.how) + (of.is_in_graph ? "_in_a_graph" : ""); }
// ctest's names of the tests have it.
void PrintTo(const bounds_fault& of, std::ostream* to) { *to << to_string(of); }

class gpu_bounds_faults : public testing::TestWithParam<bounds_fault> {
protected:
    void SetUp() override {
        if (std::exchange(is_gone, true)) GTEST_SKIP() << "the GPU is lost for this process: run this under ctest";
        devices.emplace(runtime_options{.cpu_devices = 1, .cpu_workers = 2});
        gpu = &devices->find("cuda:0");
        pool.emplace(*gpu);
        x = sync(zeros<float>({8, 4}), *pool);
    }

    void expect_words(const overrun_words& words, const std::string& text) {
        EXPECT_NE(text.find("'" + words.kernel + "' on cuda:0: "), text.npos) << text;
        EXPECT_NE(text.find(words.access), text.npos) << text;
        EXPECT_NE(text.find(words.place), text.npos) << text;
    }

    std::optional<runtime> devices;
    device* gpu = nullptr;
    std::optional<single_stream> pool;
    tensor<float> x;
};
std::vector<bounds_fault> all_kinds() {
    std::vector<bounds_fault> all;
    for (const overrun how : {overrun::of_a_view, overrun::of_a_row, overrun::of_a_column, overrun::of_a_tile,
                              overrun::of_shared_memory, overrun::of_a_part, overrun::of_a_matrix_of_tiles}) {
        all.push_back({how, false});
        all.push_back({how, true});
    }
    return all;
}
INSTANTIATE_TEST_SUITE_P(, gpu_bounds_faults, testing::ValuesIn(all_kinds()),
                         [](const auto& instance) { return to_string(instance.param); });

class gpu_bounds_fault : public gpu_bounds_faults {};
INSTANTIATE_TEST_SUITE_P(, gpu_bounds_fault, testing::Values(bounds_fault{overrun::of_a_view, false}),
                         [](const auto&) { return std::string("once"); });

}  // namespace

TEST_P(gpu_bounds_faults, the_error_names_the_access) {
    const overrun_words words = words_of(GetParam().how);
    const stream on = pool->next();
    const auto graph = record(*gpu, [this](stream to) { overrun_on(to, x, GetParam().how); }, {.name = "breaks"});
    try {
        if (GetParam().is_in_graph) {
            submit_to(on, graph());
        } else {
            overrun_on(on, x, GetParam().how);
        }
        gpu->synchronize();
        FAIL() << "nothing was thrown";
    } catch (const device_error& fault) {
        EXPECT_EQ(fault.device(), "cuda:0");
        EXPECT_EQ(fault.operation(), GetParam().is_in_graph ? "graph" : words.kernel) << fault.what();
        EXPECT_STREQ(fault.code().category().name(), "cuda");
        expect_words(words, fault.what());
    }
    // Each later waiter gets the same cause.
    expect_words(words, failure_of([&] { sync(ones<float>({2}).and_then(download), *pool); }));
}

// One of them is reported, whole.
TEST_P(gpu_bounds_fault, of_a_million_threads_the_first_is_named) {
    auto many = sync(zeros<float>({1'048'576}), *pool);
    overrun_by_all_on(pool->next(), many);
    expect_words(words_of_all(), failure_of([&] { gpu->synchronize(); }));
}

}  // namespace sluice::faults::cuda_bounds_fault_tests
