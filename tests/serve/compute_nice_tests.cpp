// SPDX-License-Identifier: Apache-2.0
#include "sluice/serve/compute_nice.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include <sys/resource.h>
#include <unistd.h>

#include "serve/support/fake_engine.hpp"
#include "sluice/base/error.hpp"

namespace sluice::serve::compute_nice_tests {
namespace {

using testing::fake_model;
using testing::row_of;

int own_nice() { return ::getpriority(PRIO_PROCESS, static_cast<id_t>(::gettid())); }

struct nice_of_process {
    explicit nice_of_process(int steps) { set_compute_nice(steps); }
    nice_of_process(const nice_of_process&) = delete;
    nice_of_process& operator=(const nice_of_process&) = delete;
    ~nice_of_process() { set_compute_nice(0); }
};

// Notes how urgent the thread is that computes it.
struct observing_model : fake_model {
    std::vector<nn::any_tensor> run(std::vector<nn::any_tensor> inputs) const override {
        nice = own_nice();
        return fake_model::run(std::move(inputs));
    }
    mutable std::atomic<int> nice{0};
};

int nice_of_a_batch() {
    const auto model = std::make_shared<observing_model>();
    model_config config;
    config.caller_thread_us = 0;
    const auto served = served_model::make("m", 1, model, config);
    const auto call = row_of(1);
    served->submit(call);
    call->get();
    served->close();
    return model->nice;
}

TEST(compute_nice, threads_that_compute_are_less_urgent_than_their_maker) {
    if (own_nice() > 12) GTEST_SKIP() << "this process is as nice as it can be";
    {
        const nice_of_process seven(7);
        EXPECT_EQ(compute_nice(), 7);
        EXPECT_EQ(nice_of_a_batch(), own_nice() + 7);
    }
    EXPECT_EQ(nice_of_a_batch(), own_nice());
}

TEST(compute_nice, what_a_thread_makes_is_as_nice_as_it_is) {
    if (own_nice() > 12) GTEST_SKIP() << "this process is as nice as it can be";
    const int before = own_nice();
    const nice_of_process seven(7);
    int inner = -100;
    std::thread([&] {
        become_less_urgent();
        std::thread([&] { inner = own_nice(); }).join();
    }).join();
    EXPECT_EQ(inner, before + 7);
    EXPECT_EQ(own_nice(), before);
}

TEST(compute_nice, other_numbers_are_refused) {
    EXPECT_THROW(set_compute_nice(-1), error);
    EXPECT_THROW(set_compute_nice(20), error);
    EXPECT_EQ(compute_nice(), 0);
}

}  // namespace
}  // namespace sluice::serve::compute_nice_tests
