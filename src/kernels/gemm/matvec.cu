// SPDX-License-Identifier: Apache-2.0
// matvec: on a GPU a block makes a few outputs of all rows, its threads side by side along the weights' rows, so that
// several 16-byte loads a thread are in flight; their sums meet in shared memory. On a CPU one output after the other.
#include "sluice/kernels/matvec.hpp"

#include <algorithm>
#include <array>

#include "kernels/warp.hpp"
#include "sluice/base/kernel.hpp"
#include "sluice/kernels/activated.hpp"
#include "sluice/runtime/detail/closure.hpp"
#include "sluice/runtime/device.hpp"

namespace sluice {
namespace {

template <typename T>
struct matvec_closure {
    const T* x;
    const T* weight;
    const T* bias;  // or null
    T* out;
    std::size_t rows;
    std::size_t in;
    std::size_t outs;
    activation after;
};

template <typename T>
SLUICE_KERNEL void finish(const matvec_closure<T>& all, std::size_t row, std::size_t which, float sum) {
    if (all.bias != nullptr) sum += all.bias[which];
    all.out[row * all.outs + which] = T(kernels::activated(sum, all.after));
}

template <typename T>
void matvec_on_host(const void* closure) {
    constexpr std::size_t lanes = 16;  // sums side by side, for the vector unit and for precision
    const auto& all = *static_cast<const matvec_closure<T>*>(closure);
    for (std::size_t which = 0; which < all.outs; ++which) {
        const T* const weight = all.weight + which * all.in;
        for (std::size_t row = 0; row < all.rows; ++row) {
            const T* const x = all.x + row * all.in;
            float sums[lanes] = {};
            std::size_t k = 0;
            for (; k + lanes <= all.in; k += lanes) {
                for (std::size_t i = 0; i < lanes; ++i) sums[i] += float{weight[k + i]} * float{x[k + i]};
            }
            float sum = 0;
            for (; k < all.in; ++k) sum += float{weight[k]} * float{x[k]};
            for (const float each : sums) sum += each;
            finish(all, row, which, sum);
        }
    }
}

#if defined(__CUDACC__)
constexpr unsigned matvec_threads = 256;
constexpr int outs_per_block = 4;

// 16 bytes of elements.
template <typename T>
struct piece {
    static constexpr int size = 16 / sizeof(T);
    uint4 bits;

    __device__ void load_once(const uint4* from) { bits = __ldcs(from); }
    // Not through the read-only cache: it may hold the values from before the previous kernel wrote them.
    __device__ void load(const uint4* from) { bits = *from; }
    __device__ void as_floats(float (&to)[size]) const {
        const std::uint32_t words[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
        for (int i = 0; i < size; ++i) {
            if constexpr (sizeof(T) == 4) {
                to[i] = __uint_as_float(words[i]);
            } else if constexpr (std::same_as<T, bfloat16>) {
                to[i] = __uint_as_float(i % 2 == 0 ? words[i / 2] << 16 : words[i / 2] & 0xffff0000u);
            } else {
                to[i] = half::from_bits(static_cast<std::uint16_t>(words[i / 2] >> (16 * (i % 2))));
            }
        }
    }
};

// A thread's pieces of the weights and the inputs, in rows.
template <typename T, int Rows>
struct thread_pieces {
    const uint4* weights[outs_per_block];
    const uint4* x[Rows];
};

// The next `Ahead` pieces of each row, all loads of weights before the first use: memory is far.
template <int Ahead, typename T, int Rows>
__device__ inline void add_pieces(float (&sums)[outs_per_block][Rows], const thread_pieces<T, Rows>& from,
                                  unsigned at) {
    constexpr int size = piece<T>::size;
    piece<T> weights[Ahead][outs_per_block];
#pragma unroll
    for (int p = 0; p < Ahead; ++p) {
#pragma unroll
        for (int o = 0; o < outs_per_block; ++o) weights[p][o].load_once(from.weights[o] + at + p * matvec_threads);
    }
#pragma unroll
    for (int p = 0; p < Ahead; ++p) {
#pragma unroll
        for (int row = 0; row < Rows; ++row) {
            piece<T> some;
            some.load(from.x[row] + at + p * matvec_threads);
            float x[size];
            some.as_floats(x);
#pragma unroll
            for (int o = 0; o < outs_per_block; ++o) {
                float w[size];
                weights[p][o].as_floats(w);
#pragma unroll
                for (int i = 0; i < size; ++i) sums[o][row] += w[i] * x[i];
            }
        }
    }
}

template <typename T, int Rows>
__device__ inline void add_rows(float (&sums)[outs_per_block][Rows], const matvec_closure<T>& all,
                                std::size_t first_out) {
    constexpr unsigned ahead = Rows <= 2 ? 2 : 1;  // with more rows, registers are needed for their sums
    const auto pieces = static_cast<unsigned>(all.in / piece<T>::size);
    // Before the wait: while the code after it waits, the memory is idle.
    thread_pieces<T, Rows> from;
    from.weights[0] = reinterpret_cast<const uint4*>(all.weight + first_out * all.in) + threadIdx.x;
    const std::size_t outs = all.outs - first_out;
#pragma unroll
    for (unsigned o = 1; o < outs_per_block; ++o) {
        // Outputs beyond the last are made of the last one's weights, and not written.
        from.weights[o] = from.weights[o - 1] + (o < outs ? pieces : 0);
    }
    from.x[0] = reinterpret_cast<const uint4*>(all.x) + threadIdx.x;
#pragma unroll
    for (unsigned row = 1; row < Rows; ++row) from.x[row] = from.x[row - 1] + (row < all.rows ? pieces : 0);
    dependency_wait();
    unsigned at = 0;
    for (; at + threadIdx.x + (ahead - 1) * matvec_threads < pieces; at += ahead * matvec_threads)
        add_pieces<ahead>(sums, from, at);
    if (ahead > 1 && at + threadIdx.x < pieces) add_pieces<1>(sums, from, at);
}

// For rows that do not begin at multiples of 16 bytes.
template <typename T, int Rows>
__device__ inline void add_elements(float (&sums)[outs_per_block][Rows], const matvec_closure<T>& all,
                                    std::size_t first_out) {
    dependency_wait();
    for (std::size_t k = threadIdx.x; k < all.in; k += matvec_threads) {
        for (int o = 0; o < outs_per_block; ++o) {
            const std::size_t which = first_out + o < all.outs ? first_out + o : all.outs - 1;
            const float w = all.weight[which * all.in + k];
#pragma unroll
            for (int row = 0; row < Rows; ++row) {
                sums[o][row] += w * float{all.x[(row < all.rows ? row : 0) * all.in + k]};
            }
        }
    }
}

// Without a number of blocks the compiler moves loads down to their use, to save registers for a fourth block.
template <typename T, int Rows, bool InPieces>
__global__ void __launch_bounds__(matvec_threads, Rows <= 2 ? 3 : 2)
    matvec_on_device(const __grid_constant__ matvec_closure<T> all) {
    constexpr unsigned everyone = 0xffffffff;
    constexpr unsigned warps = matvec_threads / kernels::warp_size;
    __shared__ float partial[warps][outs_per_block][Rows];
    const std::size_t first_out = (std::size_t{blockIdx.y} * gridDim.x + blockIdx.x) * outs_per_block;
    if (first_out >= all.outs) return;
    float sums[outs_per_block][Rows] = {};
    // Blocks of the next kernel take the places of those that end, so that the memory has something to do meanwhile.
    dependency_trigger();
    if constexpr (InPieces) {
        add_rows(sums, all, first_out);
    } else {
        add_elements(sums, all, first_out);
    }
#pragma unroll
    for (int o = 0; o < outs_per_block; ++o) {
#pragma unroll
        for (int row = 0; row < Rows; ++row) {
            for (unsigned step = kernels::warp_size / 2; step != 0; step /= 2) {
                sums[o][row] += __shfl_xor_sync(everyone, sums[o][row], step);
            }
            if (threadIdx.x % kernels::warp_size == 0) partial[threadIdx.x / kernels::warp_size][o][row] = sums[o][row];
        }
    }
    __syncthreads();
    if (threadIdx.x >= outs_per_block * Rows) return;
    const unsigned o = threadIdx.x / Rows, row = threadIdx.x % Rows;
    if (first_out + o >= all.outs || row >= all.rows) return;
    float sum = 0;
    for (unsigned warp = 0; warp < warps; ++warp) sum += partial[warp][o][row];
    finish(all, row, first_out + o, sum);
}

template <typename T, bool InPieces>
const void* kernel_for(std::size_t rows) {
    if (rows == 1) return reinterpret_cast<const void*>(&matvec_on_device<T, 1, InPieces>);
    if (rows == 2) return reinterpret_cast<const void*>(&matvec_on_device<T, 2, InPieces>);
    if (rows <= 4) return reinterpret_cast<const void*>(&matvec_on_device<T, 4, InPieces>);
    return reinterpret_cast<const void*>(&matvec_on_device<T, 8, InPieces>);
}
#endif

void require(bool fits, errc code, const std::string& message, const error_context& context) {
    if (!fits) throw error(code, message, context);
}

}  // namespace

template <detail::matvec_element T>
void matvec(stream on, const tensor<T>& x, const tensor<T>& weight, std::type_identity_t<const tensor<T>*> bias,
            tensor<T>& out, activation after, source_location location) {
    const error_context context{"matvec", on.owner().name(), location};
    require(x.shape().rank() == 2 && weight.shape().rank() == 2 && x.columns() == weight.columns(),
            errc::shape_mismatch, to_string(x.shape()) + " does not fit weights " + to_string(weight.shape()), context);
    require(x.rows() >= 1 && x.rows() <= most_matvec_rows, errc::invalid_argument,
            std::to_string(x.rows()) + " rows; 1 to 8 are for matvec", context);
    require(bias == nullptr || bias->size() == weight.rows(), errc::shape_mismatch,
            "the bias does not fit weights " + to_string(weight.shape()), context);
    require(out.shape() == shape{x.rows(), weight.rows()}, errc::shape_mismatch,
            "the output is " + to_string(out.shape()), context);
    require(after != activation::softmax, errc::invalid_argument, "softmax is a command of its own", context);
    if (out.size() == 0) return;
    require(out.memory() != x.memory() && out.memory() != weight.memory() &&
                (bias == nullptr || out.memory() != bias->memory()),
            errc::invalid_argument, "the output is also an operand", context);

    matvec_closure<T> closure{x.device_data(),
                              weight.device_data(),
                              bias != nullptr ? bias->device_data() : nullptr,
                              out.device_data(),
                              x.rows(),
                              x.columns(),
                              weight.rows(),
                              after};
    launch_command command;
#if defined(__CUDACC__)
    // Pieces of a row are counted in 32 bits.
    const bool in_pieces = weight.columns() % piece<T>::size == 0 && weight.columns() / piece<T>::size < 1u << 31;
    command.device_function = in_pieces ? kernel_for<T, true>(x.rows()) : kernel_for<T, false>(x.rows());
    // A row of a grid has at most 2^31 - 1 blocks.
    constexpr std::size_t most = std::size_t{1} << 30;
    const std::size_t blocks = (weight.rows() + outs_per_block - 1) / outs_per_block;
    command.grid.x = static_cast<unsigned>(std::min(blocks, most));
    command.grid.y = static_cast<unsigned>((blocks + most - 1) / most);
    command.block.x = matvec_threads;
    command.early_start = true;
#endif
    command.host_function = &matvec_on_host<T>;
    detail::set_closure(command, closure);
    const std::array accesses{memory_access{x.memory(), access_mode::read},
                              memory_access{weight.memory(), access_mode::read},
                              memory_access{out.memory(), access_mode::write},
                              memory_access{bias != nullptr ? bias->memory() : nullptr, access_mode::read}};
    on.launch({"matvec", accesses, location}, command);
}

template void matvec(stream, const tensor<half>&, const tensor<half>&, const tensor<half>*, tensor<half>&, activation,
                     source_location);
template void matvec(stream, const tensor<bfloat16>&, const tensor<bfloat16>&, const tensor<bfloat16>*,
                     tensor<bfloat16>&, activation, source_location);
template void matvec(stream, const tensor<float>&, const tensor<float>&, const tensor<float>*, tensor<float>&,
                     activation, source_location);

}  // namespace sluice
