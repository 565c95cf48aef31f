// SPDX-License-Identifier: Apache-2.0
// What the fuzzer does with one message of an infer request over gRPC.
#pragma once

#include <algorithm>
#include <climits>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <inference.pb.h>
#include "serve/grpc/infer_message.hpp"
#include "sluice/serve/refusal.hpp"

namespace sluice::serve::fuzz {

inline const std::vector<nn::value_info>& known_inputs() {
    static const std::vector<nn::value_info> all{{"x", io::dtype::f32, std::vector<nn::dimension>(2)},
                                                 {"y", io::dtype::i8, std::vector<nn::dimension>(2)}};
    return all;
}

// Empty: it is refused.
inline std::optional<infer_message> read_if_right(std::span<const std::byte> message, bool is_streamed) {
    static const std::vector<nn::value_info> outputs{{"z", io::dtype::f32, std::vector<nn::dimension>(2)}};
    const shared_memory_access no_region{std::make_shared<shared_regions>(), nullptr};
    try {
        return read_infer_message(message, read_infer_head(message), known_inputs(), outputs, no_region, is_streamed);
    } catch (const refusal&) {
        return std::nullopt;
    }
}

inline void require(bool holds) {
    if (!holds) std::abort();
}

// The elements of one input as protobuf gives them.
inline std::string elements_of(const inference::ModelInferRequest& from, const std::string& name) {
    int raw = 0;
    for (const auto& each : from.inputs()) {
        if (each.name() != name) {
            ++raw;
            continue;
        }
        if (from.raw_input_contents_size() != 0) return from.raw_input_contents(raw);
        std::string made;
        for (const float one : each.contents().fp32_contents()) made.append(reinterpret_cast<const char*>(&one), 4);
        for (const int one : each.contents().int_contents()) made += static_cast<char>(one);
        return made;
    }
    return {};
}

inline void require_same(const infer_message& a, const infer_message& b) {
    require(a.timeout == b.timeout && a.priority == b.priority && a.says_final == b.says_final);
    require(std::ranges::equal(a.outputs, b.outputs, {}, &infer_message::chosen_output::index,
                               &infer_message::chosen_output::index));
    for (std::size_t i = 0; i < a.inputs.size(); ++i) {
        require(a.inputs[i].type == b.inputs[i].type);
        require(std::ranges::equal(a.inputs[i].shape.lengths(), b.inputs[i].shape.lengths()));
        require(std::ranges::equal(a.inputs[i].bytes, b.inputs[i].bytes));
    }
}

// A refusal is correct; what is accepted must be whole, and what protobuf has read. What protobuf does not parse must
// be refused, and a message that it has written again must be read as the one before. The first byte says whether the
// message came in a stream.
inline void read_grpc_message(std::span<const std::byte> file) {
    if (file.empty() || file.size() > INT_MAX) return;
    const bool is_streamed = (file[0] & std::byte{1}) != std::byte{0};
    const std::span<const std::byte> bytes = file.subspan(1);
    const auto got = read_if_right(bytes, is_streamed);
    inference::ModelInferRequest message;
    if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return require(!got);
    message.DiscardUnknownFields();
    const std::string written = message.SerializeAsString();
    const auto again = read_if_right(std::as_bytes(std::span(written)), is_streamed);
    require(got.has_value() == again.has_value());
    if (!got) return;
    require_same(*got, *again);
    require(got->inputs.size() == known_inputs().size());
    for (std::size_t i = 0; i < got->inputs.size(); ++i) {
        const std::string elements = elements_of(message, known_inputs()[i].name);
        require(std::ranges::equal(got->inputs[i].bytes, std::as_bytes(std::span(elements))));
    }
    for (const auto& each : got->outputs) require(each.index == 0);
}

}  // namespace sluice::serve::fuzz
