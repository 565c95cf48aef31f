// SPDX-License-Identifier: Apache-2.0
// Rounded layers on a CPU with AMX-BF16: an instruction multiplies 16 rows of 32 inputs by 16 columns of as many
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

rounded_kernel rounded_amx_bf16() {
    rounded_kernel made = rounded_avx512_bf16();  // a processor with AMX has that, too
    made.name = "AMX-BF16";
    made.multiply = &multiply_with_tiles<amx_tiles<rounded_type::bf16>>;
    made.has_tiles = true;
    made.rounds_outputs = true;
    made.sharing = sharing_of_bf16_tiles;
    return made;
}

}  // namespace sluice::kernels
