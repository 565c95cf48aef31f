// SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include "fuzz/read_config_pbtxt.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    sluice::serve::fuzz::read_config_pbtxt(std::as_bytes(std::span(data, size)));
    return 0;
}
