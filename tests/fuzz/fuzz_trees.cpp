// SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include "fuzz/read_trees.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    sluice::nn::fuzz::read_trees(std::as_bytes(std::span(data, size)));
    return 0;
}
