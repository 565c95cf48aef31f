// SPDX-License-Identifier: Apache-2.0
#include "cuda/module_image.hpp"

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace sluice::cuda {
namespace {

constexpr std::string_view accepted = "; accepted are PTX, a cubin, and a fatbin";

[[noreturn]] void refuse(const std::string& why, const error_context& context) {
    throw error(errc::bad_file, why, context);
}

// A number at an offset that is within the bytes; GPUs' files are little-endian, as this host is.
template <typename T>
T number_at(std::span<const std::byte> bytes, std::size_t at) {
    T number = 0;
    std::memcpy(&number, bytes.data() + at, sizeof(number));
    return number;
}

bool is_inside(std::uint64_t offset, std::uint64_t size, std::uint64_t end) noexcept {
    return offset <= end && size <= end - offset;
}

void require_inside(std::uint64_t offset, std::uint64_t size, std::size_t end, const char* what,
                    const error_context& context) {
    if (is_inside(offset, size, end)) return;
    refuse("the cubin is cut: " + std::string(what) + " should be at byte " + std::to_string(offset) + ", " +
               std::to_string(size) + " bytes long, in a file of " + std::to_string(end),
           context);
}

// A 64-bit ELF file for NVIDIA GPUs. Checks that all tables and sections are within the file.
int check_cubin(std::span<const std::byte> bytes, const error_context& context) {
    constexpr std::size_t header_bytes = 64, section_bytes = 64, segment_bytes = 56;
    constexpr std::uint16_t nvidia = 190;
    constexpr std::uint32_t no_bits = 8;
    if (bytes.size() < header_bytes) refuse("the cubin is cut: it ends inside its header", context);
    if (number_at<std::uint8_t>(bytes, 4) != 2 || number_at<std::uint8_t>(bytes, 5) != 1)
        refuse("an ELF file, but not of 64 bits and little-endian" + std::string(accepted), context);
    if (const auto machine = number_at<std::uint16_t>(bytes, 18); machine != nvidia) {
        refuse("an ELF file for another machine (number " + std::to_string(machine) + "), not for a GPU" +
                   std::string(accepted),
               context);
    }
    const auto segments = number_at<std::uint64_t>(bytes, 32);
    const auto sections = number_at<std::uint64_t>(bytes, 40);
    const std::uint64_t segment_count = number_at<std::uint16_t>(bytes, 56);
    const std::uint64_t section_count = number_at<std::uint16_t>(bytes, 60);
    if (section_count == 0 || number_at<std::uint16_t>(bytes, 58) != section_bytes ||
        (segment_count != 0 && number_at<std::uint16_t>(bytes, 54) != segment_bytes) ||
        number_at<std::uint16_t>(bytes, 62) >= section_count)
        refuse("the cubin's header is damaged", context);
    require_inside(sections, section_count * section_bytes, bytes.size(), "the table of sections", context);
    require_inside(segments, segment_count * segment_bytes, bytes.size(), "the table of segments", context);
    for (std::uint64_t i = 0; i < section_count; ++i) {
        const std::size_t at = sections + i * section_bytes;
        if (number_at<std::uint32_t>(bytes, at + 4) == no_bits) continue;
        require_inside(number_at<std::uint64_t>(bytes, at + 24), number_at<std::uint64_t>(bytes, at + 32), bytes.size(),
                       "a section", context);
    }
    for (std::uint64_t i = 0; i < segment_count; ++i) {
        const std::size_t at = segments + i * segment_bytes;
        require_inside(number_at<std::uint64_t>(bytes, at + 8), number_at<std::uint64_t>(bytes, at + 32), bytes.size(),
                       "a segment", context);
    }
    // The architecture is in the flags, at a place that depends on the version of the format.
    const auto flags = number_at<std::uint32_t>(bytes, 48);
    const auto version = number_at<std::uint8_t>(bytes, 8);
    if (version == 8) return static_cast<int>(flags >> 8 & 0xff);
    return version == 7 ? static_cast<int>(flags & 0xff) : 0;
}

constexpr std::uint32_t fatbin_mark = 0xba55ed50;

// Entries one after the other, each with a header and a payload.
void check_fatbin(std::span<const std::byte> bytes, const error_context& context) {
    constexpr std::size_t header_bytes = 16, entry_bytes = 16;
    if (bytes.size() < header_bytes) refuse("the fatbin is cut: it ends inside its header", context);
    const std::uint64_t begin = number_at<std::uint16_t>(bytes, 6);
    const auto size = number_at<std::uint64_t>(bytes, 8);
    if (begin < header_bytes || size == 0) refuse("the fatbin's header is damaged", context);
    if (!is_inside(begin, size, bytes.size())) {
        refuse("the fatbin is cut: its header says " + std::to_string(size) + " bytes after the first " +
                   std::to_string(begin) + ", and there are " + std::to_string(bytes.size()) + " in all",
               context);
    }
    const std::uint64_t end = begin + size;
    for (std::uint64_t at = begin; at != end;) {
        if (!is_inside(at, entry_bytes, end)) refuse("the fatbin is damaged: an entry ends after the others", context);
        const std::uint64_t header = number_at<std::uint32_t>(bytes, at + 4);
        const auto payload = number_at<std::uint64_t>(bytes, at + 8);
        if (header < entry_bytes || !is_inside(at, header, end) || !is_inside(at + header, payload, end))
            refuse("the fatbin is damaged: an entry is longer than the file", context);
        at += header + payload;
    }
}

std::string first_bytes(std::span<const std::byte> bytes) {
    constexpr char digits[] = "0123456789abcdef";
    std::string text;
    for (const std::byte each : bytes.first(bytes.size() < 8 ? bytes.size() : 8)) {
        if (!text.empty()) text += ' ';
        text += digits[std::to_integer<unsigned>(each) >> 4];
        text += digits[std::to_integer<unsigned>(each) & 15];
    }
    return text;
}

// PTX is text with two directives that every module has.
void check_ptx(std::span<const std::byte> bytes, const error_context& context) {
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const std::string_view contents = text.substr(0, text.find_last_not_of('\0') + 1);
    if (contents.find(".version") == contents.npos || contents.find(".target") == contents.npos)
        refuse("no GPU module: it begins with the bytes " + first_bytes(bytes) + std::string(accepted), context);
    if (const auto zero = contents.find('\0'); zero != contents.npos)
        refuse("PTX with a zero byte at byte " + std::to_string(zero) + ", where the driver would stop reading",
               context);
}

}  // namespace

module_image read_image(std::span<const std::byte> bytes, const error_context& context) {
    if (bytes.empty()) refuse("empty" + std::string(accepted), context);
    module_image made{image_kind::ptx, {bytes.begin(), bytes.end()}};
    constexpr char elf_mark[] = {'\x7f', 'E', 'L', 'F'};
    if (bytes.size() >= 4 && std::memcmp(bytes.data(), elf_mark, 4) == 0) {
        made.kind = image_kind::cubin;
        made.compute_capability = check_cubin(bytes, context);
    } else if (bytes.size() >= 4 && number_at<std::uint32_t>(bytes, 0) == fatbin_mark) {
        made.kind = image_kind::fatbin;
        check_fatbin(bytes, context);
    } else {
        check_ptx(bytes, context);
        made.bytes.push_back(std::byte{0});
    }
    return made;
}

}  // namespace sluice::cuda
