// SPDX-License-Identifier: Apache-2.0
// batch_partition<T>: a batch of matrices, a tensor of shape [batch, rows, columns], that is split into disjoint tiles
// of one matrix each. It owns its memory, is move-only, and may be dropped at any moment.
//
//     zeros<float>({8, 100, 60})
//         .transform([](auto x) { return batch_partition(std::move(x), {1, 16, 16}); })
//         .and_then([](auto tiles) { return launch(kernel{}, each_of(tiles), std::move(tiles)); })
//         .transform([](auto tiles) { return std::move(tiles).unpartition(); })
//
// For kernels with a tile_block (kernels/batch_tiles.hpp). The tiles at the last row and column of each matrix may be
// smaller; no tile has numbers of two matrices.
#pragma once

#include <utility>

#include "sluice/runtime/host_call.hpp"
#include "sluice/runtime/launch.hpp"
#include "sluice/runtime/tensor.hpp"

namespace sluice {

namespace detail {
// Throws errc::shape_mismatch unless the whole is a batch of matrices and the tile [1, rows, columns], not empty.
void require_batch_tiles(const shape& whole, const shape& tile);
}  // namespace detail

template <typename T>
class batch_partition {
public:
    using value_type = T;  // of the elements

    // Throws errc::shape_mismatch unless `whole` has three dimensions and the tile is {1, rows, columns}, not empty.
    // Costs O(1).
    batch_partition(tensor<T> whole, const shape& tile) : whole_(std::move(whole)), tile_(tile) {
        detail::require_batch_tiles(whole_.shape(), tile_);
    }

    // The shape of a whole tile; those at the edges are smaller.
    const shape& tile_shape() const noexcept { return tile_; }
    // How many matrices, and how many tiles down and across each of them. Costs O(1).
    std::size_t batches() const noexcept { return whole_.shape()[0]; }
    std::size_t tile_rows() const noexcept { return tiles_along(1); }  // how many tiles down each matrix; costs O(1)
    // How many tiles across each matrix. Costs O(1).
    std::size_t tile_columns() const noexcept { return tiles_along(2); }
    const tensor<T>& whole() const noexcept { return whole_; }  // the tensor that is split

    // The tensor again; the partition is empty then. Costs O(1).
    tensor<T> unpartition() && { return std::move(whole_); }

private:
    std::size_t tiles_along(std::size_t dimension) const noexcept {
        const std::size_t all = whole_.shape()[dimension], each = tile_[dimension];
        return all / each + (all % each == 0 ? 0 : 1);
    }

    tensor<T> whole_;
    shape tile_;
};

// Every tile of every matrix. Costs O(1).
template <typename T>
launch_range each_of(const batch_partition<T>& tiles, source_location location = source_location::current()) {
    return {shape{tiles.batches(), tiles.tile_rows(), tiles.tile_columns()}, true, location};
}

namespace detail {

template <typename T>
inline constexpr bool is_device_data<batch_partition<T>> = true;

// Where a tensor may be read, a batch_partition may be read too.
template <typename Parameter, typename T>
requires(use_if_read<Parameter, tensor<T>> == argument_use::read)
struct bound_argument<Parameter, batch_partition<T>> {
    static constexpr argument_use use = argument_use::read;
    static Parameter bind(const batch_partition<T>& from, const error_context& context) {
        return bound_argument<Parameter, tensor<T>>::bind(from.whole(), context);
    }
    static storage* memory(const batch_partition<T>& from) { return from.whole().memory(); }
};

}  // namespace detail
}  // namespace sluice
