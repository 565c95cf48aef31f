// SPDX-License-Identifier: Apache-2.0
// What the fuzzer does with one body of an infer request.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "serve/http/infer_body.hpp"
#include "sluice/serve/refusal.hpp"

namespace sluice::serve::fuzz {

// The first two bytes say how long the JSON is; 0xffff: the body has no binary data. A refusal is correct; what is
// accepted must be whole: each input in memory that is there, outputs that exist.
inline void read_infer_body(std::span<const std::byte> file) {
    if (file.size() < 2) return;
    const std::size_t length = std::to_integer<std::size_t>(file[0]) | std::to_integer<std::size_t>(file[1]) << 8;
    std::string body(reinterpret_cast<const char*>(file.data()) + 2, file.size() - 2);
    const std::string before = body;
    const auto value = [](const char* name, io::dtype type) {
        return nn::value_info{name, type, std::vector<nn::dimension>(2)};
    };
    std::vector<nn::value_info> inputs{value("x", io::dtype::f32), value("y", io::dtype::i64)};
    static const nn::text_codes texts(std::vector<std::string>{"a", "bc"});
    inputs[1].is_text = body.find("BYTES") != std::string::npos;
    const std::vector<nn::value_info> outputs{value("z", io::dtype::f32)};
    static infer_body_reader reader(1 << 16);  // as one serves all requests of a thread
    static const shared_memory_access no_regions{std::make_shared<shared_regions>(), nullptr};
    infer_body got;
    try {
        reader.read(body, length == 0xffff ? std::nullopt : std::optional(length), inputs, outputs, texts, got,
                    no_regions);
    } catch (const refusal&) {
        return;
    }
    if (body != before || got.inputs.size() != inputs.size()) std::abort();
    for (const tensor_view& each : got.inputs) {
        const auto bytes = io::byte_count(each.shape.lengths(), each.type);
        if (!bytes) std::abort();
        // Binary data of another size than the shape's is refused by the model (require_inputs).
        unsigned sum = 0;
        for (const std::byte one : each.bytes) sum += std::to_integer<unsigned>(one);
        if (sum == ~0U) std::abort();  // the sum is used
    }
    for (const chosen_output& each : got.outputs)
        if (each.index >= outputs.size()) std::abort();
}

}  // namespace sluice::serve::fuzz
