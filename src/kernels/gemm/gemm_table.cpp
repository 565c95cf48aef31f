// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm/gemm_table.hpp"

#include <charconv>
#include <fstream>
#include <iterator>
#include <optional>
#include <ostream>
#include <sstream>

#include "sluice/base/file_error.hpp"
#include "sluice/base/printable.hpp"
#include "sluice/io/write_file.hpp"

namespace sluice {

std::string_view to_string(gemm_type type) noexcept {
    switch (type) {
        case gemm_type::f32: return "f32";
        case gemm_type::tf32: return "tf32";
        case gemm_type::f16: return "f16";
        case gemm_type::bf16: return "bf16";
    }
    return "unknown";
}

namespace kernels {
namespace {

constexpr std::string_view first_line = "sluice gemm table 1";
constexpr std::size_t most_entries = 1'000'000;
constexpr std::uintmax_t most_bytes = 200 * most_entries;

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

// Goes through a text line by line and word by word, and knows where it is.
class reader {
public:
    reader(std::string_view text, const std::filesystem::path& file) : text_(text), file_(file) {}

    [[noreturn]] void refuse(std::string_view field, std::string_view why) const {
        throw file_error(file_, at_, field, why);
    }
    // Up to `end`, which is passed over.
    std::string_view until(char end, std::string_view field) {
        const std::size_t stop = text_.find(end, at_);
        if (stop == std::string_view::npos) refuse(field, "the file ends here");
        const std::string_view found = text_.substr(at_, stop - at_);
        at_ = stop + 1;
        return found;
    }
    std::string_view word(std::string_view field) { return until(' ', field); }
    template <typename Number>
    Number number(char end, std::string_view field) {
        const std::size_t start = at_;
        const std::string_view digits = until(end, field);
        Number made{};
        const auto [stop, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), made);
        if (failure != std::errc() || stop != digits.data() + digits.size() || !(made >= Number{})) {
            at_ = start;
            refuse(field, "is not a number");
        }
        return made;
    }
    // "name value"
    std::string_view named(std::string_view name) {
        const std::size_t start = at_;
        if (word(name) != name) {
            at_ = start;
            refuse(name, "is missing");
        }
        return until('\n', name);
    }
    template <typename Number>
    Number named_number(std::string_view name) {
        const std::size_t start = at_;
        if (word(name) != name) {
            at_ = start;
            refuse(name, "is missing");
        }
        return number<Number>('\n', name);
    }
    std::string_view passed() const { return text_.substr(0, at_); }
    bool is_at_end() const { return at_ == text_.size(); }

private:
    std::string_view text_;
    const std::filesystem::path& file_;
    std::size_t at_ = 0;
};

gemm_type type_from(reader& from) {
    const std::string_view name = from.word("type");
    for (const gemm_type each : {gemm_type::tf32, gemm_type::f16, gemm_type::bf16}) {
        if (name == to_string(each)) return each;
    }
    from.refuse("type", "is none");
}

gemm_measurement entry_from(reader& from) {
    gemm_measurement made;
    made.of.type = type_from(from);
    const std::string_view order = from.word("b");
    if (order != "transposed" && order != "plain") from.refuse("b", "is neither transposed nor plain");
    made.of.b_is_transposed = order == "transposed";
    made.of.rows = from.number<std::size_t>(' ', "rows");
    made.of.columns = from.number<std::size_t>(' ', "columns");
    made.of.inner = from.number<std::size_t>(' ', "inner");
    made.microseconds = from.number<double>(' ', "microseconds");
    made.library_microseconds = from.number<double>(' ', "cuBLASLt's microseconds");
    made.fastest = from.until('\n', "way");
    return made;
}

// Why a table of there is not for here; empty when it is.
std::string difference(const gemm_table_origin& there, const gemm_table_origin& here) {
    if (there.device != here.device) return "it was made on " + there.device + ", this is " + here.device;
    const auto other = [](std::string_view what, unsigned made_with, unsigned now) {
        return "it was made with " + std::string(what) + " " + std::to_string(made_with) + ", this is " +
               std::to_string(now);
    };
    if (there.driver != here.driver) return other("driver", there.driver, here.driver);
    if (there.library != here.library) return other("cuBLASLt", there.library, here.library);
    if (there.kernels != here.kernels) return other("kernels", there.kernels, here.kernels);
    return {};
}

}  // namespace

std::string to_text(const gemm_table& table) {
    std::ostringstream text;
    text.imbue(std::locale::classic());
    text << first_line << "\ndevice " << table.origin.device << "\ndriver " << table.origin.driver << "\nlibrary "
         << table.origin.library << "\nkernels " << table.origin.kernels << "\nentries " << table.entries.size()
         << '\n';
    for (const gemm_measurement& each : table.entries) {
        text << to_string(each.of.type) << (each.of.b_is_transposed ? " transposed " : " plain ") << each.of.rows << ' '
             << each.of.columns << ' ' << each.of.inner << ' ' << each.microseconds << ' ' << each.library_microseconds
             << ' ' << each.fastest << '\n';
    }
    const std::string all = text.str();
    return all + "checksum " + hexadecimal(checksum_of(all)) + '\n';
}

gemm_table gemm_table_from_text(std::string_view text, const std::filesystem::path& file) {
    reader from(text, file);
    if (from.until('\n', "format") != first_line) {
        reader(text, file).refuse("format", "is not \"" + std::string(first_line) + "\"");
    }
    gemm_table made;
    made.origin.device = from.named("device");
    made.origin.driver = from.named_number<unsigned>("driver");
    made.origin.library = from.named_number<unsigned>("library");
    made.origin.kernels = from.named_number<unsigned>("kernels");
    const auto entries = from.named_number<std::size_t>("entries");
    if (entries > most_entries) from.refuse("entries", "are too many");
    for (std::size_t i = 0; i < entries; ++i) made.entries.push_back(entry_from(from));
    const std::string expected = hexadecimal(checksum_of(from.passed()));
    if (from.named("checksum") != expected) from.refuse("checksum", "is not that of the contents");
    if (!from.is_at_end()) from.refuse("end", "more follows the table");
    return made;
}

void write_gemm_table(const std::filesystem::path& file, const gemm_table& table) {
    std::error_code failure;
    if (file.has_parent_path()) std::filesystem::create_directories(file.parent_path(), failure);
    if (failure) {
        throw file_error(file.parent_path(), file_error::no_offset, "create", failure.message(), errc::io_failed);
    }
    io::write_file(file, [&](std::ostream& to) { to << to_text(table); });
}

gemm_table usable_gemm_table(const std::filesystem::path& file, const gemm_table_origin& here,
                             const std::function<void(const std::string&)>& warn) {
    std::error_code ignored;
    if (!std::filesystem::exists(file, ignored)) return {here, {}};
    std::string why;
    try {
        if (!std::filesystem::is_regular_file(file) || std::filesystem::file_size(file) > most_bytes)
            throw file_error(file, file_error::no_offset, "read", "no table has that size", errc::io_failed);
        std::ifstream stream(file, std::ios::binary);
        const std::string text{std::istreambuf_iterator<char>(stream), {}};
        if (!stream) throw file_error(file, file_error::no_offset, "read", "failed", errc::io_failed);
        gemm_table found = gemm_table_from_text(text, file);
        why = difference(found.origin, here);
        if (why.empty()) return found;
        why = file.string() + ": " + why;
    } catch (const std::exception& refusal) {  // the library's own, when reading fails, too
        why = refusal.what();
    }
    warn("the table of measured matrix products is ignored: " + printable(why) + "; sluice tune makes a new one");
    return {here, {}};
}

}  // namespace kernels
}  // namespace sluice
