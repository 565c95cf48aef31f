// SPDX-License-Identifier: Apache-2.0
#include "sluice/io/npy_texts.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>

#include "npy_header.hpp"
#include "sluice/io/atomic_file.hpp"
#include "sluice/io/dtype.hpp"
#include "sluice/io/mapped_file.hpp"

namespace sluice::io {
namespace {

constexpr std::uint32_t end_of_code_points = 0x110000, first_surrogate = 0xd800, last_surrogate = 0xdfff;

bool is_character(std::uint32_t code) {
    return code < end_of_code_points && (code < first_surrogate || code > last_surrogate);
}

void append_utf8(std::string& to, std::uint32_t code) {
    const auto put = [&](std::uint32_t byte) { to += static_cast<char>(byte); };
    const auto put_rest = [&](unsigned shift) { put(0x80U | (code >> shift & 0x3fU)); };
    if (code < 0x80) return put(code);
    if (code < 0x800) {
        put(0xc0U | code >> 6U);
    } else if (code < 0x10000) {
        put(0xe0U | code >> 12U);
        put_rest(6);
    } else {
        put(0xf0U | code >> 18U);
        put_rest(12);
        put_rest(6);
    }
    put_rest(0);
}

// The code points of UTF-8; none if it is not.
std::optional<std::vector<std::uint32_t>> code_points_of(std::string_view text) {
    std::vector<std::uint32_t> made;
    for (std::size_t i = 0; i < text.size();) {
        const auto lead = static_cast<unsigned char>(text[i]);
        const std::size_t length = lead < 0x80    ? 1
                                   : lead >= 0xf8 ? 0
                                   : lead >= 0xf0 ? 4
                                   : lead >= 0xe0 ? 3
                                   : lead >= 0xc0 ? 2
                                                  : 0;
        if (length == 0 || length > text.size() - i) return std::nullopt;
        std::uint32_t code = length == 1 ? lead : lead & (0xffU >> (length + 1));
        for (std::size_t k = 1; k < length; ++k) {
            const auto next = static_cast<unsigned char>(text[i + k]);
            if ((next & 0xc0U) != 0x80) return std::nullopt;
            code = code << 6U | (next & 0x3fU);
        }
        std::string again;
        if (is_character(code)) append_utf8(again, code);
        if (again.size() != length) return std::nullopt;  // also for what a shorter sequence could say
        made.push_back(code);
        i += length;
    }
    return made;
}

std::string text_of(std::string_view element, bool is_unicode, const std::filesystem::path& path, std::uint64_t at) {
    std::string made;
    if (!is_unicode) {
        made = element;
    } else {
        for (std::size_t i = 0; i < element.size(); i += sizeof(std::uint32_t)) {
            std::uint32_t code = 0;
            std::memcpy(&code, element.data() + i, sizeof(code));
            if (!is_character(code)) throw file_error(path, at + i, "data", "has a code point that is not a character");
            append_utf8(made, code);
        }
    }
    made.erase(made.find_last_not_of('\0') + 1);  // the rest of an element is zeros
    return made;
}

}  // namespace

npy_texts parse_npy_texts(std::span<const std::byte> file, const std::filesystem::path& label) {
    npy_header header = parse_npy_header(file, label);
    if (!header.text)
        throw file_error(label, header.descr_at, "descr", "has elements that are not text; text is '<U' or 'S'");
    if (header.fortran_order && header.shape.size() > 1)
        throw file_error(label, header.fortran_order_at, "fortran_order", "column-major arrays are not supported");
    const std::size_t size = header.text->bytes;
    const auto count = element_count(header.shape);
    const std::size_t left = file.size() - static_cast<std::size_t>(header.data_offset);
    if (!count || (size != 0 && *count > left / size) || *count * size != left)
        throw file_error(label, header.data_offset, "data", "has another size than the shape needs");
    // Without bytes each text is empty, and only the shape says how many there are.
    if (size == 0 && *count > file.size())
        throw file_error(label, header.shape_at, "shape", "has too many empty texts");
    npy_texts made{.shape = std::move(header.shape), .texts = {}};
    made.texts.reserve(*count);
    const std::string_view data(reinterpret_cast<const char*>(file.data()) + header.data_offset, left);
    for (std::size_t i = 0; i < *count; ++i) {
        made.texts.push_back(
            text_of(data.substr(i * size, size), header.text->is_unicode, label, header.data_offset + i * size));
    }
    return made;
}

npy_texts read_npy_texts(const std::filesystem::path& path) {
    const mapped_file file(path);
    npy_texts made = parse_npy_texts(file.bytes(), file.path());
    file.require_unchanged();
    return made;
}

void write_npy_texts(const std::filesystem::path& target, std::span<const std::size_t> shape,
                     std::span<const std::string_view> texts) {
    if (element_count(shape) != texts.size()) {
        throw error(errc::invalid_argument, "an array of texts has " + std::to_string(texts.size()) +
                                                " texts, which is not the number that its shape says");
    }
    std::vector<std::vector<std::uint32_t>> coded;
    std::size_t longest = 1;
    for (const std::string_view each : texts) {
        auto codes = code_points_of(each);
        if (!codes) throw error(errc::invalid_argument, "a text for a file is not UTF-8", {target.string()});
        longest = std::max(longest, codes->size());
        coded.push_back(*std::move(codes));
    }
    const std::string header = make_npy_header("<U" + std::to_string(longest), shape);
    std::vector<std::uint32_t> data(texts.size() * longest, 0);
    for (std::size_t i = 0; i < coded.size(); ++i)
        std::ranges::copy(coded[i], data.begin() + static_cast<std::ptrdiff_t>(i * longest));
    atomic_file file(target);
    file.write_at(0, std::as_bytes(std::span(header)));
    file.write_at(header.size(), std::as_bytes(std::span(data)));
    file.commit();
}

}  // namespace sluice::io
