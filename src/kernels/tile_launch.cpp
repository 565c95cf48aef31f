// SPDX-License-Identifier: Apache-2.0
#include "sluice/kernels/tile_launch.hpp"

#include <string>

#include "sluice/base/error.hpp"

namespace sluice::detail {
namespace {

constexpr std::size_t max_blocks = 0x7fffffff;

std::size_t tiles_along(std::size_t whole, std::size_t tile) { return whole / tile + (whole % tile == 0 ? 0 : 1); }

// A vector is a batch of one matrix of one row.
struct tile_counts {
    std::size_t batches;
    std::size_t down;
    std::size_t across;

    tile_counts(const shape& whole, const shape& tile)
        : batches(whole.rank() == 3 ? whole[0] : 1),
          down(tiles_along(whole.rank() == 3 ? whole[1] : whole.rows(), tile.rows())),
          across(tiles_along(whole.columns(), tile.columns())) {}

    // Throws errc::invalid_argument for more than CUDA's 2^31 - 1.
    std::size_t require_all(const shape& whole, const shape& tile, const error_context& context) const {
        if (batches == 0 || down == 0 || across == 0) return 0;
        if (down <= max_blocks / batches && across <= max_blocks / (batches * down)) return batches * down * across;
        throw error(errc::invalid_argument,
                    "a launch has at most 2^31 - 1 tiles; " + to_string(whole) + " has more, of " + to_string(tile),
                    context);
    }
};

// "[2, 20, 20] in 2 x 3 x 2 tiles"
std::string text_of(const shape& whole, std::size_t batches, std::size_t down, std::size_t across) {
    return to_string(whole) + " in " + (whole.rank() == 3 ? std::to_string(batches) + " x " : "") +
           std::to_string(down) + " x " + std::to_string(across);
}

}  // namespace

void require_vector(const shape& given, const error_context& context) {
    if (given.rank() == 1) return;
    throw error(errc::shape_mismatch, "a vector parameter was given a tensor of shape " + to_string(given), context);
}

void require_batch(const shape& given, const error_context& context) {
    if (given.rank() == 3) return;
    throw error(
        errc::shape_mismatch,
        "a parameter for a batch of matrices, [batch, rows, columns], was given a tensor of shape " + to_string(given),
        context);
}

void require_tiles(const shape& given, const shape& of_kernel, const error_context& context) {
    if (given == of_kernel) return;
    throw error(errc::shape_mismatch,
                "the kernel writes tiles of " + to_string(of_kernel) + ", and was given a partition in tiles of " +
                    to_string(given),
                context);
}

void tile_grid::add(const shape& whole, const shape& tile, const error_context& context) {
    const tile_counts of(whole, tile);
    const std::size_t all = of.require_all(whole, tile, context);
    const bool is_first = whole_.rank() == 0;
    const bool has_vector = whole.rank() == 1 || whole_.rank() == 1;
    const bool fits = is_first || (has_vector ? std::size_t{down()} * across_ == all
                                              : batches_ == of.batches && down_ == of.down && across_ == of.across);
    if (!fits) {
        throw error(errc::shape_mismatch,
                    "the kernel writes " + text_of(whole_, batches_, down_, across_) + " tiles, but " +
                        text_of(whole, of.batches, of.down, of.across),
                    context);
    }
    if (!is_first && whole.rank() <= whole_.rank()) return;
    whole_ = whole;
    batches_ = static_cast<unsigned>(of.batches);
    down_ = static_cast<unsigned>(of.down);
    across_ = static_cast<unsigned>(of.across);
}

void tile_grid::require(const launch_range& range, const error_context& context) const {
    if (range.over.is_none()) refuse_moved_tensor(context);
    const std::size_t tiles = std::size_t{down()} * across_;
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
