// SPDX-License-Identifier: Apache-2.0
// The kernel of a network of f32 that stays on a GPU: one block for each lane. See resident_layout.hpp.
//
// Four threads make one output: each adds up every fourth group of four products, and shuffles add the four sums. The
// tensor cores have no f32, and a small network has few products.
#pragma once

#include <cstdint>

#include "kernels/resident/resident_mlp.cuh"
#include "sluice/kernels/activated.hpp"

namespace sluice::kernels::resident {

inline constexpr std::uint32_t threads_of_output = 4;

__device__ inline float dot(const float4& a, const float4& b, float sum) {
    return fmaf(a.w, b.w, fmaf(a.z, b.z, fmaf(a.y, b.y, fmaf(a.x, b.x, sum))));
}

// Where the number of a row and an output goes: into the next layer's operand, or the answer.
struct f32_writer {
    float* to;
    std::uint32_t pitch;

    __device__ void operator()(std::uint32_t row, std::uint32_t output, float value) const {
        to[row * pitch + output] = value;
    }
};

// All threads of the block call it. Rows: the most that `rows` may be.
template <std::uint32_t Rows>
__device__ inline void multiply_f32(const unsigned char* shared, const resident_layer& layer, std::uint32_t rows,
                                    const f32_writer& write) {
    const std::uint32_t outputs = layer.outputs / 2, part = threadIdx.x % threads_of_output;
    const std::uint32_t at_once = blockDim.x / threads_of_output, pitch = layer.operand_pitch / 2 / 4;
    const auto* const operand = reinterpret_cast<const float4*>(shared + layer.operand) + part;
    const float* const biases = reinterpret_cast<const float*>(shared + layer.biases);
    for (std::uint32_t first = 0; first < outputs; first += at_once) {
        const std::uint32_t output = first + threadIdx.x / threads_of_output;
        const bool is_real = output < outputs;
        const auto* const weights = reinterpret_cast<const float4*>(shared + layer.weights) +
                                    (is_real ? output : 0) * (resident_f32_pitch(layer.steps) / 4) + part;
        float sums[Rows] = {};
#pragma unroll 4
        for (std::uint32_t step = 0; step < layer.steps; ++step) {
            const float4 weight = weights[step * threads_of_output];
#pragma unroll
            for (std::uint32_t row = 0; row < Rows; ++row)
                if (row < rows) sums[row] = dot(weight, operand[row * pitch + step * threads_of_output], sums[row]);
        }
#pragma unroll
        for (std::uint32_t row = 0; row < Rows; ++row) {
            sums[row] += __shfl_xor_sync(whole_warp, sums[row], 1);
            sums[row] += __shfl_xor_sync(whole_warp, sums[row], 2);
            if (is_real && row < rows && row % threads_of_output == part)
                write(row, output, activated(sums[row] + biases[output], layer.after));
        }
    }
}

// One warp a row.
__device__ inline void finish_softmax_f32(float* results, std::uint32_t outputs, std::uint32_t rows) {
    __syncthreads();
    const std::uint32_t lane = threadIdx.x % 32;
    for (std::uint32_t row = threadIdx.x / 32; row < rows; row += blockDim.x / 32) {
        float* const each = results + row * outputs;
        float largest = -INFINITY, sum = 0;
        for (std::uint32_t i = lane; i < outputs; i += 32) largest = fmaxf(largest, each[i]);
        for (int step = 16; step > 0; step /= 2) largest = fmaxf(largest, __shfl_xor_sync(whole_warp, largest, step));
        for (std::uint32_t i = lane; i < outputs; i += 32) {
            each[i] = expf(each[i] - largest);  // NaN stays, and makes the sum NaN
            sum += each[i];
        }
        for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(whole_warp, sum, step);
        __syncwarp();
        for (std::uint32_t i = lane; i < outputs; i += 32) each[i] /= sum;
    }
}

__device__ inline void run_layer_f32(unsigned char* shared, const resident_call& call, std::uint32_t at,
                                     std::uint32_t rows) {
    const resident_layer& layer = call.layout.layer[at];
    const std::uint32_t outputs = layer.outputs / 2;
    const bool is_last = at + 1 == call.layout.layers;
    const resident_layer& next = call.layout.layer[is_last ? at : at + 1];
    const f32_writer write = is_last
                                 ? f32_writer{reinterpret_cast<float*>(shared + call.layout.results), outputs}
                                 : f32_writer{reinterpret_cast<float*>(shared + next.operand), next.operand_pitch / 2};
    if (rows == 1)
        multiply_f32<1>(shared, layer, rows, write);
    else
        multiply_f32<most_resident_rows>(shared, layer, rows, write);
    if (layer.after == activation::softmax) finish_softmax_f32(write.to, outputs, rows);
    __syncthreads();
}

}  // namespace sluice::kernels::resident

namespace sluice::kernels {

__global__ void __launch_bounds__(256, 1) resident_mlp_f32(const __grid_constant__ resident_call call) {
    using namespace resident;
    extern __shared__ __align__(16) unsigned char shared[];
    __shared__ block_state state;
    const resident_layout& layout = call.layout;
    begin(shared, state, call, 0);
    const std::uint32_t in = layout.input_words(), out = layout.output_words();
    const std::uint32_t inputs = layout.layer[0].inputs, outputs = layout.layer[layout.layers - 1].outputs;
    std::uint32_t slot = 0, rows = 1;
    look_timing timing;
    for (std::uint32_t number = 1;; number = next_resident_number(number)) {
        const std::size_t entry = std::size_t{blockIdx.x} * call.depth + slot;
        slot = slot + 1 == call.depth ? 0 : slot + 1;
        // Floats lie across words.
        const auto store = [&](std::uint32_t row, std::uint32_t word, const uint4& data) {
            auto* const to = reinterpret_cast<std::uint16_t*>(shared + layout.layer[0].operand) +
                             row * layout.layer[0].operand_pitch;
            const std::uint32_t parts[4] = {data.x, data.y, data.z, data.w};
#pragma unroll
            for (std::uint32_t i = 0; i < resident_word_elements; ++i) {
                const std::uint32_t element = word * resident_word_elements + i;
                if (element < inputs) to[element] = static_cast<std::uint16_t>(parts[i / 2] >> 16 * (i % 2));
            }
        };
        read_request(state, call, call.inbox + entry * in, 0, number, rows, timing, store);
        if (state.ended != 0) break;
        const std::uint32_t flag = state.flag;
        resident_word* const answer = call.outbox + entry * out;
        if (flag % 16 == resident_reload) {
            load_image(shared, call, 0);
            __syncthreads();
            if (threadIdx.x == 0) write_word(answer, 0, 0, flag);
            continue;
        }
        rows = flag % 16 + 1;
        for (std::uint32_t at = 0; at < layout.layers; ++at) run_layer_f32(shared, call, at, rows);
        write_answer(answer_of(shared, layout), rows * outputs, answer, flag);
    }
}

}  // namespace sluice::kernels
