// SPDX-License-Identifier: Apache-2.0
#include "sluice/io/npz.hpp"

#include <algorithm>
#include <utility>

#include "inflate.hpp"
#include "sluice/base/printable.hpp"
#include "sluice/io/file_memory.hpp"
#include "zip_directory.hpp"

namespace sluice::io {
namespace {

constexpr std::string_view npy_ending = ".npy";

}  // namespace

npz_view::npz_view(std::span<const std::byte> file, std::filesystem::path label, npz_limits limits)
    : file_(file), path_(std::move(label)), limits_(limits) {
    for (zip_member& each : parse_zip_directory(file, path_)) {
        if (!each.name.ends_with(npy_ending)) continue;
        each.name.resize(each.name.size() - npy_ending.size());
        if (each.name.empty()) throw file_error(path_, each.header_offset, "name", "an array has no name");
        members_.push_back({.name = std::move(each.name),
                            .header_offset = each.header_offset,
                            .data_offset = each.data_offset,
                            .stored_bytes = each.stored_bytes,
                            .bytes = each.bytes,
                            .crc = each.crc,
                            .is_deflated = each.is_deflated});
    }
}

const npz_member* npz_view::find(std::string_view name) const noexcept {
    const auto found = std::ranges::find(members_, name, &npz_member::name);
    return found == members_.end() ? nullptr : &*found;
}

npz_array npz_view::read(std::string_view name) const {
    if (const npz_member* const found = find(name)) return read(*found);
    std::string names;
    for (const npz_member& each : members_) names += (names.empty() ? "" : ", ") + in_quotes(each.name);
    throw file_error(
        path_, file_error::no_offset, "member",
        "there is no array " + in_quotes(name) + "; " + (names.empty() ? "there are none" : "there are " + names));
}

npz_array npz_view::read(const npz_member& member) const {
    std::filesystem::path label = path_;
    label += ":" + member.name;
    const auto stored =
        file_.subspan(static_cast<std::size_t>(member.data_offset), static_cast<std::size_t>(member.stored_bytes));
    const auto require_crc = [&](std::span<const std::byte> bytes) {
        if (crc32_of(bytes) != member.crc)
            throw file_error(path_, member.data_offset, "CRC",
                             "of " + in_quotes(member.name) + " is not that of its data");
    };
    if (!member.is_deflated) {
        require_crc(stored);
        return npz_array(npy_view(stored, std::move(label)));
    }
    if (member.bytes > limits_.inflated_bytes) {
        throw file_error(path_, member.header_offset, "size",
                         in_quotes(member.name) + " has " + std::to_string(member.bytes) +
                             " bytes; compressed arrays may have " + std::to_string(limits_.inflated_bytes) +
                             " (those that numpy.savez writes may have any number)");
    }
    auto inflated = vector_for<std::byte>(path_, member.header_offset, in_quotes(member.name),
                                          static_cast<std::size_t>(member.bytes));
    if (!inflate_all(stored, inflated))
        throw file_error(path_, member.data_offset, "data", "the data of " + in_quotes(member.name) + " is damaged");
    require_crc(inflated);
    return npz_array(std::move(inflated), std::move(label));
}

}  // namespace sluice::io
