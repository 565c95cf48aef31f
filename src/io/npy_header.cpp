// SPDX-License-Identifier: Apache-2.0
#include "npy_header.hpp"

#include <array>
#include <charconv>
#include <string_view>
#include <utility>

#include "sluice/base/file_error.hpp"
#include "sluice/base/printable.hpp"

namespace sluice::io {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view magic = "\x93NUMPY"sv;
constexpr std::size_t version_offset = magic.size();
constexpr std::size_t length_offset = version_offset + 2;
constexpr std::size_t longest_npy_header = 1 << 20;  // plain arrays need some hundred bytes

// NumPy's letter and size, after the byte order.
constexpr std::array<std::pair<std::string_view, dtype>, 12> descriptions{{
    {"f2", dtype::f16},
    {"f4", dtype::f32},
    {"f8", dtype::f64},
    {"i1", dtype::i8},
    {"u1", dtype::u8},
    {"i2", dtype::i16},
    {"u2", dtype::u16},
    {"i4", dtype::i32},
    {"u4", dtype::u32},
    {"i8", dtype::i64},
    {"u8", dtype::u64},
    {"b1", dtype::boolean},
}};

// Reads the part of Python's literals that headers of plain arrays consist of. It has a position in the text and moves
// over what it reads.
class literal_reader {
public:
    literal_reader(std::string_view text, std::uint64_t text_offset, const std::filesystem::path& path)
        : text_(text), text_offset_(text_offset), path_(path) {}

    // The offset in the file of the next character.
    std::uint64_t offset() {
        skip_space();
        return text_offset_ + at_;
    }
    bool at_end() {
        skip_space();
        return at_ == text_.size();
    }
    bool next_is(char c) {
        skip_space();
        return at_ < text_.size() && text_[at_] == c;
    }
    bool take(char c) {
        if (!next_is(c)) return false;
        ++at_;
        return true;
    }
    bool take_word(std::string_view word) {
        skip_space();
        if (!text_.substr(at_).starts_with(word)) return false;
        at_ += word.size();
        return true;
    }
    void expect(char c, std::string_view field) {
        if (!take(c)) refuse(field, std::string("malformed: expected '") + c + "'");
    }

    std::string_view string(std::string_view field) {
        const char quote = next_is('"') ? '"' : '\'';
        if (!take(quote)) refuse(field, "malformed: expected a string");
        const std::size_t end = text_.find_first_of(quote == '"' ? "\"\\\n"sv : "'\\\n"sv, at_);
        if (end == std::string_view::npos || text_[end] != quote) refuse(field, "malformed: the string does not end");
        const std::string_view contents = text_.substr(at_, end - at_);
        at_ = end + 1;
        return contents;
    }

    std::size_t whole_number(std::string_view field) {
        skip_space();
        if (next_is('-')) refuse(field, "a dimension is negative");
        std::size_t value = 0;
        const char* begin = text_.data() + at_;
        const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
        if (error == std::errc::result_out_of_range) refuse(field, "the size in bytes overflows");
        if (error != std::errc()) refuse(field, "malformed: expected a whole number");
        at_ += static_cast<std::size_t>(end - begin);
        return value;
    }

    [[noreturn]] void refuse(std::string_view field, std::string_view why) {
        throw file_error(path_, offset(), field, why);
    }

private:
    void skip_space() {
        while (at_ < text_.size() && " \t\r\n"sv.find(text_[at_]) != std::string_view::npos) ++at_;
    }

    std::string_view text_;
    std::uint64_t text_offset_;
    const std::filesystem::path& path_;
    std::size_t at_ = 0;
};

// "U12" and "S12".
std::optional<npy_text> text_of(char order, std::string_view kind) {
    constexpr std::size_t longest = std::size_t{1} << 28, unicode_bytes = 4;
    const bool is_unicode = kind.front() == 'U' && order == '<', is_bytes = kind.front() == 'S' && order == '|';
    std::size_t length = 0;
    const auto [end, failure] = std::from_chars(kind.data() + 1, kind.data() + kind.size(), length);
    const bool is_number = failure == std::errc() && end == kind.data() + kind.size();
    if ((!is_unicode && !is_bytes) || !is_number || length > longest) return std::nullopt;
    return npy_text{.is_unicode = is_unicode, .bytes = is_unicode ? length * unicode_bytes : length};
}

void read_descr(literal_reader& text, npy_header& header) {
    constexpr auto field = "descr"sv;
    if (text.next_is('[') || text.next_is('(') || text.next_is('{')) {
        text.refuse(field, "structured element types are not supported");
    }
    literal_reader before = text;  // errors point at the string's start
    const std::string_view descr = text.string(field);
    const auto refuse = [&](std::string_view why) { before.refuse(field, in_quotes(descr).append(why)); };
    if (descr.size() < 2) refuse(" is no element type");

    const char order = descr.front();
    const std::string_view kind = descr.substr(1);
    if (order == '>') refuse(" is big-endian, which is not supported");
    if (kind.front() == 'O') refuse(": pickled Python objects are not supported");
    if (kind.front() == 'V') refuse(": structured element types are not supported");
    for (const auto& [known, type] : descriptions) {
        if (kind == known && (order == '<' || (order == '|' && size_of(type) == 1))) {
            header.type = type;
            return;
        }
    }
    header.text = text_of(order, kind);
    if (!header.text) refuse(" is an unknown element type");
}

bool read_fortran_order(literal_reader& text) {
    if (text.take_word("True")) return true;
    if (!text.take_word("False")) text.refuse("fortran_order", "malformed: expected True or False");
    return false;
}

std::vector<std::size_t> read_shape(literal_reader& text) {
    constexpr auto field = "shape"sv;
    std::vector<std::size_t> shape;
    bool has_comma = true;
    text.expect('(', field);
    while (!text.next_is(')')) {
        if (!has_comma) text.refuse(field, "malformed: expected ',' or ')'");
        if (shape.size() == npy_most_dimensions) {
            text.refuse(field, "more than " + std::to_string(npy_most_dimensions) + " dimensions");
        }
        shape.push_back(text.whole_number(field));
        has_comma = text.take(',');
    }
    if (shape.size() == 1 && !has_comma) text.refuse(field, "malformed: '(n)' is no tuple in Python");
    text.expect(')', field);
    return shape;
}

// A place other than 0 also means "was seen": at 0 is the magic string.
void read_entry(literal_reader& text, npy_header& header) {
    literal_reader before = text;
    const std::string_view key = text.string("header");
    std::uint64_t* place = key == "descr"           ? &header.descr_at
                           : key == "fortran_order" ? &header.fortran_order_at
                           : key == "shape"         ? &header.shape_at
                                                    : nullptr;
    if (place == nullptr) before.refuse("header", "unknown entry " + in_quotes(key));
    if (*place != 0) before.refuse(key, "appears twice");
    text.expect(':', key);
    *place = text.offset();
    if (place == &header.descr_at) read_descr(text, header);
    if (place == &header.fortran_order_at) header.fortran_order = read_fortran_order(text);
    if (place == &header.shape_at) header.shape = read_shape(text);
}

// The dict's text and where it starts.
std::pair<std::string_view, std::size_t> dict_text(std::string_view file, const std::filesystem::path& path) {
    if (file.substr(0, magic.size()) != magic) throw file_error(path, 0, "magic", "not a .npy file");
    if (file.size() < length_offset) throw file_error(path, version_offset, "version", "the file ends inside it");
    const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(file[at]); };
    const int major = byte(version_offset);
    const int minor = byte(version_offset + 1);
    if (major < 1 || major > 3 || minor != 0) {
        throw file_error(path, version_offset, "version",
                         std::to_string(major) + "." + std::to_string(minor) + " is not supported");
    }
    const std::size_t length_bytes = major == 1 ? 2 : 4;
    const std::size_t text_offset = length_offset + length_bytes;
    if (file.size() < text_offset) throw file_error(path, length_offset, "header length", "the file ends inside it");
    std::size_t length = 0;
    for (std::size_t i = length_bytes; i-- > 0;) length = length << 8 | byte(length_offset + i);
    if (length > file.size() - text_offset) {
        throw file_error(path, length_offset, "header length",
                         std::to_string(length) +
                             " reaches past the end: " + std::to_string(file.size() - text_offset) + " bytes follow");
    }
    if (length > longest_npy_header) {
        throw file_error(path, length_offset, "header length",
                         std::to_string(length) + " is more than " + std::to_string(longest_npy_header));
    }
    return {file.substr(text_offset, length), text_offset};
}

std::string_view description_of(dtype type) {
    for (const auto& [name, known] : descriptions) {
        if (known == type) return name;
    }
    throw error(errc::invalid_argument, "the .npy format has no " + std::string(to_string(type)));
}

// As Python prints a tuple.
std::string tuple_text(std::span<const std::size_t> shape) {
    std::string text = "(";
    for (std::size_t i = 0; i < shape.size(); ++i) {
        if (i != 0) text += ", ";
        text += std::to_string(shape[i]);
    }
    return text + (shape.size() == 1 ? ",)" : ")");
}

}  // namespace

npy_header parse_npy_header(std::span<const std::byte> file, const std::filesystem::path& path) {
    const std::string_view bytes(reinterpret_cast<const char*>(file.data()), file.size());
    const auto [dict, dict_offset] = dict_text(bytes, path);

    npy_header header;
    header.data_offset = dict_offset + dict.size();
    literal_reader text(dict, dict_offset, path);
    text.expect('{', "header");
    bool has_comma = true;
    while (!text.next_is('}')) {
        if (!has_comma) text.refuse("header", "malformed: expected ',' or '}'");
        read_entry(text, header);
        has_comma = text.take(',');
    }
    const std::uint64_t dict_end = text.offset();
    text.expect('}', "header");
    if (!text.at_end()) text.refuse("header", "malformed: something follows the dict");

    if (header.descr_at == 0) throw file_error(path, dict_end, "descr", "missing");
    if (header.fortran_order_at == 0) throw file_error(path, dict_end, "fortran_order", "missing");
    if (header.shape_at == 0) throw file_error(path, dict_end, "shape", "missing");
    return header;
}

std::string make_npy_header(dtype type, std::span<const std::size_t> shape) {
    return make_npy_header((size_of(type) == 1 ? "|" : "<") + std::string(description_of(type)), shape);
}

std::string make_npy_header(std::string_view description, std::span<const std::size_t> shape) {
    constexpr std::size_t alignment = 64;
    constexpr std::size_t longest_dimension = 21;  // NumPy leaves room for the first one to grow in place
    std::string dict = "{'descr': '";
    dict.append(description).append("', 'fortran_order': False, 'shape': ").append(tuple_text(shape));
    dict += ", }";
    if (!shape.empty()) dict.append(longest_dimension - std::to_string(shape.front()).size(), ' ');

    const std::size_t dict_offset = length_offset + 2;
    const std::size_t used = dict_offset + dict.size() + 1;  // the line ends with '\n'
    dict.append((alignment - used % alignment) % alignment, ' ') += '\n';

    std::string header(magic);
    header += '\x01';
    header += '\x00';
    header += static_cast<char>(dict.size() & 0xff);
    header += static_cast<char>(dict.size() >> 8);
    return header + dict;
}

}  // namespace sluice::io
