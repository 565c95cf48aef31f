// SPDX-License-Identifier: Apache-2.0
// The work of bench_await_latency: n tiny dependent kernels, as an operation and by hand. Its kernels are compiled by
// nvcc, its coroutines are not.
#pragma once

#include <cstddef>
#include <memory>

#include "sluice/op/any_operation.hpp"
#include "sluice/runtime/tensor.hpp"

namespace sluice::bench {

constexpr std::size_t tick_elements = 2048;

// Adds 1 to each element, n times.
any_operation<tensor<unsigned>> ticks(tensor<unsigned> x, std::size_t n);

// The same by hand; it waits with cudaStreamSynchronize.
class ticks_by_hand {
public:
    ticks_by_hand();
    ticks_by_hand(const ticks_by_hand&) = delete;  // it owns a stream and memory
    ticks_by_hand& operator=(const ticks_by_hand&) = delete;
    ~ticks_by_hand();

    void run(std::size_t n);

private:
    struct state;
    std::unique_ptr<state> state_;
};

}  // namespace sluice::bench
