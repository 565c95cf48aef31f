// SPDX-License-Identifier: Apache-2.0
#include "sluice/runtime/launch.hpp"

#include "runtime/access_room.hpp"
#include "sluice/base/error.hpp"
#include "sluice/runtime/detail/access_notice.hpp"
#include "sluice/runtime/device.hpp"
#include "sluice/runtime/execution_context.hpp"

namespace sluice {

std::string to_string(const launch_extent& size) {
    return std::to_string(size.x) + " x " + std::to_string(size.y) + " x " + std::to_string(size.z);
}

}  // namespace sluice

namespace sluice::detail {

stream stream_of(execution_context& context) noexcept { return context.stream(); }

void require_matrix(const shape& given, const error_context& context) {
    if (given.rank() == 2) return;
    throw error(errc::shape_mismatch, "a matrix parameter was given a tensor of shape " + to_string(given), context);
}

std::size_t shared_bytes_with_notice(const device& on, std::size_t shared_bytes) noexcept {
    constexpr std::size_t unit = alignof(access_notice);
    const std::size_t bytes = (shared_bytes + unit - 1) / unit * unit + sizeof(access_notice);
    return bytes > on.properties().max_shared_bytes_per_block ? shared_bytes : bytes;
}

access_notice make_notice(stream on, std::string_view name, std::size_t& shared_bytes) {
    access_record* const record = on.owner().interpreter().access_report();
    if (record == nullptr) return {};
    const std::size_t bytes = shared_bytes_with_notice(on.owner(), shared_bytes);
    if (bytes == shared_bytes) return {};
    shared_bytes = bytes;
    return {access_notice::is_valid, record, name.data(), name.size()};
}

rows_and_columns launch_size(const launch_range& range, index_kind kind, const error_context& context) {
    if (range.over.is_none()) refuse_moved_tensor(context);
    if (kind == index_kind::one && !range.is_tiles) return {1, range.over.size()};
    if (kind == index_kind::tile && range.is_tiles) {
        if (range.over.rank() == 2) return {range.over[0], range.over[1]};
        throw error(
            errc::shape_mismatch,
            "a kernel with a tile_index runs over the tiles of a matrix; each_of(batch_partition) is for kernels "
            "with a tile_block",
            context);
    }
    if (kind == index_kind::two && !range.is_tiles) {
        if (range.over.rank() == 2) return {range.over[0], range.over[1]};
        throw error(errc::shape_mismatch,
                    "a kernel with an index_2d runs over a matrix, not over " + to_string(range.over), context);
    }
    throw error(errc::shape_mismatch,
                range.is_tiles ? "a launch over tiles needs a kernel that takes a tile_index"
                               : "a kernel that takes a tile_index needs a launch over the tiles of a partition",
                context);
}

}  // namespace sluice::detail
