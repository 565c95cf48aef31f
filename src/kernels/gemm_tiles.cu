// gemm by tile kernels: one of the compiled sizes by how many blocks the product makes, masked at its edges.
#include <new>

#include "kernels/activated.hpp"
#include "kernels/gemm_tiles.hpp"
#include "sluice/kernels/tile.hpp"
#include "sluice/runtime/error.hpp"

namespace sluice::kernels {
namespace {

template <typename Arithmetic, bool Transposed, int Rows, int Columns, int Inner>
struct gemm_by_tiles {
    using element = detail::tile_factor<Arithmetic>;
    tiles_of<const element, Rows, Inner> a;
    tiles_of<const element, Transposed ? Columns : Inner, Transposed ? Inner : Columns> b;
    tiles_of<element, Rows, Columns> out;
    const element* bias;  // or null
    activation after;

    SLUICE_KERNEL void operator()(const tile_block& at) const {
        accumulator<Arithmetic, Rows, Columns> sum;
        const unsigned rounds = a.across();
        auto left = a.load(at.row(), 0);
        auto right = load_b(at, 0);
        for (unsigned k = 0; k < rounds; ++k) {
            const auto now_left = left;
            const auto now_right = right;
            if (k + 1 < rounds) {  // while this is multiplied
                left = a.load(at.row(), k + 1);
                right = load_b(at, k + 1);
            }
            if constexpr (Transposed) {
                mma_transposed(now_left, now_right, sum);
            } else {
                mma(now_left, now_right, sum);
            }
        }
        sum.replace([&](int, int column, float x) {
            const std::size_t c = std::size_t{at.column()} * Columns + static_cast<std::size_t>(column);
            if (bias != nullptr && c < out.columns()) x += float{bias[c]};
            return activated(x, after);
        });
        out.store(at, sum);
    }

private:
    SLUICE_KERNEL auto load_b(const tile_block& at, unsigned k) const {
        return Transposed ? b.load(at.column(), k) : b.load(k, at.column());
    }
};

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
                        static_cast<const element*>(call.bias),
                        call.after};
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
