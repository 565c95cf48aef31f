// SPDX-License-Identifier: Apache-2.0
// The closure of a collective's command: everything that the CPU or the NCCL implementation needs, by value.
#pragma once

#include <array>
#include <cstddef>

#include "sluice/devices/collectives.hpp"

namespace sluice::detail {

inline constexpr std::size_t most_ranks = 64;

struct collective_call {
    collective_form form;
    collective_group* group;  // null on CPU devices
    std::size_t ranks;
    struct ends {
        const void* in;
        void* out;
    };
    std::array<ends, most_ranks> parts;  // of each rank
};

// Runs on one worker, through the memory that CPU devices share.
void run_collective_on_host(const collective_call& call) noexcept;

// The NCCL ranks of a set of GPUs.
class collective_group {
public:
    collective_group() = default;
    collective_group(const collective_group&) = delete;  // communicators point to it
    collective_group& operator=(const collective_group&) = delete;
    virtual ~collective_group() = default;

    // Enqueues the call after the work on the stream, which then waits for its end. Throws device_error.
    virtual void run(const collective_call& call, const native_stream& on) = 0;

    // The group of these GPUs, created at first use and kept by the first GPU.
    static collective_group& of(const device_set& devices);
};

}  // namespace sluice::detail
