// SPDX-License-Identifier: Apache-2.0
// What the fuzzer does with one ONNX file after it was read: it makes the network for a CPU, with all passes, and runs
// it on zeros.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "fuzz/read_onnx.hpp"
#include "fuzz/shared_cpu.hpp"
#include "sluice/base/error.hpp"
#include "sluice/nn/network.hpp"
#include "sluice/nn/precision.hpp"
#include "sluice/runtime/sync.hpp"

namespace sluice::nn::fuzz {

// A network may say that it computes a million rounds.
inline bool may_take_long(const graph& of) {
    return std::ranges::any_of(of.nodes, [](const node& each) {
        return each.op == "Loop" || each.op == "Scan" || std::ranges::any_of(each.attributes, [](const auto& one) {
                   const auto* const inner = std::get_if<std::shared_ptr<const graph>>(&one.second);
                   return inner != nullptr && may_take_long(**inner);
               });
    });
}

// Of the input's shape; 2 for each length that is not known. Nothing if that is much.
inline std::optional<any_tensor> zeros_for(const value_info& input) {
    constexpr std::size_t most_bytes = 1 << 16;
    constant made{input.type, {}, nullptr};
    if (input.shape)
        for (const dimension& each : *input.shape) made.shape.push_back(each.length.value_or(2));
    const auto bytes = io::byte_count(made.shape, made.type);
    if (!bytes || *bytes > most_bytes) return {};
    made.bytes = std::make_shared<const std::string>(*bytes, '\0');
    return any_tensor(made);
}

inline precision precision_for(std::span<const std::byte> file) { return static_cast<precision>(file.size() % 4); }

// A refusal (error) is correct, when the network is made and when it runs. The precision is one for each file.
inline void run_onnx(std::span<const std::byte> file) {
    read_onnx(file);
    try {
        const model from = nn::read_onnx(file, "fuzz.onnx");
        const bool is_run = !may_take_long(from.body);
        cpu& on = shared_cpu();
        const network made = sync(make_network(from, {.own = {}, .precision = precision_for(file)}), on.pool);
        static_cast<void>(made.steps());
        std::vector<any_tensor> inputs;
        for (const value_info& each : from.body.inputs) {
            std::optional<any_tensor> zeros = zeros_for(each);
            if (!zeros) return;
            inputs.push_back(std::move(*zeros));
        }
        if (!is_run) return;
        const std::vector<any_tensor> outputs = sync(made.run(inputs), on.pool);
        if (outputs.size() != from.body.outputs.size()) std::abort();
        for (const any_tensor& each : outputs)
            if (each && each.size_bytes() != each.bytes().size()) std::abort();
    } catch (const error&) {
    }
}

}  // namespace sluice::nn::fuzz
