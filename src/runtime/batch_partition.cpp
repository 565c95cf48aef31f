// SPDX-License-Identifier: Apache-2.0
#include "sluice/runtime/batch_partition.hpp"

#include "sluice/base/error.hpp"

namespace sluice::detail {

void require_batch_tiles(const shape& whole, const shape& tile) {
    if (whole.rank() == 3 && tile.rank() == 3 && tile[0] == 1 && tile.size() != 0) return;
    throw error(errc::shape_mismatch,
                "a batch_partition splits a batch of matrices, [batch, rows, columns], into tiles of one matrix, "
                "[1, rows, columns], that are not empty; this is " +
                    to_string(whole) + " in tiles of " + to_string(tile));
}

}  // namespace sluice::detail
