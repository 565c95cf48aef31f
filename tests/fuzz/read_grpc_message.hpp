// SPDX-License-Identifier: Apache-2.0
// What the fuzzer does with one message of an infer request over gRPC.
#pragma once

#include <climits>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <span>
#include <vector>

#include "serve/grpc/infer_message.hpp"
#include "sluice/serve/refusal.hpp"

namespace sluice::serve::fuzz {

// A refusal is correct; what is accepted must be whole: each input in memory that is there, outputs that exist. The
// first byte says whether the message came in a stream.
inline void read_grpc_message(std::span<const std::byte> file) {
    if (file.empty() || file.size() > INT_MAX) return;
    inference::ModelInferRequest message;
    if (!message.ParseFromArray(file.data() + 1, static_cast<int>(file.size() - 1))) return;  // gRPC refuses it
    const auto value = [](const char* name, io::dtype type) {
        return nn::value_info{name, type, std::vector<nn::dimension>(2)};
    };
    const std::vector<nn::value_info> inputs{value("x", io::dtype::f32), value("y", io::dtype::i8)};
    const std::vector<nn::value_info> outputs{value("z", io::dtype::f32)};
    const shared_memory_access no_region{std::make_shared<shared_regions>(), nullptr};
    infer_message got;
    try {
        got = read_infer_message(message, inputs, outputs, no_region, (file[0] & std::byte{1}) != std::byte{0});
    } catch (const refusal&) {
        return;
    }
    if (got.inputs.size() != inputs.size()) std::abort();
    unsigned sum = 0;
    for (const tensor_view& each : got.inputs)
        for (const std::byte one : each.bytes) sum += std::to_integer<unsigned>(one);
    if (sum == ~0U) std::abort();  // the sum is used
    for (const auto& each : got.outputs)
        if (each.index >= outputs.size()) std::abort();
}

}  // namespace sluice::serve::fuzz
