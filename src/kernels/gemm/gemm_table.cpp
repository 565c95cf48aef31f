// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm/gemm_table.hpp"

#include <locale>
#include <sstream>

#include "kernels/table_text.hpp"
#include "sluice/base/printable.hpp"

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

gemm_type type_from(table_reader& from) {
    const std::string_view name = from.word("type");
    for (const gemm_type each : {gemm_type::tf32, gemm_type::f16, gemm_type::bf16}) {
        if (name == to_string(each)) return each;
    }
    from.refuse("type", "is none");
}

gemm_measurement entry_from(table_reader& from) {
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
    return with_checksum(text.str());
}

gemm_table gemm_table_from_text(std::string_view text, const std::filesystem::path& file) {
    table_reader from(text, file);
    from.require_format(first_line);
    gemm_table made;
    made.origin.device = from.named("device");
    made.origin.driver = from.named_number<unsigned>("driver");
    made.origin.library = from.named_number<unsigned>("library");
    made.origin.kernels = from.named_number<unsigned>("kernels");
    const auto entries = from.named_number<std::size_t>("entries");
    if (entries > most_entries) from.refuse("entries", "are too many");
    for (std::size_t i = 0; i < entries; ++i) made.entries.push_back(entry_from(from));
    from.require_end();
    return made;
}

void write_gemm_table(const std::filesystem::path& file, const gemm_table& table) { write_table(file, to_text(table)); }

gemm_table usable_gemm_table(const std::filesystem::path& file, const gemm_table_origin& here,
                             const std::function<void(const std::string&)>& warn) {
    std::error_code ignored;
    if (!std::filesystem::exists(file, ignored)) return {here, {}};
    std::string why;
    try {
        const std::string text = read_table(file, most_bytes);
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
