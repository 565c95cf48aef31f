// SPDX-License-Identifier: Apache-2.0
#include "zip_directory.hpp"

#include <algorithm>
#include <set>
#include <string_view>

#include "sluice/base/file_error.hpp"
#include "sluice/base/printable.hpp"

namespace sluice::io {
namespace {

constexpr std::uint32_t local_signature = 0x0403'4b50, entry_signature = 0x0201'4b50, end_signature = 0x0605'4b50;
constexpr std::uint32_t zip64_end_signature = 0x0606'4b50, zip64_locator_signature = 0x0706'4b50;
constexpr std::uint64_t local_bytes = 30, entry_bytes = 46, end_bytes = 22;
constexpr std::uint64_t zip64_end_bytes = 56, zip64_locator_bytes = 20;
constexpr std::uint64_t longest_comment = 0xffff;
// In place of a number that is in a field of zip64.
constexpr std::uint64_t elsewhere_16 = 0xffff, elsewhere_32 = 0xffff'ffff;
// Deflate makes at most 1032 bytes of one.
constexpr std::uint64_t largest_expansion = 1032;

enum flag : std::uint16_t { encrypted = 1, sizes_follow = 8, strongly_encrypted = 1 << 6, masked = 1 << 13 };

// A span of the directory: which members, and where.
struct directory {
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
    std::uint64_t members = 0;
    std::uint64_t end = 0;  // where what follows the directory begins
};

class zip_reader {
public:
    zip_reader(std::span<const std::byte> file, const std::filesystem::path& path) : file_(file), path_(path) {}

    std::vector<zip_member> read() {
        const directory where = find_directory();
        std::vector<zip_member> members;
        std::set<std::string, std::less<>> names;
        std::uint64_t at = where.offset;
        for (std::uint64_t i = 0; i < where.members; ++i) {
            const std::uint64_t start = at;
            zip_member member = read_entry(at, where);
            if (!names.insert(member.name).second) refuse(start, "name", in_quotes(member.name) + " is there twice");
            members.push_back(std::move(member));
        }
        if (at != where.offset + where.bytes)
            refuse(at, "directory", "is longer than its " + std::to_string(where.members) + " members");
        refuse_overlap(members);
        return members;
    }

private:
    [[noreturn]] void refuse(std::uint64_t offset, std::string_view field, const std::string& why) const {
        throw file_error(path_, offset, field, why);
    }

    // A little-endian number. The bytes must be there.
    std::uint64_t number(std::uint64_t offset, std::size_t bytes) const {
        std::uint64_t value = 0;
        for (std::size_t i = bytes; i-- > 0;)
            value = value << 8 | std::to_integer<std::uint64_t>(file_[static_cast<std::size_t>(offset) + i]);
        return value;
    }
    std::uint16_t u16(std::uint64_t offset) const { return static_cast<std::uint16_t>(number(offset, 2)); }
    std::uint32_t u32(std::uint64_t offset) const { return static_cast<std::uint32_t>(number(offset, 4)); }
    std::string_view text(std::uint64_t offset, std::uint64_t bytes) const {
        return {reinterpret_cast<const char*>(file_.data()) + offset, static_cast<std::size_t>(bytes)};
    }

    // The record at the end of an archive, which a comment may follow.
    std::uint64_t find_end() const {
        if (file_.size() < end_bytes) refuse(0, "archive", "is no zip archive, or is cut off");
        const std::uint64_t last = file_.size() - end_bytes;
        const std::uint64_t first = last - std::min(last, longest_comment);
        for (std::uint64_t at = last + 1; at-- > first;) {
            if (u32(at) == end_signature && u16(at + 20) == last - at) return at;
        }
        refuse(file_.size(), "archive", "is no zip archive, or is cut off: its directory is not at its end");
    }

    directory find_directory() const {
        const std::uint64_t end = find_end();
        directory found{.offset = u32(end + 16), .bytes = u32(end + 12), .members = u16(end + 10), .end = end};
        bool is_one_volume = u16(end + 4) == 0 && u16(end + 6) == 0 && u16(end + 8) == found.members;
        const bool is_zip64 =
            found.offset == elsewhere_32 || found.bytes == elsewhere_32 || found.members == elsewhere_16;
        if (is_zip64) {
            if (end < zip64_locator_bytes || u32(end - zip64_locator_bytes) != zip64_locator_signature)
                refuse(end, "zip64", "the sizes are those of zip64, and its record is not there");
            const std::uint64_t locator = end - zip64_locator_bytes;
            const std::uint64_t at = number(locator + 8, 8);
            if (locator < zip64_end_bytes || at > locator - zip64_end_bytes || u32(at) != zip64_end_signature)
                refuse(locator, "zip64", "names a place without its record");
            found = {
                .offset = number(at + 48, 8), .bytes = number(at + 40, 8), .members = number(at + 32, 8), .end = at};
            is_one_volume = u32(locator + 4) == 0 && u32(locator + 16) <= 1 && u32(at + 16) == 0 && u32(at + 20) == 0 &&
                            number(at + 24, 8) == found.members;
        }
        if (!is_one_volume) refuse(end, "volumes", "archives of several volumes are not supported");
        if (found.offset > found.end || found.bytes != found.end - found.offset)
            refuse(end, "directory", "is not where the archive says, or something comes before the archive");
        // Each has at least its fixed part, so that the loop over them is bounded by the file.
        if (found.members > found.bytes / entry_bytes)
            refuse(end, "members", "are " + std::to_string(found.members) + ", more than the directory has room for");
        return found;
    }

    // Moves `at` to the end of the entry.
    zip_member read_entry(std::uint64_t& at, const directory& where) const {
        const std::uint64_t start = at;
        const std::uint64_t left = where.offset + where.bytes - at;
        if (left < entry_bytes || u32(at) != entry_signature) refuse(at, "directory", "has no member here");
        const std::uint64_t name_bytes = u16(at + 28), extra_bytes = u16(at + 30), comment_bytes = u16(at + 32);
        if (name_bytes + extra_bytes + comment_bytes > left - entry_bytes)
            refuse(at, "directory", "the member reaches past the directory's end");
        zip_member member;
        member.name = text(at + entry_bytes, name_bytes);
        if (member.name.empty()) refuse(at, "name", "is empty");
        if (member.name.find('\0') != std::string::npos) refuse(at, "name", "has a zero byte");
        member.crc = u32(at + 16);
        member.stored_bytes = u32(at + 20);
        member.bytes = u32(at + 24);
        member.header_offset = u32(at + 42);
        std::uint64_t* const wide[] = {&member.bytes, &member.stored_bytes, &member.header_offset};
        read_zip64(start, at + entry_bytes + name_bytes, extra_bytes, wide);
        if (u16(at + 34) != 0) refuse(start, "volumes", "archives of several volumes are not supported");
        check_flags(start, member.name, u16(at + 8));
        member.is_deflated = is_deflated(start, member.name, u16(at + 10));
        check_sizes(start, member);
        find_data(member, u16(at + 10), where);
        at += entry_bytes + name_bytes + extra_bytes + comment_bytes;
        return member;
    }

    // Replaces the numbers that are in the field of zip64, which has them in this order.
    void read_zip64(std::uint64_t start, std::uint64_t extra, std::uint64_t bytes,
                    std::span<std::uint64_t* const> numbers) const {
        const auto is_wanted = [](const std::uint64_t* each) { return *each == elsewhere_32; };
        if (std::ranges::none_of(numbers, is_wanted)) return;
        const std::uint64_t end = extra + bytes;
        while (end - extra >= 4) {
            const std::uint64_t length = u16(extra + 2);
            if (length > end - extra - 4) refuse(start, "extra field", "reaches past its end");
            if (u16(extra) == 1) {
                std::uint64_t at = extra + 4, left = length;
                for (std::uint64_t* const each : numbers) {
                    if (!is_wanted(each)) continue;
                    if (left < 8) refuse(start, "zip64", "the field is too short");
                    *each = number(at, 8);
                    at += 8;
                    left -= 8;
                }
                return;
            }
            extra += 4 + length;
        }
        refuse(start, "zip64", "the sizes are those of zip64, and its field is not there");
    }

    void check_flags(std::uint64_t start, const std::string& name, std::uint16_t flags) const {
        if ((flags & (encrypted | strongly_encrypted | masked)) != 0)
            refuse(start, "flags", in_quotes(name) + " is encrypted, which is not supported");
    }

    bool is_deflated(std::uint64_t start, const std::string& name, std::uint16_t method) const {
        if (method != 0 && method != 8) {
            refuse(start, "method",
                   in_quotes(name) + " is compressed by method " + std::to_string(method) +
                       "; supported are 0 (stored) and 8 (deflated)");
        }
        return method == 8;
    }

    void check_sizes(std::uint64_t start, const zip_member& member) const {
        const std::string sizes = in_quotes(member.name) + " has " + std::to_string(member.stored_bytes) +
                                  " bytes in the archive and " + std::to_string(member.bytes) + " outside";
        if (!member.is_deflated && member.stored_bytes != member.bytes)
            refuse(start, "size", sizes + ", and is stored");
        if (member.is_deflated && member.bytes / largest_expansion > member.stored_bytes)
            refuse(start, "size", sizes + ", which deflating cannot do");
    }

    // Where the data is: after a header that says once more what the directory says.
    void find_data(zip_member& member, std::uint16_t method, const directory& where) const {
        const std::uint64_t at = member.header_offset;
        if (at > where.offset || where.offset - at < local_bytes || u32(at) != local_signature)
            refuse(at, "header", in_quotes(member.name) + " is not where the directory says");
        const std::uint64_t name_bytes = u16(at + 26), extra_bytes = u16(at + 28);
        const std::uint64_t left = where.offset - at - local_bytes;
        if (name_bytes + extra_bytes > left || member.stored_bytes > left - name_bytes - extra_bytes)
            refuse(at, "size", in_quotes(member.name) + " reaches into the directory");
        if (text(at + local_bytes, name_bytes) != member.name)
            refuse(at, "name", "the directory says " + in_quotes(member.name) + ", the member's header another one");
        const std::uint16_t flags = u16(at + 6);
        check_flags(at, member.name, flags);
        if (u16(at + 8) != method)
            refuse(at, "method", "is not the one of " + in_quotes(member.name) + " in the directory");
        if ((flags & sizes_follow) == 0) {  // else they come after the data, and the directory has them too
            std::uint64_t bytes = u32(at + 22), stored_bytes = u32(at + 18);
            std::uint64_t* const wide[] = {&bytes, &stored_bytes};
            read_zip64(at, at + local_bytes + name_bytes, extra_bytes, wide);
            if (u32(at + 14) != member.crc || bytes != member.bytes || stored_bytes != member.stored_bytes)
                refuse(at, "size", "size or CRC are not those of " + in_quotes(member.name) + " in the directory");
        }
        member.data_offset = at + local_bytes + name_bytes + extra_bytes;
    }

    void refuse_overlap(const std::vector<zip_member>& members) const {
        std::vector<const zip_member*> sorted;
        sorted.reserve(members.size());
        for (const zip_member& each : members) sorted.push_back(&each);
        std::ranges::sort(sorted, {}, &zip_member::header_offset);
        for (std::size_t i = 1; i < sorted.size(); ++i) {
            const zip_member& before = *sorted[i - 1];
            if (sorted[i]->header_offset < before.data_offset + before.stored_bytes) {
                refuse(sorted[i]->header_offset, "header",
                       in_quotes(before.name) + " and " + in_quotes(sorted[i]->name) + " overlap");
            }
        }
    }

    std::span<const std::byte> file_;
    const std::filesystem::path& path_;
};

}  // namespace

std::vector<zip_member> parse_zip_directory(std::span<const std::byte> file, const std::filesystem::path& path) {
    return zip_reader(file, path).read();
}

}  // namespace sluice::io
