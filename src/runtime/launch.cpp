// SPDX-License-Identifier: Apache-2.0
#include "sluice/runtime/launch.hpp"

#include "sluice/base/error.hpp"
#include "sluice/runtime/execution_context.hpp"

namespace sluice::detail {

stream stream_of(execution_context& context) noexcept { return context.stream(); }

void require_matrix(const shape& given, const error_context& context) {
    if (given.rank() == 2) return;
    throw error(errc::shape_mismatch, "a matrix parameter was given a tensor of shape " + to_string(given), context);
}

rows_and_columns launch_size(const launch_range& range, index_kind kind, const error_context& context) {
    if (range.over.is_none()) refuse_moved_tensor(context);
    if (kind == index_kind::one && !range.is_tiles) return {1, range.over.size()};
    if (kind == index_kind::tile && range.is_tiles) return {range.over[0], range.over[1]};
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
