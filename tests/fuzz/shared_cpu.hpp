// SPDX-License-Identifier: Apache-2.0
// The device on which fuzzers run networks.
#pragma once

#include <cstddef>

#include "sluice/runtime/runtime.hpp"
#include "sluice/runtime/scheduling_policy.hpp"

namespace sluice::nn::fuzz {

// With so little memory a network that asks for much is refused, as it is on a device with much.
struct cpu {
    runtime machine{runtime_options{.cpu_workers = 1, .cpu_memory_bytes = std::size_t{256} << 20, .cuda = false}};
    round_robin pool{machine.find("cpu:0"), 1};
};

inline cpu& shared_cpu() {
    static cpu& made = *new cpu;  // never destroyed: a fuzzer ends anywhere
    return made;
}

}  // namespace sluice::nn::fuzz
