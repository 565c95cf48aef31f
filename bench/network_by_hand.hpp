// SPDX-License-Identifier: Apache-2.0
// A network of dense layers in bf16 by hand: cuBLASLt's products with fused bias and ReLU, each with the fastest of its
// proposed algorithms, captured into one CUDA graph with the copies from and to pinned memory.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "sluice/base/half.hpp"

struct CUstream_st;

namespace sluice::bench {

struct layer_by_hand {
    std::size_t in = 0, out = 0;
    std::vector<bfloat16> weight;  // {out, in}
    std::vector<bfloat16> bias;
    bool relu = false;
};

class network_by_hand {
public:
    // `pieces`: the rows of each piece; one piece's copy overlaps with another's computing. Small copies are kernels.
    // `input` is pinned memory and must outlive the graph.
    network_by_hand(const std::vector<layer_by_hand>& layers, const std::vector<std::size_t>& pieces,
                    const bfloat16* input);
    network_by_hand(const network_by_hand&) = delete;  // it owns a graph
    network_by_hand& operator=(const network_by_hand&) = delete;
    ~network_by_hand();

    void run();  // launches the graph and waits
    std::span<const bfloat16> output() const;

private:
    struct state;
    std::unique_ptr<state> state_;
};

// Copies between pinned memory and the device, rounded up to a multiple of 16 bytes.
void copy_by_kernel(void* to, const void* from, std::size_t bytes, CUstream_st* on);

}  // namespace sluice::bench
