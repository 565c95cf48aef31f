// SPDX-License-Identifier: Apache-2.0
// oneDNN on threads of the program, which run commands of a CPU device while they wait for it.
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "sluice/kernels/gemm.hpp"
#include "sluice/op/and_then.hpp"
#include "sluice/op/zip.hpp"
#include "sluice/runtime/runtime.hpp"
#include "sluice/runtime/stream.hpp"
#include "sluice/runtime/sync.hpp"
#include "sluice/runtime/transfer.hpp"
#include "support/gate.hpp"

// OpenMP's own; its header is not there with every compiler that links to the library.
extern "C" void omp_set_num_threads(int threads);
extern "C" int omp_get_max_threads();

namespace sluice::waiting_thread_tests {
namespace {

class waiting_threads : public testing::Test {
protected:
    // Its columns are the functions of 3 * 2 * 0.5, in a stream that only the calling thread can run.
    std::vector<float> product(activation after) {
        const stream_lease mine(on);
        return sync_on(zip(upload(std::vector<float>(6, 2.0f), {2, 3}), upload(std::vector<float>(12, 0.5f), {3, 4}))
                           .and_then([=](tensor<float> a, tensor<float> b) {
                               return gemm(std::move(a), std::move(b), {.after = after});
                           })
                           .and_then(download),
                       *mine);
    }

    runtime owner{{.cpu_workers = 1, .cuda = false}};
    device& on = owner.find("cpu:0");
    stream_lease busy{on};
    test_support::gate held{*busy};  // the only worker
};

}  // namespace

TEST_F(waiting_threads, keep_what_they_say_to_openmp) {
    const int before = omp_get_max_threads();
    omp_set_num_threads(3);
    EXPECT_EQ(product(activation::relu), std::vector<float>(8, 3.0f));
    EXPECT_EQ(product(activation::sigmoid).size(), 8u);
    EXPECT_EQ(omp_get_max_threads(), 3);
    // Plans are for one thread, whatever the thread says later.
    omp_set_num_threads(5);
    EXPECT_EQ(product(activation::none), std::vector<float>(8, 3.0f));
    EXPECT_EQ(omp_get_max_threads(), 5);
    omp_set_num_threads(before);
}

TEST_F(waiting_threads, may_end_and_be_followed_by_others) {
    for (int i = 0; i < 20; ++i) {
        std::thread([&] {
            EXPECT_EQ(product(activation::none), std::vector<float>(8, 3.0f));
            EXPECT_EQ(product(activation::tanh).size(), 8u);
        }).join();
    }
}

}  // namespace sluice::waiting_thread_tests
