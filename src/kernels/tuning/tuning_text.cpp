// SPDX-License-Identifier: Apache-2.0
#include "kernels/tuning/tuning_text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <locale>
#include <sstream>

#include "kernels/table_text.hpp"
#include "sluice/base/error.hpp"

namespace sluice::kernels {
namespace {

constexpr std::string_view first_line = "sluice kernel table 1";
constexpr std::size_t most_kernels = 1'000, most_shapes = 1'000;

bool is_line(const std::string& name) { return !name.empty() && name.find('\n') == std::string::npos; }

bool is_time(double microseconds) { return std::isfinite(microseconds) && microseconds >= 0; }

std::size_t count_from(table_reader& from, std::string_view name, std::size_t most) {
    const auto count = from.named_number<std::size_t>(name);
    if (count > most) from.refuse(name, "are too many");
    return count;
}

shape shape_from(table_reader& from) {
    std::string_view left = from.named("shape");
    if (left == "-") return {};
    std::array<std::size_t, shape::max_rank> extents{};
    std::size_t rank = 0;
    for (bool is_last = false; !is_last;) {
        if (rank == shape::max_rank) from.refuse("shape", "has too many dimensions");
        const char* const end = left.data() + left.size();
        const auto [stop, failure] = std::from_chars(left.data(), end, extents[rank++]);
        is_last = stop == end;
        if (failure != std::errc() || (!is_last && *stop != ' ')) from.refuse("shape", "is no list of numbers");
        if (!is_last) left.remove_prefix(static_cast<std::size_t>(stop + 1 - left.data()));
    }
    try {
        return shape(std::span<const std::size_t>(extents).first(rank));
    } catch (const error&) {
        from.refuse("shape", "has more elements than there can be");
    }
}

tuning_measurement entry_from(table_reader& from) {
    tuning_measurement made;
    made.device = from.named("device");
    for (std::size_t left = count_from(from, "kernels", most_kernels); left != 0; --left)
        made.kernels.emplace_back(from.named("kernel"));
    for (std::size_t left = count_from(from, "shapes", most_shapes); left != 0; --left)
        made.shapes.push_back(shape_from(from));
    made.fastest = from.named_number<std::size_t>("fastest");
    made.microseconds = from.named_number<double>("microseconds");
    made.default_microseconds = from.named_number<double>("default");
    if (const char* const why = why_not(made)) from.refuse("entry", why);
    return made;
}

}  // namespace

const char* why_not(const tuning_measurement& measured) {
    if (!is_line(measured.device)) return "the device's name is empty or has a line break";
    if (measured.kernels.empty() || measured.kernels.size() > most_kernels) return "it has no kernels, or too many";
    if (!std::all_of(measured.kernels.begin(), measured.kernels.end(), is_line))
        return "a kernel's name is empty or has a line break";
    if (measured.shapes.empty() || measured.shapes.size() > most_shapes) return "it has no shapes, or too many";
    if (measured.fastest >= measured.kernels.size()) return "the fastest is none of the kernels";
    if (!is_time(measured.microseconds) || !is_time(measured.default_microseconds))
        return "a time is negative or no number";
    return nullptr;
}

std::string to_text(std::span<const tuning_measurement> all) {
    std::ostringstream text;
    text.imbue(std::locale::classic());  // whatever the program's is
    text << first_line << "\nentries " << all.size() << '\n';
    for (const tuning_measurement& each : all) {
        text << "device " << each.device << "\nkernels " << each.kernels.size() << '\n';
        for (const std::string& kernel : each.kernels) text << "kernel " << kernel << '\n';
        text << "shapes " << each.shapes.size() << '\n';
        for (const shape& of : each.shapes) {
            text << "shape" << (of.rank() == 0 ? " -" : "");
            for (std::size_t i = 0; i < of.rank(); ++i) text << ' ' << of[i];
            text << '\n';
        }
        text << "fastest " << each.fastest << "\nmicroseconds " << each.microseconds << "\ndefault "
             << each.default_microseconds << '\n';
    }
    return with_checksum(text.str());
}

std::vector<tuning_measurement> measurements_from_text(std::string_view text, const std::filesystem::path& file) {
    table_reader from(text, file);
    from.require_format(first_line);
    std::vector<tuning_measurement> all;
    for (std::size_t left = count_from(from, "entries", most_measurements); left != 0; --left)
        all.push_back(entry_from(from));
    from.require_end();
    return all;
}

}  // namespace sluice::kernels
