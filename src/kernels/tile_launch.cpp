// SPDX-License-Identifier: Apache-2.0
#include "sluice/kernels/tile_launch.hpp"

#include <string>

#include "sluice/base/error.hpp"

namespace sluice::detail {
namespace {

constexpr std::size_t max_blocks = 0x7fffffff;

std::size_t tiles_along(std::size_t whole, std::size_t tile) { return whole / tile + (whole % tile == 0 ? 0 : 1); }

}  // namespace

void require_vector(const shape& given, const error_context& context) {
    if (given.rank() == 1) return;
    throw error(errc::shape_mismatch, "a vector parameter was given a tensor of shape " + to_string(given), context);
}

void require_tiles(const shape& given, const shape& of_kernel, const error_context& context) {
    if (given == of_kernel) return;
    throw error(errc::shape_mismatch,
                "the kernel writes tiles of " + to_string(of_kernel) + ", and was given a partition in tiles of " +
                    to_string(given),
                context);
}

void tile_grid::add(const shape& whole, const shape& tile, const error_context& context) {
    const std::size_t down = tiles_along(whole.rows(), tile.rows());
    const std::size_t across = tiles_along(whole.columns(), tile.columns());
    if (down != 0 && across > max_blocks / down) {
        throw error(errc::invalid_argument,
                    "a launch has at most 2^31 - 1 tiles; " + to_string(whole) + " has more, of " + to_string(tile),
                    context);
    }
    const bool is_first = whole_.rank() == 0;
    const bool has_vector = whole.rank() == 1 || whole_.rank() == 1;
    const bool fits =
        is_first || (has_vector ? std::size_t{down_} * across_ == down * across : down_ == down && across_ == across);
    if (!fits) {
        throw error(errc::shape_mismatch,
                    "the kernel writes " + to_string(whole_) + " in " + std::to_string(down_) + " x " +
                        std::to_string(across_) + " tiles, but " + to_string(whole) + " in " + std::to_string(down) +
                        " x " + std::to_string(across),
                    context);
    }
    if (!is_first && whole.rank() <= whole_.rank()) return;
    whole_ = whole;
    down_ = static_cast<unsigned>(down);
    across_ = static_cast<unsigned>(across);
}

void tile_grid::require(const launch_range& range, const error_context& context) const {
    if (range.over.is_none()) refuse_moved_tensor(context);
    const std::size_t tiles = std::size_t{down_} * across_;
    if (range.is_tiles ? range.over.size() == tiles : range.over == whole_) return;
    throw error(errc::shape_mismatch,
                "a tile kernel runs over all tiles of what it writes, " + to_string(whole_) + " in " +
                    std::to_string(tiles) + ", not over " + to_string(range.over) + (range.is_tiles ? " tiles" : ""),
                context);
}

void require_no_misfit(const char* misfit, const error_context& context) {
    if (misfit != nullptr) throw error(errc::shape_mismatch, misfit, context);
}

}  // namespace sluice::detail
