// SPDX-License-Identifier: Apache-2.0
#include "fuzz/read_worker_hatch.hpp"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
    sluice::serve::fuzz::read_worker_hatch(std::as_bytes(std::span(data, size)));
    return 0;
}
