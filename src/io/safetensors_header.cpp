// SPDX-License-Identifier: Apache-2.0
#include "safetensors_header.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "sluice/base/file_error.hpp"
#include "sluice/base/printable.hpp"

namespace sluice::io {
namespace {

constexpr std::size_t most_dimensions = 64;

std::optional<dtype> dtype_from_name(std::string_view name) {
    constexpr std::array<std::pair<std::string_view, dtype>, 13> names{{
        {"F16", dtype::f16},
        {"BF16", dtype::bf16},
        {"F32", dtype::f32},
        {"F64", dtype::f64},
        {"I8", dtype::i8},
        {"U8", dtype::u8},
        {"I16", dtype::i16},
        {"U16", dtype::u16},
        {"I32", dtype::i32},
        {"U32", dtype::u32},
        {"I64", dtype::i64},
        {"U64", dtype::u64},
        {"BOOL", dtype::boolean},
    }};
    for (const auto& [known, type] : names) {
        if (known == name) return type;
    }
    return std::nullopt;
}

// Reads characters and says how far the parser has come: its events carry no position.
class tracked_iterator {
public:
    using value_type = char;
    using difference_type = std::ptrdiff_t;
    using pointer = const char*;
    using reference = const char&;
    using iterator_category = std::input_iterator_tag;

    tracked_iterator(const char* at, const char** furthest) : at_(at), furthest_(furthest) {}
    reference operator*() const { return *at_; }
    tracked_iterator& operator++() {
        *furthest_ = ++at_;
        return *this;
    }
    tracked_iterator operator++(int) {
        tracked_iterator before = *this;
        ++*this;
        return before;
    }
    bool operator==(const tracked_iterator& other) const { return at_ == other.at_; }

private:
    const char* at_;
    const char** furthest_;
};

// Receives the parser's events. A document object model would be shorter, but it keeps the last of two equal keys
// and forgets the first. Neither the parser nor this class recurses, and the format is three levels deep, so
// nesting costs nothing: the first level too many is refused.
class header_reader : public nlohmann::json_sax<nlohmann::json> {
public:
    header_reader(std::string_view json, std::uint64_t data_bytes, const std::filesystem::path& path)
        : json_(json), data_bytes_(data_bytes), path_(path), furthest_(json.data()), token_end_(json.data()) {}

    safetensors_header read() {
        const char* const end = json_.data() + json_.size();
        // NOLINTNEXTLINE(bugprone-suspicious-stringview-data-usage): `end` is what it misses
        nlohmann::json::sax_parse(tracked_iterator(json_.data(), &furthest_), tracked_iterator(end, &furthest_), this);
        return std::move(header_);
    }

    bool null() override { refuse_value("null"); }
    bool boolean(bool) override { refuse_value("a boolean"); }
    bool binary(binary_t&) override { refuse_value("binary data"); }
    bool number_integer(number_integer_t) override { refuse_value("a negative number"); }
    bool number_float(number_float_t, const string_t&) override {
        refuse_value("a number that is fractional or too large");
    }

    bool number_unsigned(number_unsigned_t value) override {
        if (level_ == level::shape) {
            if (tensor_.shape.size() == most_dimensions) {
                refuse(token_start(), field(), "more than " + std::to_string(most_dimensions) + " dimensions");
            }
            tensor_.shape.push_back(value);
        } else if (level_ == level::offsets) {
            if (offsets_read_ == 2) refuse(token_start(), field(), "more than two numbers");
            (offsets_read_++ == 0 ? tensor_.begin : tensor_.end) = value;
        } else {
            refuse_value("a number");
        }
        return consumed();
    }

    bool string(string_t& value) override {
        if (level_ == level::metadata) {
            header_.metadata.insert_or_assign(key_, std::move(value));
        } else if (level_ == level::tensor && key_ == "dtype") {
            const auto type = dtype_from_name(value);
            if (!type) refuse(token_start(), field(), "unknown element type " + in_quotes(value));
            tensor_.type = *type;
        } else {
            refuse_value("a string");
        }
        return consumed();
    }

    bool start_object(std::size_t) override {
        if (level_ == level::document) {
            level_ = level::header;
        } else if (level_ == level::header && key_ == "__metadata__") {
            level_ = level::metadata;
            header_.metadata_at = token_start();
        } else if (level_ == level::header) {
            level_ = level::tensor;
            tensor_ = {};
            tensor_.name = key_;
            tensor_at_ = token_start();
            dtype_at_ = shape_at_ = 0;
            offsets_read_ = 0;
        } else {
            refuse_value("an object");
        }
        return consumed();
    }

    bool key(string_t& name) override {
        key_ = std::move(name);
        if (level_ == level::header) {
            if (!names_.insert(key_).second) refuse_duplicate(in_quotes(key_));
        } else if (level_ == level::metadata) {
            if (header_.metadata.contains(key_)) refuse_duplicate(field());
        } else {
            note_field();
        }
        return consumed();
    }

    bool end_object() override {
        if (level_ == level::tensor) finish_tensor();
        level_ = level_ == level::header ? level::document : level::header;
        return consumed();
    }

    bool start_array(std::size_t) override {
        if (level_ == level::tensor && key_ == "shape") {
            level_ = level::shape;
        } else if (level_ == level::tensor && key_ == "data_offsets") {
            level_ = level::offsets;
        } else {
            refuse_value("an array");
        }
        return consumed();
    }

    bool end_array() override {
        if (level_ == level::offsets && offsets_read_ != 2) refuse(tensor_.offsets_at, field(), "not two numbers");
        level_ = level::tensor;
        return consumed();
    }

    bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception& cause) override {
        std::string_view why = cause.what();
        why.remove_prefix(std::min(why.size(), why.find("] ") + 2));  // "[json.exception.parse_error.101] "
        constexpr int number_overflow = 406;                          // the parser is then after the number, not at it
        const std::uint64_t at = safetensors_json_offset + (position == 0 ? 0 : position - 1);
        refuse(cause.id == number_overflow ? token_start() : at, "header", "invalid JSON: " + printable(why, 200));
    }

private:
    enum class level { document, header, metadata, tensor, shape, offsets };

    // A tensor's object is complete.
    void finish_tensor() {
        if (dtype_at_ == 0) refuse(tensor_at_, field_named("dtype"), "missing");
        if (shape_at_ == 0) refuse(tensor_at_, field_named("shape"), "missing");
        if (tensor_.offsets_at == 0) refuse(tensor_at_, field_named("data_offsets"), "missing");
        const auto bytes = byte_count(tensor_.shape, tensor_.type);
        if (!bytes) refuse(shape_at_, field_named("shape"), "the size in bytes overflows");
        if (tensor_.end < tensor_.begin) refuse_offsets("reversed: " + offsets_text());
        if (tensor_.end > data_bytes_) {
            refuse_offsets(offsets_text() + " is out of range: the file holds " + std::to_string(data_bytes_) +
                           " bytes of data");
        }
        if (tensor_.end - tensor_.begin != *bytes) {
            refuse_offsets(offsets_text() + " does not match the shape, which takes " + std::to_string(*bytes) +
                           " bytes");
        }
        header_.tensors.push_back(std::move(tensor_));
    }

    // A key inside a tensor's object. A place other than 0 also means "was seen": at 0 is the length.
    void note_field() {
        std::uint64_t* place = key_ == "dtype"          ? &dtype_at_
                               : key_ == "shape"        ? &shape_at_
                               : key_ == "data_offsets" ? &tensor_.offsets_at
                                                        : nullptr;
        if (place == nullptr) refuse(token_start(), field(), "unknown field");
        if (*place != 0) refuse_duplicate(field());
        *place = token_start();
    }

    // Where the token of the current event starts in the file.
    std::uint64_t token_start() const {
        const char* at = token_end_;
        const char* end = json_.data() + json_.size();
        while (at != end && std::string_view(" \t\r\n:,").find(*at) != std::string_view::npos) ++at;
        return safetensors_json_offset + static_cast<std::uint64_t>(at - json_.data());
    }

    // Every accepted event ends with this. After a number the parser has read one character more: a separator, a space
    // or a closing bracket, so the next name or value still starts after it.
    bool consumed() {
        token_end_ = furthest_;
        return true;
    }

    std::string field_named(std::string_view name) const {
        return in_quotes(tensor_.name).append(".").append(printable(name, 80));
    }

    // The value that is being read, e.g. 'net.0.weight'.shape[1].
    std::string field() const {
        switch (level_) {
            case level::document: return "header";
            case level::header: return in_quotes(key_);
            case level::metadata: return "__metadata__." + printable(key_, 80);
            case level::tensor: return field_named(key_);
            case level::shape: return field_named("shape[" + std::to_string(tensor_.shape.size()) + "]");
            case level::offsets: return field_named("data_offsets[" + std::to_string(offsets_read_) + "]");
        }
        return "header";
    }

    std::string_view expected() const {
        switch (level_) {
            case level::document:
            case level::header: return "an object";
            case level::metadata: return "a string";
            case level::tensor: return key_ == "dtype" ? "a string" : "an array";
            case level::shape:
            case level::offsets: return "a whole number";
        }
        return "something else";
    }

    std::string offsets_text() const {
        return "[" + std::to_string(tensor_.begin) + ", " + std::to_string(tensor_.end) + "]";
    }

    [[noreturn]] void refuse(std::uint64_t offset, std::string_view location, std::string_view why) const {
        throw file_error(path_, offset, location, why);
    }
    [[noreturn]] void refuse_value(std::string_view found) const {
        refuse(token_start(), field(), std::string("expected ").append(expected()).append(", found ").append(found));
    }
    [[noreturn]] void refuse_duplicate(std::string_view name) const { refuse(token_start(), name, "appears twice"); }
    [[noreturn]] void refuse_offsets(std::string_view why) const {
        refuse(tensor_.offsets_at, field_named("data_offsets"), why);
    }

    std::string_view json_;
    std::uint64_t data_bytes_;
    const std::filesystem::path& path_;
    const char* furthest_;   // one after the last character that the parser took
    const char* token_end_;  // its value after the last event

    safetensors_header header_;
    std::set<std::string, std::less<>> names_;
    level level_ = level::document;
    std::string key_;
    safetensors_header::tensor tensor_;
    std::uint64_t tensor_at_ = 0;
    std::uint64_t dtype_at_ = 0;
    std::uint64_t shape_at_ = 0;
    int offsets_read_ = 0;
};

}  // namespace

safetensors_header parse_safetensors_header(std::string_view json, std::uint64_t data_bytes,
                                            const std::filesystem::path& path) {
    if (json.empty() || json.front() != '{') {  // the parser would skip a byte order mark
        throw file_error(path, safetensors_json_offset, "header", "does not start with '{'");
    }
    if (const auto zero = json.find('\0'); zero != std::string_view::npos) {  // the parser would stop there
        throw file_error(path, safetensors_json_offset + zero, "header", "invalid JSON: a zero byte");
    }
    return header_reader(json, data_bytes, path).read();
}

}  // namespace sluice::io
