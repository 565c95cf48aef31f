// SPDX-License-Identifier: Apache-2.0
#include "sluice/kernels/tuning_table.hpp"

#include <compare>

#include "kernels/table_text.hpp"
#include "kernels/tuning/tuning_text.hpp"
#include "sluice/base/file_error.hpp"

namespace sluice {
namespace {

constexpr std::uintmax_t most_bytes = std::uintmax_t{64} << 20;

std::strong_ordering order_of(const shape& a, const shape& b) {
    if (a.rank() != b.rank()) return a.rank() <=> b.rank();
    for (std::size_t i = 0; i < a.rank(); ++i) {
        if (a[i] != b[i]) return a[i] <=> b[i];
    }
    return std::strong_ordering::equal;
}

// Shapes first: they differ the soonest.
template <typename A, typename B>
bool is_before(const A& a, const B& b) {
    const auto shapes = std::lexicographical_compare_three_way(a.shapes.begin(), a.shapes.end(), b.shapes.begin(),
                                                               b.shapes.end(), order_of);
    if (shapes != 0) return shapes < 0;
    const auto kernels =
        std::lexicographical_compare_three_way(a.kernels.begin(), a.kernels.end(), b.kernels.begin(), b.kernels.end(),
                                               [](std::string_view x, std::string_view y) { return x <=> y; });
    if (kernels != 0) return kernels < 0;
    return std::string_view(a.device) < std::string_view(b.device);
}

std::vector<tuning_measurement> read(const std::filesystem::path& file) {
    return kernels::measurements_from_text(kernels::read_table(file, most_bytes), file);
}

}  // namespace

bool tuning_table::in_order::operator()(const tuning_measurement& a, const tuning_measurement& b) const {
    return is_before(a, b);
}
bool tuning_table::in_order::operator()(const tuning_measurement& a, const place& b) const { return is_before(a, b); }
bool tuning_table::in_order::operator()(const place& a, const tuning_measurement& b) const { return is_before(a, b); }

void tuning_table::add(tuning_measurement measured) {
    if (const char* const why = kernels::why_not(measured))
        throw error(errc::invalid_argument, "a table cannot have this measurement: " + std::string(why), {"tune"});
    const std::lock_guard lock(mutex_);
    all_.erase(measured);
    all_.insert(std::move(measured));
}

std::optional<std::size_t> tuning_table::find(std::string_view device, std::span<const std::string_view> kernels,
                                              std::span<const shape> shapes) const {
    const std::lock_guard lock(mutex_);
    const auto found = all_.find(place{device, kernels, shapes});
    return found == all_.end() ? std::nullopt : std::optional(found->fastest);
}

std::vector<tuning_measurement> tuning_table::measurements() const {
    const std::lock_guard lock(mutex_);
    return {all_.begin(), all_.end()};
}

void tuning_table::load(const std::filesystem::path& file) {
    for (tuning_measurement& each : read(file)) add(std::move(each));
}

void tuning_table::save(const std::filesystem::path& file) const {
    static std::mutex saving;  // threads of one process lose nothing of each other
    const std::lock_guard lock(saving);
    tuning_table merged;
    std::error_code ignored;
    if (std::filesystem::exists(std::filesystem::symlink_status(file, ignored))) merged.load(file);
    for (tuning_measurement& each : measurements()) merged.add(std::move(each));
    const std::string text = kernels::to_text(merged.measurements());
    if (merged.all_.size() > kernels::most_measurements || text.size() > most_bytes)
        throw file_error(file, file_error::no_offset, "entries", "are too many for one table", errc::io_failed);
    kernels::write_table(file, text);
}

}  // namespace sluice
