// SPDX-License-Identifier: Apache-2.0
// The kernel of a network that stays on a GPU: see resident_layout.hpp.
//
// A request's way: the threads of each block poll the words of their slice of the inputs, in the host's memory. The
// warps multiply the slice by the weights on the tensor cores, 16 outputs at a time, and send the partial sums to the
// block that adds them up (resident_exchange.cuh). There one thread for each output of each row waits for the parts of
// all blocks; between layers no thread waits at a barrier of the cluster. A lane of one block has whole sums, which it
// keeps. The last layer's outputs go into the host's memory as words.
//
// The parts of a layer are not overwritten before they have been read: who adds up parts of a layer sends parts of the
// next one, which needs those of all its sources. So at the answer all parts have been read. A block that has no inputs
// of the first layer may be late nevertheless, and miss a request. Where there is one, a block sends its first part of
// a request only when all blocks have finished the request before (cluster_arrive, cluster_wait).
#pragma once

#include <cstdint>

#include "kernels/gemm/accumulators.cuh"
#include "kernels/resident/resident_exchange.cuh"
#include "kernels/resident/resident_layout.hpp"
#include "kernels/resident/resident_requests.cuh"
#include "sluice/kernels/detail/mma.hpp"

namespace sluice::kernels::resident {

template <typename T>
__device__ inline T* operand_of(unsigned char* shared, const resident_layer& layer) {
    return reinterpret_cast<T*>(shared + layer.operand);
}
__device__ inline std::uint16_t* answer_of(unsigned char* shared, const resident_layout& layout) {
    return reinterpret_cast<std::uint16_t*>(shared + layout.answer);
}

template <typename T>
__device__ inline std::uint16_t bits_of(float x) {
    return static_cast<std::uint16_t>(rounded<T, false>(x, 0));
}

// What a warp fetches of a layer before the layer's inputs are there: its first two tiles.
struct early_weights {
    uint4 tile[2][regular_steps];
    std::uint32_t target[2];
};

__device__ inline const uint4* weights_of(const unsigned char* shared, const resident_layer& layer,
                                          std::uint32_t tile) {
    return reinterpret_cast<const uint4*>(shared + layer.weights) + tile * layer.steps * 32 + threadIdx.x % 32;
}
__device__ inline std::uint32_t target_of(const unsigned char* shared, const resident_layer& layer,
                                          std::uint32_t tile) {
    return reinterpret_cast<const std::uint32_t*>(shared + layer.targets)[tile];
}

// A warp without such a tile fetches another one, whose sums it does not deliver.
__device__ inline void fetch_tile(uint4 (&to)[regular_steps], std::uint32_t& target, const unsigned char* shared,
                                  const resident_layer& layer, std::uint32_t tile) {
    tile = min(tile, layer.tiles - 1);
    target = target_of(shared, layer, tile);
    const uint4* const weights = weights_of(shared, layer, tile);
#pragma unroll
    for (std::uint32_t step = 0; step < regular_steps; ++step)
        if (step < layer.steps) to[step] = weights[step * 32];
}

__device__ inline void fetch_early(early_weights& to, const unsigned char* shared, const resident_layer& layer) {
    const std::uint32_t warps = blockDim.x / 32;
    fetch_tile(to.tile[0], to.target[0], shared, layer, threadIdx.x / 32);
    if (layer.tiles > warps) fetch_tile(to.tile[1], to.target[1], shared, layer, threadIdx.x / 32 + warps);
}

// The right operand of one step: this lane's two pairs of inputs of its row. Rows that were not asked for are what was
// there before; their sums are not used.
template <typename T>
__device__ inline uint2 operand_at(const T* operand, std::uint32_t step) {
    return {*reinterpret_cast<const std::uint32_t*>(operand + step * resident_tile),
            *reinterpret_cast<const std::uint32_t*>(operand + step * resident_tile + 8)};
}

template <typename T>
__device__ inline void multiply_step(float (&sums)[4], const uint4& weights, const uint2& operand) {
    const std::uint32_t a[4] = {weights.x, weights.y, weights.z, weights.w};
    mma<T>(sums, a, operand.x, operand.y);
}

__device__ inline void add_to(float (&sums)[4], const float (&others)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) sums[i] += others[i];
}

// The slice times its weights; `deliver(tile, target, sums)` gets each tile's sums, in whole warps. Of a regular
// layout: conditions are the same for all threads, so that no warp divides.
template <typename T, typename Deliver>
__device__ inline void multiply_regular(unsigned char* shared, const resident_layer& layer, const early_weights& early,
                                        const Deliver& deliver) {
    const std::uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    const T* const operand = operand_of<T>(shared, layer) + lane / 4 * layer.operand_pitch + lane % 4 * 2;
    const bool has_second = layer.tiles > warps;
    float sums[2][2][4] = {};
#pragma unroll
    for (std::uint32_t step = 0; step < regular_steps; ++step) {
        if (step < layer.steps) {
            const uint2 right = operand_at(operand, step);
            multiply_step<T>(sums[0][step % 2], early.tile[0][step], right);
            if (has_second) multiply_step<T>(sums[1][step % 2], early.tile[1][step], right);
        }
    }
    add_to(sums[0][0], sums[0][1]);
    if (warp < layer.tiles) deliver(warp, early.target[0], sums[0][0]);
    if (!has_second) return;
    add_to(sums[1][0], sums[1][1]);
    if (warp + warps < layer.tiles) deliver(warp + warps, early.target[1], sums[1][0]);
}

// The same of any layout.
template <typename T, typename Deliver>
__device__ inline void multiply(unsigned char* shared, const resident_layer& layer, const Deliver& deliver) {
    const std::uint32_t lane = threadIdx.x % 32, warps = blockDim.x / 32;
    const T* const operand = operand_of<T>(shared, layer) + lane / 4 * layer.operand_pitch + lane % 4 * 2;
#pragma unroll 1
    for (std::uint32_t tile = threadIdx.x / 32; tile < layer.tiles; tile += warps) {
        const uint4* const weights = weights_of(shared, layer, tile);
        const std::uint32_t target = target_of(shared, layer, tile);
        float sums[2][4] = {};
#pragma unroll 4
        for (std::uint32_t step = 0; step < layer.steps; ++step)
            multiply_step<T>(sums[step % 2], weights[step * 32], operand_at(operand, step));
        add_to(sums[0], sums[1]);
        deliver(tile, target, sums[0]);
    }
}

// Other activations than relu: rarely needed here, and long.
__device__ __noinline__ float activated_slowly(float x, activation what) { return activated(x, what); }

__device__ inline float after_layer(float x, activation what) {
    if (what == activation::relu) return activated<activation::relu>(x);
    return what == activation::none ? x : activated_slowly(x, what);
}

// Where the finished sums of a layer go: into the next layer's operand, the results of a softmax, or the answer.
template <typename T>
struct sum_writer {
    unsigned char* shared;
    const resident_layout& layout;
    const resident_layer& layer;
    const resident_layer& next;
    bool is_last;
    std::uint32_t rows;

    // `output`: of the own tiles.
    __device__ void operator()(std::uint32_t row, std::uint32_t output, float sum) const {
        if (!is_last) {
            reinterpret_cast<std::uint16_t*>(shared + next.operand)[row * next.operand_pitch + output] =
                bits_of<T>(after_layer(sum, layer.after));
        } else if (row < rows && output < layer.outputs) {
            const std::uint32_t place = row * layer.outputs + output;
            if (layer.after == activation::softmax)
                reinterpret_cast<float*>(shared + layout.results)[place] = sum;
            else
                answer_of(shared, layout)[place] = bits_of<T>(after_layer(sum, layer.after));
        }
    }
};

// softmax over each row of the results, one warp a row.
template <typename T>
__device__ inline void finish_softmax(float* results, std::uint16_t* answer, std::uint32_t outputs,
                                      std::uint32_t rows) {
    const std::uint32_t lane = threadIdx.x % 32;
    for (std::uint32_t row = threadIdx.x / 32; row < rows; row += blockDim.x / 32) {
        float* const each = results + row * outputs;
        float largest = -INFINITY, sum = 0;
        for (std::uint32_t i = lane; i < outputs; i += 32) largest = fmaxf(largest, each[i]);
        for (int step = 16; step > 0; step /= 2) largest = fmaxf(largest, __shfl_xor_sync(whole_warp, largest, step));
        for (std::uint32_t i = lane; i < outputs; i += 32) {
            each[i] = __expf(each[i] - largest);  // NaN stays, and makes the sum NaN
            sum += each[i];
        }
        for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(whole_warp, sum, step);
        const float scale = 1 / sum;
        for (std::uint32_t i = lane; i < outputs; i += 32) answer[row * outputs + i] = bits_of<T>(each[i] * scale);
    }
    __syncthreads();
}

// One layer of a request.
template <typename T, int Blocks, bool Regular>
struct layer_run {
    unsigned char* shared;
    block_state& state;
    const resident_call& call;
    std::uint32_t rank, rows, phase;

    // All threads call it. Afterwards the layer's outputs that this block adds up are in its shared memory. Returns
    // false, to all threads, when the kernel is to end.
    __device__ bool operator()(std::uint32_t at, bool is_last, early_weights& early) const {
        const resident_layer& layer = call.layout.layer[at];
        const resident_layer& next = call.layout.layer[is_last ? at : at + 1];
        const sum_writer<T> write{shared, call.layout, layer, next, is_last, rows};
        const auto* const biases = reinterpret_cast<const float*>(shared + layer.biases);
        if constexpr (Blocks == 1) {
            run(layer, early, [&](std::uint32_t tile, std::uint32_t, const float(&sums)[4]) {
                const std::uint32_t lane = threadIdx.x % 32, row = lane % 4 * 2;
                const std::uint32_t output = tile * resident_tile + lane / 4;
                const float first = biases[output], second = biases[output + 8];
                if (row >= rows) return;
                write(row, output, sums[0] + first);
                write(row, output + 8, sums[2] + second);
                if (row + 1 >= rows) return;
                write(row + 1, output, sums[1] + first);
                write(row + 1, output + 8, sums[3] + second);
            });
            if (Regular && !is_last) fetch_early(early, shared, next);
            __syncthreads();
            return true;
        } else {
            // (By the last thread: the first warps wait for the parts.)
            if (threadIdx.x + 1 == blockDim.x) expect_parts(state, layer, at, rank, rows);
            if (rank < layer.sources) {
                run(layer, early, [&](std::uint32_t, std::uint32_t target, const float(&sums)[4]) {
                    send_part(shared, state, call.layout, at, rank, rows, target, sums);
                });
            }
            // What the next layer needs is fetched before this layer's sums are there.
            if (Regular && !is_last) fetch_early(early, shared, next);
            return __syncthreads_and(receive(at, layer, biases, write)) != 0;
        }
    }

private:
    template <typename Deliver>
    __device__ void run(const resident_layer& layer, const early_weights& early, const Deliver& deliver) const {
        __syncwarp();  // the tensor cores take whole warps
        if constexpr (Regular)
            multiply_regular<T>(shared, layer, early, deliver);
        else
            multiply<T>(shared, layer, deliver);
    }
    __device__ bool receive(std::uint32_t at, const resident_layer& layer, const float* biases,
                            const sum_writer<T>& write) const {
        if (own_tiles(layer, rank) == 0) return true;
        const std::uint32_t all = (rows + 1) / 2 * layer.next_tiles * 32;
#pragma unroll 1
        for (std::uint32_t i = threadIdx.x; i < all; i += blockDim.x) {
            const own_sum mine = own_sum_at(layer, i);
            const part_addresses<Blocks> parts(shared, call.layout, layer, i);
            const float bias = biases[mine.output];
            if (!await_parts(state, at, phase, call.stop)) return false;
            write(mine.row, mine.output, parts.sum(bias));
        }
        return true;
    }
};

__device__ inline void load_image(unsigned char* shared, const resident_call& call, std::uint32_t rank) {
    const auto* const from =
        reinterpret_cast<const uint4*>(read_host_word(call.image) + std::size_t{rank} * call.layout.image_bytes);
    for (std::uint32_t i = threadIdx.x; i < call.layout.image_bytes / 16; i += blockDim.x)
        reinterpret_cast<uint4*>(shared)[i] = __ldcg(from + i);
}

// Before the first request.
__device__ inline void begin(unsigned char* shared, block_state& state, const resident_call& call, std::uint32_t rank) {
    const resident_layout& layout = call.layout;
    for (std::uint32_t i = threadIdx.x; i < (layout.shared_bytes - layout.image_bytes) / 4; i += blockDim.x)
        reinterpret_cast<std::uint32_t*>(shared + layout.image_bytes)[i] = 0;
    load_image(shared, call, rank);
    if (threadIdx.x == 0) state.flag = state.ended = 0;
    __syncthreads();
}

// Another image from now on.
template <int Blocks>
__device__ inline void reload(unsigned char* shared, const resident_call& call, std::uint32_t rank) {
    load_image(shared, call, rank);
    __syncthreads();
    // All blocks have the new weights before the host may change the image.
    cluster_arrive<Blocks>();
    cluster_wait<Blocks>();
}

// Takes the words of a request.
template <typename T>
struct input_writer {
    unsigned char* shared;
    const resident_layer& layer;
    __device__ void operator()(std::uint32_t row, std::uint32_t word, uint4 data) const {
        data.w &= 0xffff;  // the flag's place is multiplied by 0, which NaN must not be
        *reinterpret_cast<uint4*>(operand_of<T>(shared, layer) + row * layer.operand_pitch + word * 8) = data;
    }
};

// The last layer's outputs are in the shared memory of block 0, whose threads call it.
template <typename T>
__device__ inline void finish(unsigned char* shared, const resident_layout& layout, const resident_layer& last,
                              std::uint32_t rows, std::uint32_t flag, resident_word* to) {
    std::uint16_t* const answer = answer_of(shared, layout);
    if (last.after == activation::softmax)
        finish_softmax<T>(reinterpret_cast<float*>(shared + layout.results), answer, last.outputs, rows);
    write_answer(answer, rows * last.outputs, to, flag);
}

// A kernel of whole clusters: answers one request after another until it is to end. All threads call it, after `begin`
// and begin_exchange. `fetch()`: what the first layer needs in addition to its inputs. `reloaded()`: there is another
// image. `run(rows, phase)`: all layers; returns false, to all threads, when the kernel is to end.
template <typename T, int Blocks, typename Fetch, typename Reloaded, typename Run>
__device__ inline void answer_requests(unsigned char* shared, block_state& state, const resident_call& call,
                                       std::uint32_t last_layer, bool may_be_late, const Fetch& fetch,
                                       const Reloaded& reloaded, const Run& run) {
    const resident_layout& layout = call.layout;
    const std::uint32_t rank = blockIdx.x % Blocks, lane = blockIdx.x / Blocks;
    const std::uint32_t in = layout.input_words(), out = layout.output_words();
    std::uint32_t slot = 0, rows = 1, phase = 0;
    look_timing timing;
    bool is_whole = true;
    for (std::uint32_t number = 1; is_whole; number = next_resident_number(number)) {
        const std::size_t entry = std::size_t{lane} * call.depth + slot;
        slot = slot + 1 == call.depth ? 0 : slot + 1;
        fetch();
        read_request(state, call, call.inbox + entry * in, rank, number, rows, timing,
                     input_writer<T>{shared, layout.layer[0]});
        if (state.ended != 0) break;
        const std::uint32_t flag = state.flag;
        resident_word* const answer = call.outbox + entry * out;
        if (may_be_late) cluster_wait<Blocks>();
        if (flag % 16 == resident_reload) {
            reload<Blocks>(shared, call, rank);
            reloaded();
            if (rank == 0 && threadIdx.x == 0) write_word(answer, 0, 0, flag);
        } else {
            rows = flag % 16 + 1;
            is_whole = run(rows, phase);
            phase ^= 1;
            if (is_whole && rank == 0) finish<T>(shared, layout, layout.layer[last_layer], rows, flag, answer);
        }
        if (may_be_late) cluster_arrive<Blocks>();
    }
    // No block leaves while others may write into its shared memory.
    if (may_be_late) cluster_wait<Blocks>();
    cluster_arrive<Blocks>();
    cluster_wait<Blocks>();
}

}  // namespace sluice::kernels::resident

namespace sluice::kernels {

// Layers: of the network, or 0 for any number. Known ones are unrolled: most of a layer's time is the latency of
// instructions that compute addresses, and these are then computed once. Regular: see is_regular.
template <typename T, int Blocks, int Layers, bool Regular>
__global__ void __launch_bounds__(512, 1) resident_mlp(const __grid_constant__ resident_call call) {
    using namespace resident;
    extern __shared__ __align__(16) unsigned char shared[];
    __shared__ block_state state;
    const std::uint32_t rank = blockIdx.x % Blocks, layers = Layers == 0 ? call.layout.layers : Layers;
    begin(shared, state, call, rank);
    begin_exchange<Blocks>(state);
    const bool may_be_late = !all_take_part<Blocks>(call.layout);
    if (!may_be_late) cluster_wait<Blocks>();
    early_weights early;
    answer_requests<T, Blocks>(
        shared, state, call, layers - 1, may_be_late,
        [&] {
            if (Regular) fetch_early(early, shared, call.layout.layer[0]);
        },
        [] {},
        [&](std::uint32_t rows, std::uint32_t phase) {
            const layer_run<T, Blocks, Regular> run_layer{shared, state, call, rank, rows, phase};
            bool is_whole = true;
            // After an abort nothing more is sent, so that no block answers with what is not complete.
            if constexpr (Layers == 0) {
                for (std::uint32_t at = 0; at < layers && is_whole; ++at)
                    is_whole = run_layer(at, at + 1 == layers, early);
            } else {
#pragma unroll
                for (std::uint32_t at = 0; at < Layers; ++at)
                    if (is_whole) is_whole = run_layer(at, at + 1 == Layers, early);
            }
            return is_whole;
        });
}

}  // namespace sluice::kernels
