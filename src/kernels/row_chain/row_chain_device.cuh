// SPDX-License-Identifier: Apache-2.0
// The kernel of row_chain.hpp. For nvcc; before sm_90 the code is empty.
//
// A layer begins when the barrier of its input's buffer has counted the bytes of all outputs before it. The two buffers
// change places: the outputs of a layer overwrite the input of the layer before. A block sends them when it has all
// outputs of the layer before; each block has sent some of these (chain_blocks), after all its warps had read that
// input. While a block waits, the weights of its next products are on their way.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/row_chain/row_chain.hpp"
#include "kernels/tensor_cores/short_numbers.cuh"
#include "sluice/base/half.hpp"
#include "sluice/base/kernel.hpp"
#include "sluice/kernels/activated.hpp"
#include "sluice/kernels/detail/mma.hpp"
#include "sluice/kernels/mbarrier.hpp"

namespace sluice::kernels {

inline constexpr unsigned row_chain_rows = 8, row_chain_warps = 8, row_chain_threads = 32 * row_chain_warps;

// Elements from one row to the next one: an odd number of 64 bytes, so that eight rows are read at once.
SLUICE_KERNEL constexpr std::size_t row_chain_pitch(std::size_t widest) {
    const std::size_t at_least = (widest + 31) / 32 * 32;
    return at_least % 64 == 0 ? at_least + 32 : at_least;
}
constexpr std::size_t row_chain_parts_bytes = std::size_t{row_chain_warps} * 32 * 16;
// The bytes of biases, scales and shifts that a block copies; 0 where they are too many.
SLUICE_KERNEL constexpr std::size_t row_chain_kept_numbers(std::size_t bytes) { return bytes <= 96 << 10 ? bytes : 0; }
// Barriers, the image's form, parts of sums, two buffers of rows, and the numbers.
inline std::size_t row_chain_shared_bytes(std::size_t widest, std::size_t number_bytes, std::size_t element) {
    return 16 + sizeof(row_chain_form) + row_chain_parts_bytes +
           2 * row_chain_rows * row_chain_pitch(widest) * element + row_chain_kept_numbers(number_bytes);
}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

// Of f32 only `Rows`, 1 or 8, of a cluster's rows are computed; the others are zeros.
template <typename T, unsigned Rows>
class row_chain_warp {
    static constexpr unsigned batch = 8;  // chunks whose weights are on their way together
    static constexpr bool is_short = sizeof(T) == 2;
    static constexpr unsigned of_chunk = 64 / sizeof(T), of_lane = 16 / sizeof(T);
    struct alignas(16) words {
        std::uint32_t at[4];
    };

public:
    __device__ row_chain_warp(const row_chain_call& of, unsigned char* shared)
        : of_(of),
          blocks_(static_cast<unsigned>(of.blocks)),
          rank_(blockIdx.x % blocks_),
          first_row_(blockIdx.x / blocks_ * row_chain_rows),
          warp_(threadIdx.x / 32),
          lane_(threadIdx.x % 32),
          pitch_(static_cast<unsigned>(row_chain_pitch(of.widest))),
          barriers_(reinterpret_cast<mbarrier*>(shared)),
          form_(*reinterpret_cast<row_chain_form*>(shared + 16)),
          parts_(reinterpret_cast<float4*>(shared + 16 + sizeof(row_chain_form))),
          rows_(reinterpret_cast<T*>(shared + 16 + sizeof(row_chain_form) + row_chain_parts_bytes)),
          numbers_(kept_numbers() != 0 ? reinterpret_cast<const std::byte*>(rows_ + 2 * row_chain_rows * pitch_)
                                       : of.image + of.numbers),
          count_(static_cast<unsigned>(of.count)) {}

    __device__ void run() {
        begin();
        for (unsigned i = 0; i < count_; ++i) {
            if (i > 0) take_input(i);
            const bool is_last = i + 1 == count_ && form_.layers[i].has_norm == 0;
            multiply(i, is_last);
            if (is_last) return;
            if (i + 1 == count_) break;
            set_layer(form_.layers[i + 1]);
            load(0);  // on their way while the block waits
        }
        take_input(count_);  // the last norm, of which each block has all rows
    }

private:
    __device__ unsigned kept_numbers() const { return static_cast<unsigned>(row_chain_kept_numbers(of_.number_bytes)); }
    __device__ T* buffer(unsigned i) const { return rows_ + i % 2 * row_chain_rows * pitch_; }
    // Biases, scales and shifts: where the block has them.
    __device__ const float* numbers(std::uint64_t at) const {
        return reinterpret_cast<const float*>(numbers_ + (at - of_.numbers));
    }
    static __device__ unsigned tiles_of(const row_chain_layer& of) { return (of.outputs + 31) / 32 * 2; }
    __device__ unsigned bytes_of(unsigned i) const {
        return tiles_of(form_.layers[i]) * 16 * row_chain_rows * static_cast<unsigned>(sizeof(T));
    }

    // Several warps share a tile's chunks where there are more warps than tiles.
    __device__ void set_layer(const row_chain_layer& of) {
        image_ = reinterpret_cast<const words*>(of_.image + of.weights) + lane_;
        tiles_ = tiles_of(of);
        chunks_ = (of.inputs + of_chunk - 1) / of_chunk;
        halvings_ = 0;
        while (halvings_ < 3 && 1u << halvings_ < chunks_ && blocks_ * (row_chain_warps / 2 >> halvings_) >= tiles_)
            ++halvings_;
        of_share_ = (chunks_ + (1u << halvings_) - 1) >> halvings_;
        first_ = (warp_ & ((1u << halvings_) - 1)) * of_share_;
        last_ = min(chunks_, first_ + of_share_);
        tile_ = (warp_ >> halvings_) * blocks_ + rank_;
        outputs_ = of.outputs;
        after_ = of.after_product;
        bias_ = of.bias;
    }
    // The weights of the warp's chunks from `at` on.
    __device__ void load(unsigned at) {
        const words* const from = image_ + std::size_t{tile_} * chunks_ * 64;
#pragma unroll
        for (unsigned k = 0; k < batch; ++k) {
            const unsigned chunk = first_ + at + k;
            const bool is_there = tile_ < tiles_ && chunk < last_;
#pragma unroll
            for (unsigned half = 0; half < 2; ++half)
                weights_[k][half] = is_there ? constant_words(from + std::size_t{chunk} * 64 + half * 32) : words{};
        }
    }
    static __device__ words constant_words(const words* at) {
        words made;
        asm volatile("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(made.at[0]), "=r"(made.at[1]), "=r"(made.at[2]), "=r"(made.at[3])
                     : "l"(at));
        return made;
    }

    // The row of the warp; after its end, and where there is none, zeros.
    template <typename Number>
    __device__ void take_row(const Number* x) {
        constexpr unsigned at_once = 16 / sizeof(Number), loads = 4;
        const unsigned inputs = of_.first.inputs;
        const Number* const from = x + std::size_t{first_row_ + warp_} * inputs;
        T* const to = rows_ + warp_ * pitch_;
        const bool is_there = first_row_ + warp_ < of_.rows;
        const bool is_aligned = inputs % at_once == 0 && reinterpret_cast<std::uintptr_t>(x) % 16 == 0;
        for (unsigned first = 0; first < pitch_; first += 32 * at_once * loads) {
            words read[loads];
#pragma unroll
            for (unsigned k = 0; k < loads; ++k) {
                const unsigned at = first + (k * 32 + lane_) * at_once;
                read[k] = words{};
                if (!is_there || at >= inputs) continue;
                if (is_aligned) {
                    read[k] = *reinterpret_cast<const words*>(from + at);
                    continue;
                }
#pragma unroll
                for (unsigned j = 0; j < at_once; ++j)
                    if (at + j < inputs) reinterpret_cast<Number*>(&read[k])[j] = from[at + j];
            }
#pragma unroll
            for (unsigned k = 0; k < loads; ++k) {
                const unsigned at = first + (k * 32 + lane_) * at_once;
                if (at >= pitch_) continue;
                if constexpr (std::is_same_v<Number, T>) {
                    *reinterpret_cast<words*>(to + at) = read[k];
                } else {
                    const float* const four = reinterpret_cast<const float*>(&read[k]);
                    const std::uint32_t low = short_pair(short_number<T>(four[0]), short_number<T>(four[1])),
                                        high = short_pair(short_number<T>(four[2]), short_number<T>(four[3]));
                    *reinterpret_cast<uint2*>(to + at) = {low, high};
                }
            }
        }
    }
    __device__ void begin() {
        for (unsigned i = threadIdx.x; i < row_chain_rows * pitch_ / of_lane; i += row_chain_threads)
            reinterpret_cast<words*>(buffer(1))[i] = words{};
        if (threadIdx.x == 0) {
            for (int i = 0; i < 2; ++i) barriers_[i].init(1);
            mbarrier::publish_inits();
        }
        dependency_wait();
        set_layer(of_.first);
        load(0);
        if (threadIdx.x < sizeof(row_chain_form) / 16)
            reinterpret_cast<words*>(&form_)[threadIdx.x] =
                constant_words(reinterpret_cast<const words*>(of_.image) + threadIdx.x);
#pragma unroll 4
        for (unsigned i = threadIdx.x; i < kept_numbers() / 16; i += row_chain_threads)
            reinterpret_cast<words*>(const_cast<std::byte*>(numbers_))[i] =
                constant_words(reinterpret_cast<const words*>(of_.image + of_.numbers) + i);
        if (of_.is_x_wide != 0)
            take_row(static_cast<const float*>(of_.x));
        else
            take_row(static_cast<const T*>(of_.x));
        __syncthreads();
        for (unsigned i = 0; i < 2; ++i) expect(i);
        // No block sends to another one that has not come so far.
        asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;\n" ::: "memory");
    }

    // The outputs of layer i are expected.
    __device__ void expect(unsigned i) {
        if (threadIdx.x == 0 && i < count_) barriers_[i % 2].arrive_expecting(bytes_of(i));
    }

    // Waits for the outputs of the layer before, and computes its norm.
    __device__ void take_input(unsigned i) {
        barriers_[(i - 1) % 2].wait_for_cluster((i - 1) / 2 % 2);
        expect(i + 1);
        const row_chain_layer& before = form_.layers[i - 1];
        if (before.has_norm == 0) return;
        normalize(before, buffer(i) + warp_ * pitch_, i == count_);
        __syncthreads();
    }
    static __device__ float sum_of_warp(float x) {
#pragma unroll
        for (unsigned mask = 16; mask > 0; mask /= 2) x += __shfl_xor_sync(~0u, x, mask);
        return x;
    }
    // One of the numbers after the other would wait for each.
    template <unsigned Count>
    static __device__ void activate(float (&x)[Count], std::uint32_t what) {
        const auto all = [&](auto f) {
#pragma unroll
            for (float& each : x) each = f(each);
        };
        switch (static_cast<activation>(what)) {
            case activation::relu: return all([](float y) { return activated<activation::relu>(y); });
            case activation::gelu: return all([](float y) { return activated<activation::gelu>(y); });
            case activation::sigmoid: return all([](float y) { return activated<activation::sigmoid>(y); });
            case activation::tanh: return all([](float y) { return activated<activation::tanh>(y); });
            default: return;
        }
    }
    // use(the lane's eight numbers of the row's next 256, the place of the first one); f32.
    template <typename Use>
    __device__ void each_eight(const T* row, unsigned count, const Use& use) const {
#pragma unroll 1
        for (unsigned first = lane_ * 8; first < count; first += 256) {
            alignas(16) T read[8];
#pragma unroll
            for (unsigned j = 0; j < 8; j += of_lane)
                *reinterpret_cast<words*>(read + j) = *reinterpret_cast<const words*>(row + first + j);
            float x[8];
#pragma unroll
            for (unsigned j = 0; j < 8; ++j) x[j] = float(read[j]);
            use(x, first);
        }
    }
    // The row of a warp, in place. The last norm gives y, which nothing rounds.
    __device__ void normalize(const row_chain_layer& by, T* row, bool is_last) const {
        const bool gives = is_last && rank_ == 0 && first_row_ + warp_ < of_.rows;
        const unsigned count = by.outputs;
        const float share = 1 / static_cast<float>(count);  // before the sums, which could overflow
        float sum = 0;
        each_eight(row, count, [&](const float(&x)[8], unsigned) {
#pragma unroll
            for (const float each : x) sum = fmaf(each, share, sum);  // those that are not there are 0
        });
        const float centre = sum_of_warp(sum);
        float squares = 0, missed = 0;
        each_eight(row, count, [&](const float(&x)[8], unsigned first) {
#pragma unroll
            for (unsigned j = 0; j < 8; ++j) {
                const float distance = first + j < count ? x[j] - centre : 0.0f;
                missed = fmaf(distance, share, missed);
                squares = fmaf(distance * share, distance, squares);
            }
        });
        missed = sum_of_warp(missed);
        const float variance = sum_of_warp(squares) - missed * missed;
        const float factor = 1 / sqrtf((variance < 0 ? 0.0f : variance) + by.epsilon);
        const float* const scale = numbers(by.scale);
        const float* const shift = by.shift != 0 ? numbers(by.shift) : nullptr;
        each_eight(row, count, [&](float(&x)[8], unsigned first) {
            const auto eight_of = [&](const float* from, float(&to)[8]) {
                *reinterpret_cast<float4*>(to) = *reinterpret_cast<const float4*>(from + first);
                *reinterpret_cast<float4*>(to + 4) = *reinterpret_cast<const float4*>(from + first + 4);
            };
            alignas(16) float by_scale[8], by_shift[8] = {};
            eight_of(scale, by_scale);
            if (shift != nullptr) eight_of(shift, by_shift);
#pragma unroll
            for (unsigned j = 0; j < 8; ++j) {
                x[j] = (x[j] - centre - missed) * factor * by_scale[j];
                if (shift != nullptr) x[j] += by_shift[j];
            }
            activate(x, by.after_norm);
            if (gives) {
#pragma unroll
                for (unsigned j = 0; j < 8; ++j)
                    if (first + j < count) of_.y[std::size_t{first_row_ + warp_} * count + first + j] = x[j];
            }
            alignas(16) T made[8];
#pragma unroll
            for (unsigned j = 0; j < 8; ++j) made[j] = first + j < count ? short_number<T>(x[j]) : T(0.0f);
#pragma unroll
            for (unsigned j = 0; j < 8; j += of_lane)
                *reinterpret_cast<words*>(row + first + j) = *reinterpret_cast<const words*>(made + j);
        });
    }

    // Of a tile, with what is loaded and what comes after it: the lane 4g + t gets the sums of the outputs g and g + 8
    // of the rows 2t and 2t + 1.
    __device__ float4 products(const T* x) {
        if constexpr (is_short) {
            const T* const from = x + lane_ / 4 * pitch_ + lane_ % 4 * of_lane;
            float sums[4][4] = {};
            each_loaded([&](unsigned k, unsigned chunk) {
                const words b = *reinterpret_cast<const words*>(from + chunk * of_chunk);
                const words &low = weights_[k][0], &high = weights_[k][1];
                const std::uint32_t first[4] = {low.at[0], high.at[0], low.at[1], high.at[1]},
                                    second[4] = {low.at[2], high.at[2], low.at[3], high.at[3]};
                mma<T>(sums[k % 2 * 2], first, b.at[0], b.at[1]);
                mma<T>(sums[k % 2 * 2 + 1], second, b.at[2], b.at[3]);
            });
            const auto sum = [&](int j) { return (sums[0][j] + sums[1][j]) + (sums[2][j] + sums[3][j]); };
            return {sum(0), sum(1), sum(2), sum(3)};
        } else {
            const T* const from = x + lane_ % 4 * of_lane;
            float sums[2][Rows] = {};
            each_loaded([&](unsigned k, unsigned chunk) {
#pragma unroll
                for (unsigned row = 0; row < Rows; ++row) {
                    const float4 b = *reinterpret_cast<const float4*>(from + row * pitch_ + chunk * of_chunk);
#pragma unroll
                    for (unsigned half = 0; half < 2; ++half) {
                        const words& w = weights_[k][half];
                        float& sum = sums[half][row];
                        sum = fmaf(__uint_as_float(w.at[0]), b.x, sum);
                        sum = fmaf(__uint_as_float(w.at[1]), b.y, sum);
                        sum = fmaf(__uint_as_float(w.at[2]), b.z, sum);
                        sum = fmaf(__uint_as_float(w.at[3]), b.w, sum);
                    }
                }
            });
            return {row_sum(sums[0], 0), row_sum(sums[0], 1), row_sum(sums[1], 0), row_sum(sums[1], 1)};
        }
    }
    // Over the four lanes of an output, of the row 2t + `odd` of the lane's.
    __device__ float row_sum(const float (&sums)[Rows], unsigned odd) const {
        if constexpr (Rows == 1) {
            float sum = sums[0] + __shfl_xor_sync(~0u, sums[0], 2);
            sum += __shfl_xor_sync(~0u, sum, 1);
            return lane_ % 4 == 0 && odd == 0 ? sum : 0.0f;
        } else {
            const bool is_upper = (lane_ & 2) != 0, is_odd = (lane_ & 1) != 0;
            float two[2];
#pragma unroll
            for (unsigned i = 0; i < 2; ++i) {
                const float low = sums[2 * i + odd], high = sums[4 + 2 * i + odd];
                two[i] = (is_upper ? high : low) + __shfl_xor_sync(~0u, is_upper ? low : high, 2);
            }
            return (is_odd ? two[1] : two[0]) + __shfl_xor_sync(~0u, is_odd ? two[0] : two[1], 1);
        }
    }
    // use(k, chunk) of the warp's chunks, whose weights are weights_[k].
    template <typename Use>
    __device__ void each_loaded(const Use& use) {
        for (unsigned at = 0; at < of_share_; at += batch) {
            if (at != 0) load(at);
#pragma unroll
            for (unsigned k = 0; k < batch; ++k) {
                const unsigned chunk = first_ + at + k;
                if (chunk >= last_) break;
                use(k, chunk);
            }
        }
    }

    // The tiles of the warp: each is sent to all blocks, or written.
    __device__ void multiply(unsigned i, bool is_last) {
        const unsigned shares = 1u << halvings_, step = (row_chain_warps >> halvings_) * blocks_, tiles = tiles_;
        for (unsigned round = 0; round * step < tiles; ++round) {
            float4 all = products(buffer(i));
            const unsigned tile = tile_, share = warp_ & (shares - 1);
            if ((round + 1) * step < tiles) {
                tile_ += step;
                load(0);
            }
            if (share != 0) parts_[threadIdx.x] = all;
            if (shares > 1 || (round + 1) * step >= tiles) __syncthreads();  // all warps have read the input
            if (shares > 1) {
#pragma unroll
                for (unsigned s = 1; s < row_chain_warps; ++s) {
                    if (share != 0 || s >= shares) break;
                    const float4 part = parts_[threadIdx.x + 32 * s];
                    all.x += part.x, all.y += part.y, all.z += part.z, all.w += part.w;
                }
            }
            if (share == 0 && tile < tiles) finish(i, tile, is_last, all);
        }
    }
    __device__ void finish(unsigned i, unsigned tile, bool is_last, const float4& all) const {
        const unsigned output = tile * 16 + lane_ / 4, row = lane_ % 4 * 2;
        float sums[4] = {all.x, all.y, all.z, all.w};
        T made[2][2];
        if (bias_ != 0) {
            const float low = numbers(bias_)[output], high = numbers(bias_)[output + 8];
            sums[0] += low, sums[1] += low, sums[2] += high, sums[3] += high;
        }
        activate(sums, after_);
#pragma unroll
        for (unsigned o = 0; o < 2; ++o) {
            const unsigned its = output + 8 * o;
            const bool is_there = its < outputs_;
#pragma unroll
            for (unsigned r = 0; r < 2; ++r) {
                const float y = sums[2 * o + r];
                if (is_last) {
                    if (is_there && first_row_ + row + r < of_.rows)
                        of_.y[std::size_t{first_row_ + row + r} * outputs_ + its] = float(short_number<T>(y));
                } else {
                    made[o][r] = is_there ? short_number<T>(y) : T(0.0f);
                }
            }
        }
        if (is_last) return;
        // Each store is counted by a barrier, which takes its time: so it has 16 bytes of a row.
        const unsigned of_row = lane_ % 8;
        words together;
        if constexpr (is_short) {
            // Of two lanes with neighbouring outputs the first one has one row of both, the second one the other.
            const bool is_second = (lane_ & 4) != 0;
            std::uint32_t pairs[2];
#pragma unroll
            for (unsigned o = 0; o < 2; ++o) {
                const T kept = made[o][is_second ? 1 : 0], given = made[o][is_second ? 0 : 1];
                const unsigned bits = __shfl_xor_sync(~0u, unsigned{__builtin_bit_cast(std::uint16_t, given)}, 4);
                const T other = __builtin_bit_cast(T, static_cast<std::uint16_t>(bits));
                pairs[o] = is_second ? short_pair(other, kept) : short_pair(kept, other);
            }
            const unsigned upper = lane_ / 8 % 2;
#pragma unroll
            for (unsigned j = 0; j < 4; ++j) {
                const unsigned from = (2 * j + of_row % 2) * 4 + of_row / 2;
                const std::uint32_t low = __shfl_sync(~0u, pairs[0], from), high = __shfl_sync(~0u, pairs[1], from);
                together.at[j] = upper != 0 ? high : low;
            }
            send(i, of_row * pitch_ + tile * 16 + upper * 8, together, lane_ / 16, 2);
        } else {
            const unsigned four = lane_ / 8;
#pragma unroll
            for (unsigned j = 0; j < 4; ++j) {
                const unsigned from = (four % 2 * 4 + j) * 4 + of_row / 2;
                float values[4];
#pragma unroll
                for (unsigned each = 0; each < 4; ++each)
                    values[each] = __shfl_sync(~0u, made[each / 2][each % 2], from);
                const float low = of_row % 2 != 0 ? values[1] : values[0],
                            high = of_row % 2 != 0 ? values[3] : values[2];
                together.at[j] = __float_as_uint(four >= 2 ? high : low);
            }
            send(i, of_row * pitch_ + tile * 16 + four * 4, together, 0, 1);
        }
    }
    // To the blocks `first`, `first` + `of_step` and so on.
    __device__ void send(unsigned i, unsigned place, const words& what, unsigned rank, unsigned of_step) const {
        const auto here = static_cast<std::uint32_t>(__cvta_generic_to_shared(buffer(i + 1) + place)),
                   barrier = static_cast<std::uint32_t>(__cvta_generic_to_shared(&barriers_[i % 2]));
        for (; rank < blocks_; rank += of_step) {
            asm volatile(
                "{\n"
                ".reg .b32 there, counted;\n"
                "mapa.shared::cluster.u32 there, %0, %6;\n"
                "mapa.shared::cluster.u32 counted, %1, %6;\n"
                "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [there], {%2, %3, %4, %5}, "
                "[counted];\n"
                "}\n" ::"r"(here),
                "r"(barrier), "r"(what.at[0]), "r"(what.at[1]), "r"(what.at[2]), "r"(what.at[3]), "r"(rank)
                : "memory");
        }
    }

    const row_chain_call& of_;
    const unsigned blocks_, rank_, first_row_, warp_, lane_, pitch_;
    mbarrier* const barriers_;
    row_chain_form& form_;
    float4* const parts_;
    T* const rows_;
    const std::byte* const numbers_;
    const unsigned count_;
    std::uint64_t bias_ = 0;
    const words* image_ = nullptr;  // of the layer, from the lane's place on
    words weights_[batch][2];
    unsigned outputs_ = 0, after_ = 0, tiles_ = 0, chunks_ = 0, halvings_ = 0, of_share_ = 0, first_ = 0, last_ = 0,
             tile_ = 0;
};

#endif

template <typename T, unsigned Rows>
__global__ void __launch_bounds__(row_chain_threads, 1)
    row_chain_on_device([[maybe_unused]] const __grid_constant__ row_chain_call call) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    extern __shared__ __align__(128) unsigned char sluice_row_chain_memory[];
    row_chain_warp<T, Rows>(call, sluice_row_chain_memory).run();
#endif
}

}  // namespace sluice::kernels
