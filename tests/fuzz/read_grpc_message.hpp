// SPDX-License-Identifier: Apache-2.0
// What the fuzzer does with one message of an infer request over gRPC.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <google/protobuf/stubs/logging.h>
#include <inference.pb.h>
#include "serve/grpc/infer_message.hpp"
#include "serve/support/shared_object.hpp"
#include "sluice/serve/refusal.hpp"

namespace sluice::serve::fuzz {

inline void require(bool holds) {
    if (!holds) std::abort();
}

// The model takes x and y, and gives z and w. Clients share the region "a" with the server.
struct read_message {
    infer_head head;
    infer_message message;
};

class message_reader {
public:
    explicit message_reader(bool is_streamed) noexcept : is_streamed_(is_streamed) {}

    // Empty: it is refused.
    std::optional<read_message> read(std::span<const std::byte> message) const {
        static const std::vector<nn::value_info> outputs{{"z", io::dtype::f32, std::vector<nn::dimension>(2)},
                                                         {"w", io::dtype::f32, std::vector<nn::dimension>(2)}};
        try {
            read_message made{read_infer_head(message), {}};
            made.message =
                read_infer_message(message, made.head, inputs(), outputs, {}, {regions(), nullptr}, is_streamed_);
            return made;
        } catch (const refusal&) {
            return std::nullopt;
        }
    }

    // The request says the types, and the model whether they are right.
    static const std::vector<nn::value_info>& inputs() {
        static const std::vector<nn::value_info> all{{"x", io::dtype::f32, std::vector<nn::dimension>(2)},
                                                     {"y", io::dtype::i8, std::vector<nn::dimension>(2)}};
        return all;
    }
    bool is_streamed() const noexcept { return is_streamed_; }

    static constexpr std::size_t region_bytes = 32;
    static const std::shared_ptr<shared_regions>& regions() {
        static const auto made = [] {
            const testing::shared_object object(region_bytes + 1);
            object.put(0, {1, 2, 3, 4, 5, 6, 7, 8});
            auto all = std::make_shared<shared_regions>();
            all->add("a", object.key(), 1, region_bytes);  // it stays open
            return all;
        }();
        return made;
    }

private:
    bool is_streamed_;
};

// --- what protobuf has read ---

using parameter_map = google::protobuf::Map<std::string, inference::InferParameter>;

// Of a parameter that is there.
inline std::uint64_t count_in(const parameter_map& from, const std::string& key) {
    const inference::InferParameter& its = from.at(key);
    require(its.has_uint64_param() || (its.has_int64_param() && its.int64_param() >= 0));
    return its.has_uint64_param() ? its.uint64_param() : static_cast<std::uint64_t>(its.int64_param());
}

// The elements of a field, as a tensor has them.
template <typename T, typename Field>
std::string bytes_of(const Field& from) {
    std::string made;
    for (const auto each : from) {
        const auto value = static_cast<T>(each);
        made.append(reinterpret_cast<const char*>(&value), sizeof(value));
    }
    return made;
}

inline std::string contents_of(const inference::InferTensorContents& from, io::dtype type) {
    switch (type) {
        case io::dtype::boolean: return bytes_of<bool>(from.bool_contents());
        case io::dtype::i8: return bytes_of<std::int8_t>(from.int_contents());
        case io::dtype::i16: return bytes_of<std::int16_t>(from.int_contents());
        case io::dtype::i32: return bytes_of<std::int32_t>(from.int_contents());
        case io::dtype::i64: return bytes_of<std::int64_t>(from.int64_contents());
        case io::dtype::u8: return bytes_of<std::uint8_t>(from.uint_contents());
        case io::dtype::u16: return bytes_of<std::uint16_t>(from.uint_contents());
        case io::dtype::u32: return bytes_of<std::uint32_t>(from.uint_contents());
        case io::dtype::u64: return bytes_of<std::uint64_t>(from.uint64_contents());
        case io::dtype::f32: return bytes_of<float>(from.fp32_contents());
        case io::dtype::f64: return bytes_of<double>(from.fp64_contents());
        case io::dtype::f16:
        case io::dtype::bf16: break;
    }
    std::abort();  // they have no field
}

// 0, false or an empty text.
inline bool says_nothing(const inference::InferParameter& its) {
    return !its.bool_param() && its.int64_param() == 0 && its.string_param().empty() && its.uint64_param() == 0 &&
           std::bit_cast<std::uint64_t>(its.double_param()) == 0;
}

// What has no effect is custom, or says nothing.
inline void require_passed_over(const std::string& key, const inference::InferParameter& its) {
    const bool has_meaning = key == "sequence_id" || key == "sequence_start" || key == "sequence_end" ||
                             key == "classification" || key == "headers" || key.starts_with("triton_");
    require(!has_meaning || says_nothing(its));
}

inline bool is_of_region(const std::string& key) {
    return key == "shared_memory_region" || key == "shared_memory_byte_size" || key == "shared_memory_offset";
}
inline bool has_region(const parameter_map& from) {
    bool found = false;
    for (const auto& [key, value] : from) {
        if (is_of_region(key))
            found = true;
        else
            require_passed_over(key, value);
    }
    return found;
}

inline std::string region_part(const parameter_map& from) {
    require(from.at("shared_memory_region").string_param() == "a");
    const std::uint64_t bytes = count_in(from, "shared_memory_byte_size");
    const std::uint64_t offset =
        from.contains("shared_memory_offset") ? count_in(from, "shared_memory_offset") : std::uint64_t{0};
    require(bytes <= message_reader::region_bytes && offset <= message_reader::region_bytes - bytes);
    std::string made(bytes, '\0');
    message_reader::regions()->find("a")->read(offset, std::as_writable_bytes(std::span(made)));
    return made;
}

// `raw`: the next entry of raw_input_contents.
inline void require_input(const tensor_view& got, const inference::ModelInferRequest::InferInputTensor& wanted,
                          const inference::ModelInferRequest& message, int& raw) {
    require(datatype_of(got.type) == wanted.datatype());
    require(std::ranges::equal(got.shape.lengths(), wanted.shape(), [](std::size_t a, std::int64_t b) {
        return b >= 0 && a == static_cast<std::size_t>(b);
    }));
    std::string elements;
    if (has_region(wanted.parameters()))
        elements = region_part(wanted.parameters());
    else if (message.raw_input_contents_size() != 0)
        elements = message.raw_input_contents(raw++);
    else
        elements = contents_of(wanted.contents(), got.type);
    require(std::ranges::equal(got.bytes, std::as_bytes(std::span(elements))));
}

inline void require_parameters(const infer_message& got, const parameter_map& wanted, bool is_streamed) {
    const std::uint64_t timeout = wanted.contains("timeout") ? count_in(wanted, "timeout") : std::uint64_t{0};
    require(static_cast<std::uint64_t>(got.timeout.value_or(std::chrono::microseconds(0)).count()) == timeout);
    require(got.priority == (wanted.contains("priority") ? count_in(wanted, "priority") : 0));
    const std::string says_final = "triton_enable_empty_final_response";
    const bool is_asked = wanted.contains(says_final) && wanted.at(says_final).bool_param();
    require(got.says_final == (is_asked && is_streamed));
    for (const auto& [key, value] : wanted)
        if (key != "timeout" && key != "priority" && key != says_final) require_passed_over(key, value);
}

inline void require_outputs(const infer_message& got, const inference::ModelInferRequest& wanted) {
    std::vector<std::size_t> chosen;
    for (const auto& each : wanted.outputs()) {
        require(each.name() == "z" || each.name() == "w");
        chosen.push_back(each.name() == "z" ? 0 : 1);
    }
    if (chosen.empty()) chosen = {0, 1};
    require(std::ranges::equal(got.outputs, chosen, {}, &infer_message::chosen_output::index));
    for (int i = 0; i < wanted.outputs_size(); ++i) {
        const parameter_map& where = wanted.outputs(i).parameters();
        const output_place& place = got.outputs[static_cast<std::size_t>(i)].place;
        const bool is_placed = has_region(where);
        require((place.region != nullptr) == is_placed);
        if (!is_placed) continue;
        require(place.bytes == count_in(where, "shared_memory_byte_size"));
        require(place.offset == (where.contains("shared_memory_offset") ? count_in(where, "shared_memory_offset") : 0));
    }
}

// What was accepted is what protobuf has read.
inline void require_same(const read_message& got, const inference::ModelInferRequest& wanted,
                         const message_reader& reader) {
    require(got.head.model_name == wanted.model_name() && got.head.model_version == wanted.model_version());
    require(got.head.id == wanted.id());
    require_parameters(got.message, wanted.parameters(), reader.is_streamed());
    require_outputs(got.message, wanted);
    require(static_cast<std::size_t>(wanted.inputs_size()) == reader.inputs().size());
    int raw = 0;
    std::array<bool, 2> is_there{};
    for (const auto& each : wanted.inputs()) {
        const std::size_t index = each.name() == "x" ? 0 : 1;
        require(each.name() == reader.inputs()[index].name && !std::exchange(is_there.at(index), true));
        require_input(got.message.inputs[index], each, wanted, raw);
    }
    require(raw == wanted.raw_input_contents_size());
}

// A refusal is correct; what is accepted must be whole, and what protobuf has read. What protobuf does not parse must
// be refused, and a message that it has written again must be read as the one before. The first byte says whether the
// message came in a stream.
inline void read_grpc_message(std::span<const std::byte> file) {
    static const google::protobuf::LogSilencer quiet;
    if (file.empty() || file.size() > INT_MAX) return;
    const message_reader reader((file[0] & std::byte{1}) != std::byte{0});
    const std::span<const std::byte> bytes = file.subspan(1);
    const auto got = reader.read(bytes);
    inference::ModelInferRequest message;
    if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return require(!got);
    if (got) require_same(*got, message, reader);
    message.DiscardUnknownFields();
    const std::string written = message.SerializeAsString();
    const auto again = reader.read(std::as_bytes(std::span(written)));
    require(got.has_value() == again.has_value());
    if (again) require_same(*again, message, reader);
}

}  // namespace sluice::serve::fuzz
