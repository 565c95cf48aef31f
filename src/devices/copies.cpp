// SPDX-License-Identifier: Apache-2.0
// The common parts of copy_to, replicate, shard and gather.
#include <array>
#include <span>

#include "sluice/devices/replicate.hpp"
#include "sluice/devices/shard.hpp"

namespace sluice::detail {

void copy_across(stream on, const command_info& info, storage& to, std::size_t to_offset, storage& from,
                 std::size_t from_offset, std::size_t bytes) {
    const std::array accesses{memory_access{&from, access_mode::read}, memory_access{&to, access_mode::write}};
    const bool leaves_device = &from.owner() != &on.owner();
    command_info named = info;
    named.accesses = accesses;
    named.spans_devices = leaves_device;
    on.copy(named, {static_cast<std::byte*>(to.data()) + to_offset,
                    static_cast<const std::byte*>(from.data()) + from_offset,
                    bytes,
                    copy_direction::device_to_device,
                    {},
                    leaves_device ? &from.owner() : nullptr});
}

// In each round, every device that has the tensor copies it to one that does not.
std::vector<relay_copy> relay_order(std::vector<bool> has) {
    std::vector<std::size_t> givers;
    std::vector<std::size_t> takers;
    for (std::size_t i = 0; i < has.size(); ++i) (has[i] ? givers : takers).push_back(i);
    std::vector<relay_copy> order;
    for (std::size_t taken = 0; taken < takers.size();) {
        const std::size_t now = givers.size();
        for (std::size_t i = 0; i < now && taken < takers.size(); ++i) {
            order.push_back({givers[i], takers[taken]});
            givers.push_back(takers[taken++]);
        }
    }
    return order;
}

row_range part_of_rows(std::size_t rows, std::size_t number, std::size_t parts) {
    // Avoids rows * i, which could overflow.
    const auto begin_of = [&](std::size_t i) { return rows / parts * i + rows % parts * i / parts; };
    return {begin_of(number), begin_of(number + 1) - begin_of(number)};
}

std::size_t rows_to_split(const shape& whole, const source_location& location) {
    if (whole.rank() != 0) return whole[0];
    throw error(errc::shape_mismatch, "a single number has no rows to split", {"shard", "", location});
}

shape with_rows(const shape& like, std::size_t rows) {
    std::array<std::size_t, shape::max_rank> extents{rows};
    for (std::size_t i = 1; i < like.rank(); ++i) extents[i] = like[i];
    return shape(std::span(extents).first(like.rank()));
}

shape gathered_shape(std::span<const shape> parts, const source_location& location) {
    const error_context context{"gather", "", location};
    if (parts.empty()) throw error(errc::shape_mismatch, "gather needs at least one tensor", context);
    std::size_t rows = 0;
    for (const shape& each : parts) {
        if (each.rank() == 0 || with_rows(each, 0) != with_rows(parts.front(), 0)) {
            throw error(errc::shape_mismatch,
                        "parts of shapes " + to_string(parts.front()) + " and " + to_string(each) +
                            " cannot be joined: they differ in more than the number of rows",
                        context);
        }
        rows += each[0];
    }
    return with_rows(parts.front(), rows);
}

}  // namespace sluice::detail
