// SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include "fuzz/read_infer_body.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    sluice::serve::fuzz::read_infer_body(std::as_bytes(std::span(data, size)));
    return 0;
}
