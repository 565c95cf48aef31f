// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm/gemm_hopper.hpp"

#include <algorithm>
#include <cmath>

#include "cuda/api/tensor_map.hpp"
#include "kernels/gemm/gemm_wgmma.cuh"

namespace sluice::kernels {
namespace {

using cuda::api::make_tensor_map;
using cuda::api::tensor_map_element;

template <typename T, typename Tile, bool AlongColumns>
const void* kernel() {
    return reinterpret_cast<const void*>(&gemm_wgmma<T, Tile, AlongColumns>);
}

template <typename Tile>
hopper_tile describe(std::string_view name) {
    return {name,
            Tile::rows,
            Tile::columns,
            Tile::cluster,
            Tile::parts,
            Tile::blocks,
            Tile::threads,
            Tile::shared_bytes,
            {{nullptr, kernel<float, Tile, false>()},
             {kernel<half, Tile, true>(), kernel<half, Tile, false>()},
             {kernel<bfloat16, Tile, true>(), kernel<bfloat16, Tile, false>()}}};
}

int index_of(gemm_type type) { return static_cast<int>(type) - static_cast<int>(gemm_type::tf32); }

tensor_map_element element_of(gemm_type type) {
    switch (type) {
        case gemm_type::f16: return tensor_map_element::f16;
        case gemm_type::bf16: return tensor_map_element::bf16;
        case gemm_type::f32:
        case gemm_type::tf32: break;
    }
    return tensor_map_element::tf32;
}

unsigned divided_up(std::size_t a, std::size_t b) { return static_cast<unsigned>((a + b - 1) / b); }

}  // namespace

std::span<const hopper_tile> hopper_tiles() noexcept {
    static const hopper_tile all[] = {
        describe<gemm_tile<128, 256, 4, 2, 1>>("128x256 in pairs"),
        describe<gemm_tile<128, 256, 4, 1, 1>>("128x256"),
        describe<gemm_tile<128, 128, 6, 2, 1>>("128x128 in pairs"),
        describe<gemm_tile<128, 128, 6, 1, 1>>("128x128"),
        describe<gemm_tile<64, 256, 5, 1, 1>>("64x256"),
        describe<gemm_tile<64, 128, 4, 1, 2>>("64x128"),
        describe<gemm_tile<64, 64, 6, 1, 2>>("64x64"),
        describe<gemm_tile<64, 64, 6, 1, 2, 2>>("64x64 in 2 parts"),
        describe<gemm_tile<64, 64, 6, 1, 2, 4>>("64x64 in 4 parts"),
    };
    return all;
}

bool gemm_fits_hopper(const gemm_problem& problem) noexcept {
    const std::size_t elements = 16 / bytes_of(problem.type);
    constexpr std::size_t most = std::size_t{1} << 31;
    return problem.type != gemm_type::f32 && (problem.type != gemm_type::tf32 || problem.b_is_transposed) &&
           problem.inner % elements == 0 && problem.columns % elements == 0 && problem.rows < most &&
           problem.columns < most && problem.inner < most;
}

launch_command gemm_on_hopper(const gemm_call& call, const device_properties& gpu, gemm_wgmma_call& closure) {
    const gemm_problem& of = call.problem;
    const hopper_tile& tile = hopper_tiles()[call.way.which];
    const error_context context{"gemm"};
    const tensor_map_element element = element_of(of.type),
                             result = of.type == gemm_type::tf32 ? tensor_map_element::f32 : element;
    const unsigned down = divided_up(of.rows, tile.rows * tile.cluster), across = divided_up(of.columns, tile.columns);
    const unsigned side_by_side = static_cast<unsigned>(gpu.compute_units) * tile.blocks / tile.cluster;

    closure.a = make_tensor_map({call.a, element, of.rows, of.inner}, tile.rows, context);
    // Each block of a cluster brings its share of b: rows of it, or, the other way round, 128 bytes of 64 rows at a
    // time.
    closure.b = of.b_is_transposed
                    ? make_tensor_map({call.b, element, of.columns, of.inner}, tile.columns / tile.cluster, context)
                    : make_tensor_map({call.b, element, of.inner, of.columns}, 64, context);
    closure.out = make_tensor_map({call.out, result, of.rows, of.columns}, rows_of_group, context);
    closure.to = call.out;
    closure.bias = call.bias;
    closure.rows = static_cast<unsigned>(of.rows);
    closure.columns = static_cast<unsigned>(of.columns);
    closure.inner = static_cast<unsigned>(of.inner);
    // What runs side by side covers about a square of the output, so that it shares most of what it reads.
    const double square = std::sqrt(static_cast<double>(side_by_side) * tile.columns / (tile.rows * tile.cluster));
    closure.band = std::max(1u, static_cast<unsigned>(std::lround(square)));
    closure.after = call.after;

    launch_command made;
    made.device_function = tile.kernels[index_of(of.type)][of.b_is_transposed ? 1 : 0];
    const std::size_t tiles = std::size_t{down} * across;
    // Blocks go from tile to tile, unless they have only parts of one.
    made.grid.x = static_cast<unsigned>(tile.parts > 1 ? tiles * tile.parts
                                                       : std::min<std::size_t>(tiles, side_by_side) * tile.cluster);
    made.block.x = tile.threads;
    made.shared_bytes = tile.shared_bytes;
    made.early_start = true;
    made.closure = &closure;
    made.closure_bytes = sizeof(closure);
    return made;
}

}  // namespace sluice::kernels
