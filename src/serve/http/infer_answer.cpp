// SPDX-License-Identifier: Apache-2.0
#include "serve/http/infer_answer.hpp"

#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "serve/text_elements.hpp"
#include "sluice/base/printable.hpp"

namespace sluice::serve {
namespace {

template <typename T>
void append_number(std::string& to, T value) {
    char text[32];
    const auto end = std::to_chars(text, text + sizeof(text), value).ptr;
    to.append(text, end);
    // "-0" is a whole number for many readers, which have no sign for it.
    if constexpr (std::is_floating_point_v<T>) {
        if (value == 0 && std::signbit(value)) to += ".0";
    }
}

[[noreturn]] void refuse_no_number(const std::string& name) {
    throw refusal(refusal_kind::bad_request, "output " + in_quotes(name) +
                                                 " has an element that is NaN or infinite, which JSON cannot say; "
                                                 "request it as binary data (the parameter binary_data)");
}

template <typename Stored, typename Shown = Stored>
void append_elements(std::string& to, const tensor_view& from, const std::string& name) {
    for (std::size_t at = 0; at < from.bytes.size(); at += sizeof(Stored)) {
        Stored stored{};
        std::memcpy(&stored, from.bytes.data() + at, sizeof(Stored));
        const auto value = static_cast<Shown>(stored);
        if (at != 0) to += ',';
        if constexpr (std::is_floating_point_v<Shown>) {
            if (!std::isfinite(value)) refuse_no_number(name);
        }
        append_number(to, value);
    }
}

void append_bools(std::string& to, const tensor_view& from) {
    for (std::size_t i = 0; i < from.bytes.size(); ++i) {
        if (i != 0) to += ',';
        to += from.bytes[i] != std::byte{0} ? "true" : "false";
    }
}

void append_texts(std::string& to, const tensor_view& from) {
    bool is_first = true;
    each_text(from.bytes, [&](std::string_view text) {
        if (!std::exchange(is_first, false)) to += ',';
        append_json_text(to, text);
    });
}

void append_data(std::string& to, const tensor_view& from, const std::string& name) {
    switch (from.type) {
        case io::dtype::f16: return append_elements<half, float>(to, from, name);
        case io::dtype::bf16: return append_elements<bfloat16, float>(to, from, name);
        case io::dtype::f32: return append_elements<float>(to, from, name);
        case io::dtype::f64: return append_elements<double>(to, from, name);
        case io::dtype::i8: return append_elements<std::int8_t>(to, from, name);
        case io::dtype::u8: return append_elements<std::uint8_t>(to, from, name);
        case io::dtype::i16: return append_elements<std::int16_t>(to, from, name);
        case io::dtype::u16: return append_elements<std::uint16_t>(to, from, name);
        case io::dtype::i32: return append_elements<std::int32_t>(to, from, name);
        case io::dtype::u32: return append_elements<std::uint32_t>(to, from, name);
        case io::dtype::i64: return append_elements<std::int64_t>(to, from, name);
        case io::dtype::u64: return append_elements<std::uint64_t>(to, from, name);
        case io::dtype::boolean: return append_bools(to, from);
    }
}

void append_place(std::string& to, const output_place& place, std::size_t bytes) {
    to += R"(],"parameters":{"shared_memory_region":)";
    append_json_text(to, place.region->name());
    to += R"(,"shared_memory_byte_size":)";
    append_number(to, bytes);
    if (place.offset != 0) {
        to += R"(,"shared_memory_offset":)";
        append_number(to, place.offset);
    }
    to += "}}";
}

void append_output(std::string& to, const tensor_view& from, const nn::value_info& info, const chosen_output& how) {
    const std::string& name = info.name;
    to += R"({"name":)";
    append_json_text(to, name);
    to += R"(,"datatype":")";
    to += datatype_of(info);
    to += R"(","shape":[)";
    for (std::size_t i = 0; i < from.shape.rank(); ++i) {
        if (i != 0) to += ',';
        append_number(to, from.shape[i]);
    }
    if (how.place.region) {
        how.place.write(from.bytes, "output " + in_quotes(name));
        return append_place(to, how.place, from.bytes.size());
    }
    if (how.is_binary) {
        to += R"(],"parameters":{"binary_data_size":)";
        append_number(to, from.bytes.size());
        to += "}}";
        return;
    }
    to += R"(],"data":[)";
    if (info.is_text) {
        append_texts(to, from);
    } else {
        append_data(to, from, name);
    }
    to += "]}";
}

}  // namespace

void append_json_text(std::string& to, std::string_view text) {
    constexpr char digits[] = "0123456789abcdef";
    to += '"';
    for (const char each : text) {
        if (each == '"' || each == '\\') {
            to += '\\';
            to += each;
        } else if (static_cast<unsigned char>(each) < 0x20) {
            to += "\\u00";
            to += digits[static_cast<unsigned char>(each) >> 4];
            to += digits[static_cast<unsigned char>(each) & 15];
        } else {
            to += each;
        }
    }
    to += '"';
}

std::optional<std::size_t> write_infer_answer(std::string& to, const served_model& model, const infer_body& request,
                                              std::span<const tensor_view> computed) {
    const protocol_outputs outputs(model.network(), computed, request.outputs);
    to.clear();
    to += R"({"model_name":)";
    append_json_text(to, model.name());
    to += R"(,"model_version":")";
    append_number(to, model.version());
    to += '"';
    if (request.has_id) {
        to += R"(,"id":)";
        append_json_text(to, request.id);
    }
    to += R"(,"outputs":[)";
    bool is_first = true, has_binary = false;
    for (const chosen_output& each : request.outputs) {
        if (!std::exchange(is_first, false)) to += ',';
        append_output(to, outputs[each.index], model.network().outputs()[each.index], each);
        has_binary = has_binary || each.is_binary;
    }
    to += "]}";
    if (!has_binary) return std::nullopt;
    const std::size_t json_bytes = to.size();
    for (const chosen_output& each : request.outputs) {
        if (!each.is_binary) continue;
        const auto bytes = outputs[each.index].bytes;
        to.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }
    return json_bytes;
}

}  // namespace sluice::serve
