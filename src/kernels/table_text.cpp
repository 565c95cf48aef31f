// SPDX-License-Identifier: Apache-2.0
#include "kernels/table_text.hpp"

#include <fstream>
#include <iterator>
#include <locale>
#include <ostream>
#include <sstream>

#include "sluice/base/file_error.hpp"
#include "sluice/io/write_file.hpp"

namespace sluice::kernels {
namespace {

// FNV-1a, 64 bits.
std::uint64_t checksum_of(std::string_view text) {
    std::uint64_t hash = 0xcbf29ce484222325u;
    for (const char each : text) hash = (hash ^ static_cast<unsigned char>(each)) * 0x100000001b3u;
    return hash;
}

std::string hexadecimal(std::uint64_t value) {
    std::ostringstream text;
    text.imbue(std::locale::classic());  // whatever the program's is
    text << std::hex;
    text.width(16);
    text.fill('0');
    text << value;
    return text.str();
}

}  // namespace

void table_reader::refuse(std::string_view field, std::string_view why) const {
    throw file_error(file_, at_, field, why);
}

std::string_view table_reader::until(char end, std::string_view field) {
    const std::size_t stop = text_.find(end, at_);
    if (stop == std::string_view::npos) refuse(field, "the file ends here");
    const std::string_view found = text_.substr(at_, stop - at_);
    at_ = stop + 1;
    return found;
}

void table_reader::require_name(std::string_view name) {
    const std::size_t start = at_;
    if (word(name) == name) return;
    at_ = start;
    refuse(name, "is missing");
}

void table_reader::require_format(std::string_view line) {
    const std::size_t start = at_;
    if (until('\n', "format") == line) return;
    at_ = start;
    refuse("format", "is not \"" + std::string(line) + "\"");
}

void table_reader::require_end() {
    const std::string expected = hexadecimal(checksum_of(text_.substr(0, at_)));
    if (named("checksum") != expected) refuse("checksum", "is not that of the contents");
    if (at_ != text_.size()) refuse("end", "more follows the table");
}

std::string with_checksum(std::string text) {
    const std::string checksum = hexadecimal(checksum_of(text));
    return std::move(text) + "checksum " + checksum + '\n';
}

std::string read_table(const std::filesystem::path& file, std::uintmax_t most_bytes) {
    const auto refuse = [&](const char* why) {
        throw file_error(file, file_error::no_offset, "read", why, errc::io_failed);
    };
    if (!std::filesystem::exists(file)) refuse("there is no such file");
    if (!std::filesystem::is_regular_file(file)) refuse("it is no regular file");
    if (std::filesystem::file_size(file) > most_bytes) refuse("it is longer than any table");
    std::ifstream stream(file, std::ios::binary);
    std::string text{std::istreambuf_iterator<char>(stream), {}};
    if (!stream) refuse("failed");
    return text;
}

void write_table(const std::filesystem::path& file, std::string_view text) {
    std::error_code failure;
    if (file.has_parent_path()) std::filesystem::create_directories(file.parent_path(), failure);
    if (failure) {
        throw file_error(file.parent_path(), file_error::no_offset, "create", failure.message(), errc::io_failed);
    }
    io::write_file(file, [&](std::ostream& to) { to << text; });
}

}  // namespace sluice::kernels
