// SPDX-License-Identifier: Apache-2.0
#include "tensor_reader.hpp"

#include <onnx.pb.h>

#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "sluice/base/printable.hpp"

namespace sluice::nn::detail {
namespace {

struct element_type {
    std::string_view name;          // in ONNX
    std::optional<io::dtype> type;  // none: not supported
};
// By the number that a file has. Of texts the network sees the numbers. The complex and the narrow types are in models
// that no ordinary exporter writes.
constexpr std::array<element_type, 25> element_types = {{
    {"UNDEFINED", {}},
    {"FLOAT", io::dtype::f32},
    {"UINT8", io::dtype::u8},
    {"INT8", io::dtype::i8},
    {"UINT16", io::dtype::u16},
    {"INT16", io::dtype::i16},
    {"INT32", io::dtype::i32},
    {"INT64", io::dtype::i64},
    {"STRING", io::dtype::i64},
    {"BOOL", io::dtype::boolean},
    {"FLOAT16", io::dtype::f16},
    {"DOUBLE", io::dtype::f64},
    {"UINT32", io::dtype::u32},
    {"UINT64", io::dtype::u64},
    {"COMPLEX64", {}},
    {"COMPLEX128", {}},
    {"BFLOAT16", io::dtype::bf16},
    {"FLOAT8E4M3FN", {}},
    {"FLOAT8E4M3FNUZ", {}},
    {"FLOAT8E5M2", {}},
    {"FLOAT8E5M2FNUZ", {}},
    {"UINT4", {}},
    {"INT4", {}},
    {"FLOAT4E2M1", {}},
    {"FLOAT8E8M0", {}},
}};

// Constants with few elements that are not 0 may be much larger than their file. All of them become no larger than
// that.
constexpr std::size_t most_zeros_of_any = std::size_t{64} << 20U, most_zeros_for_each_byte = 64;

}  // namespace

void refuse_onnx(const std::filesystem::path& path, std::string_view field, std::string_view why) {
    throw file_error(path, file_error::no_offset, field, why);
}

io::dtype tensor_reader::type_of(std::string_view field, std::int32_t number) const {
    const bool is_known = number >= 0 && std::size_t(number) < element_types.size();
    if (is_known && element_types[std::size_t(number)].type) return *element_types[std::size_t(number)].type;
    std::string accepted;
    for (const element_type& each : element_types) {
        if (each.type) accepted += (accepted.empty() ? "" : ", ") + std::string(each.name);
    }
    refuse(field, "has elements of type " +
                      (is_known ? std::string(element_types[std::size_t(number)].name) : std::to_string(number)) +
                      "; supported are " + accepted);
}

// The bytes of a tensor whose elements are in a field of numbers, each narrowed to its type.
template <typename Narrow, typename Numbers>
std::string tensor_reader::narrowed(const std::string& label, const Numbers& numbers) const {
    std::string bytes(std::size_t(numbers.size()) * sizeof(Narrow), '\0');
    char* to = bytes.data();
    for (const auto each : numbers) {
        const auto narrow = static_cast<Narrow>(each);
        if constexpr (std::is_integral_v<Narrow>) {
            if (static_cast<std::remove_cvref_t<decltype(each)>>(narrow) != each)
                refuse(label, "has the number " + std::to_string(each) + ", which its type cannot hold");
        }
        std::memcpy(to, &narrow, sizeof(narrow));
        to += sizeof(narrow);
    }
    return bytes;
}

std::string tensor_reader::numbers_in(const std::string& label, const onnx::TensorProto& from, io::dtype type) const {
    using enum io::dtype;
    switch (type) {
        case f32: return narrowed<float>(label, from.float_data());
        case f64: return narrowed<double>(label, from.double_data());
        case i8: return narrowed<std::int8_t>(label, from.int32_data());
        case i16: return narrowed<std::int16_t>(label, from.int32_data());
        case i32: return narrowed<std::int32_t>(label, from.int32_data());
        case i64: return narrowed<std::int64_t>(label, from.int64_data());
        case u8:
        case boolean: return narrowed<std::uint8_t>(label, from.int32_data());
        case f16:
        case bf16:
        case u16: return narrowed<std::uint16_t>(label, from.int32_data());
        case u32: return narrowed<std::uint32_t>(label, from.uint64_data());
        case u64: return narrowed<std::uint64_t>(label, from.uint64_data());
    }
    refuse(label, "has no type");
}

std::int64_t tensor_reader::number_of(const std::string& text) {
    const auto [known, is_new] = numbers_.emplace(text, std::int64_t(texts_.size()));
    if (is_new) texts_.push_back(text);
    return known->second;
}

std::string tensor_reader::texts_in(const std::string& label, const onnx::TensorProto& from, std::size_t elements) {
    if (std::size_t(from.string_data_size()) != elements)
        refuse(label, "has " + std::to_string(from.string_data_size()) + " texts; its shape needs " +
                          std::to_string(elements));
    std::string bytes(elements * sizeof(std::int64_t), '\0');
    char* to = bytes.data();
    for (const std::string& each : from.string_data()) {
        const std::int64_t number = number_of(each);
        std::memcpy(to, &number, sizeof(number));
        to += sizeof(number);
    }
    return bytes;
}

constant tensor_reader::read(onnx::TensorProto& from, const std::string& label) {
    require_known(path_, label, from);
    if (from.has_segment()) refuse(label, "is a segment of a tensor, which is not supported");
    constant made{
        .type = type_of(label, from.data_type()), .shape = {}, .bytes = {}, .is_text = is_text(from.data_type())};
    for (const std::int64_t each : from.dims()) {
        if (each < 0) refuse(label, "has a negative dimension");
        made.shape.push_back(std::size_t(each));
    }
    const std::optional<std::size_t> size = io::byte_count(made.shape, made.type);
    if (!size) refuse(label, "has more elements than memory has addresses");

    const int numbers = from.float_data_size() + from.int32_data_size() + from.int64_data_size() +
                        from.double_data_size() + from.uint64_data_size() + from.string_data_size();
    std::string bytes;
    if (made.is_text && (from.data_location() != 0 || from.external_data_size() != 0 || from.has_raw_data()))
        refuse(label, "has texts outside of the field for texts");
    if (from.data_location() != 0 || from.external_data_size() != 0) {
        if (from.data_location() != 1) refuse(label, "does not say whether its data is in the file or outside");
        if (numbers != 0 || from.has_raw_data()) refuse(label, "has data in the file and outside");
        bytes = external_.read(label, from, *size);
    } else if (from.has_raw_data()) {
        if (numbers != 0) refuse(label, "has its data twice");
        bytes = std::move(*from.mutable_raw_data());
    } else {
        bytes = is_text(from.data_type()) ? texts_in(label, from, *size / io::size_of(made.type))
                                          : numbers_in(label, from, made.type);
        if (std::size_t(numbers) * io::size_of(made.type) != bytes.size())
            refuse(label, "has numbers in a field that is not its type's");
    }
    if (bytes.size() != *size) {
        refuse(label, "has " + std::to_string(bytes.size()) + " bytes of data; its type and shape need " +
                          std::to_string(*size));
    }
    made.bytes = std::make_shared<const std::string>(std::move(bytes));
    return made;
}

constant tensor_reader::read(onnx::SparseTensorProto& from, const std::string& label) {
    require_known(path_, label, from);
    const constant values = read(*from.mutable_values(), label + ": values");
    const constant indices = read(*from.mutable_indices(), label + ": indices");
    if (values.is_text) refuse(label, "is a sparse tensor of texts");
    constant made{.type = values.type, .shape = {}, .bytes = {}};
    for (const std::int64_t each : from.dims()) {
        if (each < 0) refuse(label, "has a negative dimension");
        made.shape.push_back(std::size_t(each));
    }
    const std::optional<std::size_t> size = io::byte_count(made.shape, made.type);
    const std::size_t given = values.bytes->size() + indices.bytes->size();
    sparse_bytes_ += given;
    const std::size_t most = most_zeros_of_any + sparse_bytes_ * most_zeros_for_each_byte;
    if (!size || *size > most || dense_bytes_ > most - *size)
        refuse(label, "is a sparse tensor whose " + std::to_string(given) + " bytes stand for too many elements");
    dense_bytes_ += *size;
    const std::size_t count = values.elements(), rank = made.shape.size(), bytes = io::size_of(made.type);
    // Each element has one place, or a place for each dimension.
    const bool is_linear = indices.shape == std::vector{count};
    if (values.shape.size() != 1 || indices.type != io::dtype::i64 || indices.is_text ||
        (!is_linear && indices.shape != std::vector{count, rank}))
        refuse(label, "has indices that do not fit its values");
    const std::size_t elements = *size / bytes;
    std::string dense(*size, '\0');
    const char* place = indices.bytes->data();
    for (std::size_t i = 0; i < count; ++i) {
        std::size_t at = 0;
        for (std::size_t d = 0; d < (is_linear ? 1 : rank); ++d) {
            std::int64_t index = 0;
            std::memcpy(&index, place, sizeof(index));
            place += sizeof(index);
            const std::size_t length = is_linear ? elements : made.shape[d];
            if (index < 0 || std::size_t(index) >= length)
                refuse(label, "has the index " + std::to_string(index) + " for a length of " + std::to_string(length));
            at = at * length + std::size_t(index);
        }
        std::memcpy(dense.data() + at * bytes, values.bytes->data() + i * bytes, bytes);
    }
    made.bytes = std::make_shared<const std::string>(std::move(dense));
    return made;
}

}  // namespace sluice::nn::detail
