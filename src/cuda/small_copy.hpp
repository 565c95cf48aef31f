// SPDX-License-Identifier: Apache-2.0
// Small copies between the host's pinned memory and the device, and small fills, by kernels. In a graph, the hand-over
// from a kernel to a copy engine and back takes longer than such a copy. Measured on an H200: 100 KB in, three products
// and 1 KB out take 35 us with the copy engines and 23 us with kernels.
//
// Copies of several rows are made by the kernel too, of any size and also inside the device: the driver sets addresses
// of copy nodes only if they copy one row, so other copy nodes would be instantiated again with each new address.
#pragma once

#include <cstddef>

#include "sluice/runtime/command.hpp"

namespace sluice::cuda {

struct small_copy_closure {
    void* to;
    const void* from;
    std::size_t bytes;  // of one row
    copied_rows rows = {};
    bool works_first = false;  // before it waits for the kernels before it: see root_chains
};

constexpr std::size_t most_fills = 8;

struct small_fill_closure {
    struct area {
        void* to;
        std::size_t bytes;
        unsigned value;  // of each byte
    };
    area areas[most_fills];
    unsigned count;
    bool works_first = false;
};

// Whether a kernel should copy it. Memory with an owner may be pageable, and a kernel cannot access that.
bool is_small_copy(const copy_command& copy) noexcept;
bool is_small_fill(const fill_command& fill) noexcept;

// The launches, which may start early; `closure` must outlive their use.
launch_command small_copy(const small_copy_closure& closure);
launch_command small_fill(const small_fill_closure& closure);

}  // namespace sluice::cuda
