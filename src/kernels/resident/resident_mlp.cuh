// SPDX-License-Identifier: Apache-2.0
// The kernel of a network that stays on a GPU: see resident_layout.hpp.
//
// A request's way: the threads of each block poll the words of their slice of the inputs, in the host's memory. The
// warps multiply the slice by the weights on the tensor cores, 16 outputs at a time, and write each partial sum as a
// word into the shared memory of the block that adds it up. There one thread for each output waits for the words of all
// blocks; between layers no thread waits at a barrier of the cluster. The last layer's sums go into the host's memory
// as words.
//
// The words of a layer are not overwritten before they have been read: a block sends its first partial sum of a request
// only when all blocks have finished the request before (cluster_arrive, cluster_wait).
#pragma once

#include <cstdint>

#include "kernels/gemm/accumulators.cuh"
#include "kernels/resident/resident_layout.hpp"
#include "sluice/kernels/detail/host_words.hpp"
#include "sluice/kernels/detail/mma.hpp"

namespace sluice::kernels::resident {

// Looks into its own shared memory before it looks for an end: some hundred microseconds.
inline constexpr unsigned looks_before_stop = 1u << 12;
// The same into the host's memory: each takes more than a microsecond.
inline constexpr unsigned looks_for_request = 64;

using sluice::detail::read_host_word;
using sluice::detail::write_host_word;

__device__ inline std::uint32_t shared_address(const void* in) {
    return static_cast<std::uint32_t>(__cvta_generic_to_shared(in));
}
// Two words.
__device__ inline void read_parts(uint4& to, std::uint32_t address) {
    asm volatile("ld.volatile.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to.x), "=r"(to.y), "=r"(to.z), "=r"(to.w)
                 : "r"(address)
                 : "memory");
}

template <int Blocks>
__device__ inline void write_part(std::uint32_t address, std::uint32_t block, float data, std::uint32_t flag) {
    const std::uint64_t all = std::uint64_t{flag} << 32 | __float_as_uint(data);
    if constexpr (Blocks == 1) {
        asm volatile("st.volatile.shared.u64 [%0], %1;" ::"r"(address), "l"(all) : "memory");
    } else {
#if __CUDA_ARCH__ >= 900
        std::uint32_t there;
        asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(block));
        asm volatile("st.relaxed.cluster.shared::cluster.u64 [%0], %1;" ::"r"(there), "l"(all) : "memory");
#endif
    }
}

// Relaxed: what a block has read from its own memory by then is read, and nothing that it has written is read after the
// barrier. With the default, the release, each thread waits for its answer's way to the host.
template <int Blocks>
__device__ inline void cluster_arrive() {
#if __CUDA_ARCH__ >= 900
    if constexpr (Blocks > 1) asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
#endif
}
template <int Blocks>
__device__ inline void cluster_wait() {
#if __CUDA_ARCH__ >= 900
    if constexpr (Blocks > 1) asm volatile("barrier.cluster.wait;" ::: "memory");
#endif
}

template <activation What>
__device__ inline void activate_both(float (&x)[2]) {
    x[0] = activated<What>(x[0]);
    x[1] = activated<What>(x[1]);
}
__device__ inline void after_layer(float (&x)[2], activation what) {
    switch (what) {
        case activation::relu: return activate_both<activation::relu>(x);
        case activation::gelu: return activate_both<activation::gelu>(x);
        case activation::sigmoid: return activate_both<activation::sigmoid>(x);
        case activation::tanh: return activate_both<activation::tanh>(x);
        default: return;
    }
}

// What the threads of a block share in addition to the layout's memory.
struct block_state {
    std::uint32_t flag;     // of the request
    std::uint32_t ended;    // not 0: no request comes any more
    std::uint32_t aborted;  // not 0: the kernel ends in the middle of a request
};

// Waits for a word with this number; returns false when the kernel is to end.
__device__ inline bool await_word(const std::uint64_t* word, std::uint32_t number, const resident_call& call,
                                  std::uint64_t& found) {
    for (unsigned looks = 1;; ++looks) {
        found = read_host_word(word);
        if (static_cast<std::uint32_t>(found >> 32) >> 4 == number) return true;
        if (looks % looks_for_request == 0 && read_host_word(call.stop) != 0) return false;
        if (call.pause != 0) __nanosleep(call.pause);
    }
}

template <typename T>
__device__ inline T* operand_of(unsigned char* shared, const resident_layer& layer) {
    return reinterpret_cast<T*>(shared + layer.operand);
}

// This block's slice of the inputs, from the host's memory. All threads call it; afterwards the state is known to all.
template <typename T>
__device__ inline void read_inputs(unsigned char* shared, block_state& state, const resident_call& call,
                                   const std::uint64_t* entry, std::uint32_t rank, std::uint32_t number) {
    const resident_layer& layer = call.layout.layer[0];
    const std::uint32_t words = (layer.inputs + 1) / 2, first = rank * layer.slice / 2;
    const std::uint32_t mine = first < words ? min(layer.slice / 2, words - first) : 0;
    const std::uint32_t pitch = call.layout.input_words();
    entry += rank * call.layout.input_pitch();
    // A block without inputs watches one word.
    for (std::uint32_t i = threadIdx.x; i < max(mine, 1u); i += blockDim.x) {
        const std::uint64_t* const word = entry + i;
        std::uint64_t found[most_resident_rows];
        if (!await_word(word, number, call, found[0])) {
            state.ended = 1;
            break;
        }
        const auto flag = static_cast<std::uint32_t>(found[0] >> 32);
        if (i == 0) state.flag = flag;
        if (mine == 0 || flag % 16 >= resident_reload) break;
        const std::uint32_t rows = flag % 16 + 1;
        auto* const to = reinterpret_cast<std::uint32_t*>(operand_of<T>(shared, layer));
        to[i] = static_cast<std::uint32_t>(found[0]);
        if (rows == 1) continue;
        // The host writes the first row last, and these reads begin after that one has ended: the others are there.
#pragma unroll
        for (std::uint32_t row = 1; row < most_resident_rows; ++row)
            if (row < rows) found[row] = read_host_word(word + row * pitch);
#pragma unroll
        for (std::uint32_t row = 1; row < most_resident_rows; ++row)
            if (row < rows) to[row * layer.operand_pitch / 2 + i] = static_cast<std::uint32_t>(found[row]);
    }
    __syncthreads();
}

// What a warp can fetch of a layer's weights before the layer's inputs are there: of its first two tiles.
inline constexpr std::uint32_t early_steps = 4;
struct early_weights {
    uint4 tile[2][early_steps];
};

__device__ inline const uint4* weights_of(const unsigned char* shared, const resident_layer& layer,
                                          std::uint32_t tile) {
    return reinterpret_cast<const uint4*>(shared + layer.weights) + tile * layer.steps * 32 + threadIdx.x % 32;
}

__device__ inline void fetch_tile(uint4 (&to)[early_steps], const unsigned char* shared, const resident_layer& layer,
                                  std::uint32_t tile) {
#pragma unroll
    for (std::uint32_t step = 0; step < early_steps; ++step) {
        to[step] = {0, 0, 0, 0};
        if (tile < layer.tiles && step < layer.steps) to[step] = weights_of(shared, layer, tile)[step * 32];
    }
}

__device__ inline void fetch_early(early_weights& to, const unsigned char* shared, const resident_layer& layer) {
    fetch_tile(to.tile[0], shared, layer, threadIdx.x / 32);
    fetch_tile(to.tile[1], shared, layer, threadIdx.x / 32 + blockDim.x / 32);
}

// The right operand of one step: this lane's two pairs of inputs of its row.
template <typename T>
__device__ inline uint2 operand_at(const T* operand, std::uint32_t step, bool is_real) {
    uint2 made{0, 0};
    if (!is_real) return made;
    made.x = *reinterpret_cast<const std::uint32_t*>(operand + step * resident_tile);
    made.y = *reinterpret_cast<const std::uint32_t*>(operand + step * resident_tile + 8);
    return made;
}

template <typename T>
__device__ inline void multiply_step(float (&sums)[4], const uint4& weights, const uint2& operand) {
    const std::uint32_t a[4] = {weights.x, weights.y, weights.z, weights.w};
    mma<T>(sums, a, operand.x, operand.y);
}

// Where a warp's sums go.
template <int Blocks>
struct part_writer {
    std::uint32_t parts;  // of this lane's first row and output
    std::uint32_t pitch;  // from a row to the next one, in bytes
    std::uint32_t row, rows, outputs, flag;

    __device__ void operator()(std::uint32_t tile, const uint2& target, const float (&sums)[2][4]) const {
#pragma unroll
        for (std::uint32_t group = 0; group < 2; ++group) {
            const std::uint32_t to = group == 0 ? target.x : target.y;
            const std::uint32_t address = parts + to % 65536 * 8;
            const bool is_real = tile * resident_tile + group * 8 + threadIdx.x % 32 / 4 < outputs;
            const float first = sums[0][2 * group] + sums[1][2 * group];
            const float second = sums[0][2 * group + 1] + sums[1][2 * group + 1];
            if (is_real && row < rows) write_part<Blocks>(address, to / 65536, first, flag);
            if (is_real && row + 1 < rows) write_part<Blocks>(address + pitch, to / 65536, second, flag);
        }
    }
};

// The slice times its weights; each partial sum goes to the block that adds it up.
template <typename T, int Blocks>
__device__ inline void multiply(unsigned char* shared, const resident_layer& layer, const early_weights& early,
                                std::uint32_t most_rows, std::uint32_t rows, std::uint32_t rank, std::uint32_t flag) {
    __syncwarp();  // the tensor cores take whole warps
    const std::uint32_t lane = threadIdx.x % 32, warps = blockDim.x / 32, row = lane % 4 * 2;
    const T* const operand = operand_of<T>(shared, layer) + lane / 4 * layer.operand_pitch + lane % 4 * 2;
    const bool has_row = lane / 4 < rows;
    const auto* const targets = reinterpret_cast<const uint2*>(shared + layer.targets);
    const std::uint32_t pitch = layer.next_slice * 8;
    const part_writer<Blocks> write{
        shared_address(shared + layer.parts) + (rank * most_rows + row) * pitch + lane / 4 * 8,
        pitch,
        row,
        rows,
        layer.outputs,
        flag};
    if (layer.steps > early_steps) {
        for (std::uint32_t tile = threadIdx.x / 32; tile < layer.tiles; tile += warps) {
            const uint4* const weights = weights_of(shared, layer, tile);
            float sums[2][4] = {};
#pragma unroll 4
            for (std::uint32_t step = 0; step < layer.steps; ++step)
                multiply_step<T>(sums[step % 2], weights[step * 32], operand_at(operand, step, has_row));
            write(tile, targets[tile], sums);
        }
        return;
    }
    uint2 right[early_steps];
#pragma unroll
    for (std::uint32_t step = 0; step < early_steps; ++step)
        right[step] = operand_at(operand, step, has_row && step < layer.steps);
#pragma unroll 1
    for (std::uint32_t tile = threadIdx.x / 32, count = 0; tile < layer.tiles; tile += warps, ++count) {
        const uint2 target = targets[tile];
        uint4 weights[early_steps];
        if (count < 2) {
#pragma unroll
            for (std::uint32_t step = 0; step < early_steps; ++step)
                weights[step] = count == 0 ? early.tile[0][step] : early.tile[1][step];
        } else {
            fetch_tile(weights, shared, layer, tile);
        }
        float sums[2][4] = {};
#pragma unroll
        for (std::uint32_t step = 0; step < early_steps; ++step)
            multiply_step<T>(sums[step % 2], weights[step], right[step]);
        write(tile, target, sums);
    }
}

// The sums of the parts of two outputs of one row; false when the kernel is to end. `has_second`: there are two.
template <int Blocks>
__device__ inline bool add_up(float (&sums)[2], bool has_second, std::uint32_t first, std::uint32_t pitch,
                              std::uint32_t sources, std::uint32_t flag, const std::uint32_t* stop) {
    uint4 found[Blocks];
    unsigned looks = 0;
    for (bool all = false; !all;) {
        all = true;
#pragma unroll
        for (int source = 0; source < Blocks; ++source) {
            found[source] = {0, flag, 0, flag};
            if (source < sources) read_parts(found[source], first + source * pitch);
        }
#pragma unroll
        for (int source = 0; source < Blocks; ++source)
            all = all && found[source].y == flag && (found[source].w == flag || !has_second);
        if (!all && ++looks % looks_before_stop == 0 && read_host_word(stop) != 0) return false;
    }
#pragma unroll
    for (int source = 0; source < Blocks; ++source) {
        sums[0] += __uint_as_float(found[source].x);
        sums[1] += __uint_as_float(found[source].z);
    }
    return true;
}

// softmax over each row of the results, one warp a row; then into the host's memory.
template <typename T>
__device__ inline void finish_softmax(float* results, std::uint32_t outputs, std::uint32_t rows, std::uint64_t* answer,
                                      std::uint32_t flag) {
    constexpr unsigned everyone = 0xffffffff;
    __syncthreads();
    const std::uint32_t lane = threadIdx.x % 32, words = (outputs + 1) / 2;
    for (std::uint32_t row = threadIdx.x / 32; row < rows; row += blockDim.x / 32) {
        float* const each = results + row * outputs;
        float largest = -INFINITY, sum = 0;
        for (std::uint32_t i = lane; i < outputs; i += 32) largest = fmaxf(largest, each[i]);
        for (int step = 16; step > 0; step /= 2) largest = fmaxf(largest, __shfl_xor_sync(everyone, largest, step));
        for (std::uint32_t i = lane; i < outputs; i += 32) {
            each[i] = __expf(each[i] - largest);  // NaN stays, and makes the sum NaN
            sum += each[i];
        }
        for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(everyone, sum, step);
        __syncwarp();
        const float scale = 1 / sum;
        for (std::uint32_t i = lane; i < words; i += 32) {
            const float second = 2 * i + 1 < outputs ? each[2 * i + 1] * scale : 0;
            write_host_word(answer + row * words + i, rounded<T, false>(each[2 * i] * scale, second), flag);
        }
    }
}

// The outputs of `layer` that this block adds up: the next layer's operand, or the answer.
template <typename T, int Blocks>
__device__ inline void receive(unsigned char* shared, block_state& state, const resident_call& call,
                               const resident_layer& layer, const resident_layer& next, bool is_last,
                               std::uint32_t rows, std::uint32_t rank, std::uint32_t flag, std::uint64_t* answer) {
    const std::uint32_t first = rank * layer.next_slice;
    if (first >= layer.outputs) return;
    const std::uint32_t mine = min(layer.next_slice, layer.outputs - first);
    // Two outputs a thread, as the words of an answer hold two.
    const std::uint32_t pairs = (mine + 1) / 2;
    const float* const biases = reinterpret_cast<const float*>(shared + layer.biases);
    const std::uint32_t parts = shared_address(shared + layer.parts);
    const std::uint32_t pitch = call.layout.rows * layer.next_slice * 8;
    float* const results = reinterpret_cast<float*>(shared + call.layout.results);
    for (std::uint32_t i = threadIdx.x; i < pairs * rows; i += blockDim.x) {
        const std::uint32_t row = rows == 1 ? 0 : i / pairs, output = 2 * (i - row * pairs);
        const bool has_second = output + 1 < mine;
        const float2 bias = *reinterpret_cast<const float2*>(biases + output);
        float sums[2] = {bias.x, bias.y};
        if (!add_up<Blocks>(sums, has_second, parts + (row * layer.next_slice + output) * 8, pitch, layer.sources, flag,
                            call.stop)) {
            state.aborted = 1;
            break;
        }
        if (is_last && layer.after == activation::softmax) {
            results[row * mine + output] = sums[0];
            if (has_second) results[row * mine + output + 1] = sums[1];
            continue;
        }
        after_layer(sums, layer.after);
        const std::uint32_t both = rounded<T, false>(sums[0], has_second ? sums[1] : 0);
        if (is_last) {
            write_host_word(answer + i, both, flag);
        } else {
            *reinterpret_cast<std::uint32_t*>(operand_of<T>(shared, next) + row * next.operand_pitch + output) = both;
        }
    }
    if (is_last && layer.after == activation::softmax) finish_softmax<T>(results, mine, rows, answer, flag);
}

__device__ inline void load_image(unsigned char* shared, const resident_call& call, std::uint32_t rank) {
    const auto* const from =
        reinterpret_cast<const uint4*>(read_host_word(call.image) + std::size_t{rank} * call.layout.image_bytes);
    for (std::uint32_t i = threadIdx.x; i < call.layout.image_bytes / 16; i += blockDim.x)
        reinterpret_cast<uint4*>(shared)[i] = __ldcg(from + i);
}

}  // namespace sluice::kernels::resident

namespace sluice::kernels {

// Layers: of the network, or 0 for any number. Known ones are unrolled: most of a layer's time is the latency of
// instructions that compute addresses, and these are then computed once.
template <typename T, int Blocks, int Layers>
__global__ void __launch_bounds__(512, 1) resident_mlp(const __grid_constant__ resident_call call) {
    using namespace resident;
    extern __shared__ __align__(16) unsigned char shared[];
    __shared__ block_state state;
    const resident_layout& layout = call.layout;
    const std::uint32_t rank = blockIdx.x % Blocks, lane = blockIdx.x / Blocks;
    for (std::uint32_t i = threadIdx.x; i < (layout.shared_bytes - layout.image_bytes) / 4; i += blockDim.x)
        reinterpret_cast<std::uint32_t*>(shared + layout.image_bytes)[i] = 0;
    load_image(shared, call, rank);
    if (threadIdx.x == 0) state.ended = state.aborted = 0;
    __syncthreads();
    cluster_arrive<Blocks>();
    const std::uint32_t in = layout.rows * layout.input_words();
    const std::uint32_t layers = Layers == 0 ? layout.layers : Layers;
    const std::uint32_t out = layout.rows * ((layout.layer[layers - 1].outputs + 1) / 2);
    std::uint32_t slot = 0;
    early_weights early;
    for (std::uint32_t number = 1;; number = next_resident_number(number)) {
        const std::size_t entry = std::size_t{lane} * call.depth + slot;
        slot = slot + 1 == call.depth ? 0 : slot + 1;
        fetch_early(early, shared, layout.layer[0]);
        read_inputs<T>(shared, state, call, call.inbox + entry * in, rank, number);
        if (state.ended != 0) break;
        const std::uint32_t flag = state.flag;
        cluster_wait<Blocks>();
        if (flag % 16 == resident_reload) {
            load_image(shared, call, rank);
            __syncthreads();
            // All blocks have the new weights before the host may change the image.
            cluster_arrive<Blocks>();
            cluster_wait<Blocks>();
            if (rank == 0 && threadIdx.x == 0) write_host_word(call.outbox + entry * out, 0, flag);
        } else {
            const std::uint32_t rows = flag % 16 + 1;
            const auto run_layer = [&](std::uint32_t at) {
                const resident_layer& layer = layout.layer[at];
                if (rank < layer.sources) multiply<T, Blocks>(shared, layer, early, layout.rows, rows, rank, flag);
                // What the next layer needs is fetched before this layer's sums are there.
                const bool is_last = at + 1 == layers;
                const resident_layer& next = layout.layer[is_last ? at : at + 1];
                if (!is_last) fetch_early(early, shared, next);
                receive<T, Blocks>(shared, state, call, layer, next, is_last, rows, rank, flag,
                                   call.outbox + entry * out);
                __syncthreads();
            };
            if constexpr (Layers == 0) {
                for (std::uint32_t at = 0; at < layers; ++at) run_layer(at);
            } else {
#pragma unroll
                for (std::uint32_t at = 0; at < Layers; ++at) run_layer(at);
            }
        }
        cluster_arrive<Blocks>();
        if (state.aborted != 0) break;  // not written again before all threads have begun the next request
    }
    // No block leaves while others may write into its shared memory.
    cluster_wait<Blocks>();
    cluster_arrive<Blocks>();
    cluster_wait<Blocks>();
}

}  // namespace sluice::kernels
