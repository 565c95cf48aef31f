// SPDX-License-Identifier: Apache-2.0
// Runs a function on a thread with a small stack: code that recurses once for each of many elements overflows it.
#pragma once

#include <gtest/gtest.h>
#include <pthread.h>

#include <functional>

namespace sluice::test_support {

inline void on_small_stack(std::function<void()> call) {
    constexpr std::size_t bytes = std::size_t{512} << 10;
    pthread_attr_t attributes;
    ASSERT_EQ(pthread_attr_init(&attributes), 0);
    ASSERT_EQ(pthread_attr_setstacksize(&attributes, bytes), 0);
    pthread_t thread{};
    const auto run = [](void* what) -> void* {
        (*static_cast<std::function<void()>*>(what))();
        return nullptr;
    };
    ASSERT_EQ(pthread_create(&thread, &attributes, run, &call), 0);
    ASSERT_EQ(pthread_join(thread, nullptr), 0);
    pthread_attr_destroy(&attributes);
}

}  // namespace sluice::test_support
