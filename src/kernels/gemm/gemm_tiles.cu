// SPDX-License-Identifier: Apache-2.0
// gemm by tile kernels: one of the compiled sizes by how many blocks the product makes, masked at its edges.
#include <new>

#include "kernels/gemm/gemm_tiles.hpp"
#include "sluice/base/error.hpp"
#include "sluice/kernels/activated.hpp"
#include "sluice/kernels/tile_kernels.hpp"

namespace sluice::kernels {
namespace {

template <typename T>
struct bias_and_activation {
    const T* bias;  // or null
    std::size_t columns;
    activation after;

    SLUICE_KERNEL float operator()(std::size_t column, float sum) const {
        if (bias != nullptr && column < columns) sum += float{bias[column]};
        return activated(sum, after);
    }
};

template <typename Arithmetic, bool Transposed, int Rows, int Columns, int Inner>
using gemm_by_tiles =
    tile_gemm<Arithmetic, Transposed, Rows, Columns, Inner, bias_and_activation<detail::tile_factor<Arithmetic>>>;

template <typename Kernel>
launch_command command_of(const gemm_call& call, gemm_tiles_closure& closure) {
    using element = typename Kernel::element;
    using launch = detail::tile_launch<Kernel>;
    static_assert(sizeof(launch) <= sizeof(closure.bytes));
    const gemm_problem& of = call.problem;
    const Kernel kernel{{static_cast<const element*>(call.a), of.rows, of.inner},
                        {static_cast<const element*>(call.b), of.b_is_transposed ? of.columns : of.inner,
                         of.b_is_transposed ? of.inner : of.columns},
                        {static_cast<element*>(call.out), of.rows, of.columns},
                        {static_cast<const element*>(call.bias), of.columns, call.after}};
    auto& made = *new (closure.bytes) launch{kernel, 0, 0};
    return tile_command(kernel.out, kernel, made);
}

template <typename Arithmetic, bool Transposed>
launch_command command_of_size(const gemm_call& call, gemm_tiles_closure& closure) {
    // Large tiles read less; but there must be enough of them for the multiprocessors.
    constexpr std::size_t enough = 128;
    constexpr int inner = sizeof(detail::tile_factor<Arithmetic>) == 2 ? 32 : 16;
    const std::size_t tiles = ((call.problem.rows + 127) / 128) * ((call.problem.columns + 63) / 64);
    if (tiles >= enough) return command_of<gemm_by_tiles<Arithmetic, Transposed, 128, 64, inner>>(call, closure);
    return command_of<gemm_by_tiles<Arithmetic, Transposed, 64, 64, inner>>(call, closure);
}

template <typename Arithmetic>
launch_command command_of_order(const gemm_call& call, gemm_tiles_closure& closure) {
    return call.problem.b_is_transposed ? command_of_size<Arithmetic, true>(call, closure)
                                        : command_of_size<Arithmetic, false>(call, closure);
}

}  // namespace

launch_command gemm_with_tiles(const gemm_call& call, gemm_tiles_closure& closure) {
    switch (call.problem.type) {
        case gemm_type::f16: return command_of_order<half>(call, closure);
        case gemm_type::bf16: return command_of_order<bfloat16>(call, closure);
        case gemm_type::tf32: return command_of_order<tf32>(call, closure);
        case gemm_type::f32: break;
    }
    return command_of_order<float>(call, closure);
}

}  // namespace sluice::kernels
