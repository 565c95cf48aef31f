// SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include "fuzz/run_onnx.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    sluice::nn::fuzz::run_onnx(std::as_bytes(std::span(data, size)));
    return 0;
}
