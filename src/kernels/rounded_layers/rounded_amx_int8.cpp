// SPDX-License-Identifier: Apache-2.0
// Rounded layers on a CPU with AMX-INT8: an instruction multiplies 16 rows of 64 inputs by 16 columns of as many
// weights.
#define SLUICE_LANES 16
#define SLUICE_TILE_ROWS 12
#define SLUICE_TILE_PANELS 2
#include "kernels/rounded_layers/rounded_loops.hpp"
//
#include "kernels/rounded_layers/amx_tiles.hpp"
#include "kernels/rounded_layers/rounded_tables.hpp"
#include "kernels/rounded_layers/rounded_tiles.hpp"

namespace sluice::kernels {

rounded_kernel rounded_amx_int8() {
    rounded_kernel made = rounded_avx512_vnni();  // a processor with AMX has that, too
    made.name = "AMX-INT8";
    made.multiply = &multiply_with_tiles<amx_tiles<rounded_type::int8>>;
    made.has_tiles = true;
    made.sharing = sharing_of_int8_tiles;
    return made;
}

}  // namespace sluice::kernels
