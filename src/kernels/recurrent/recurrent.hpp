// SPDX-License-Identifier: Apache-2.0
// recurrent_on_cpu: RNN, GRU and LSTM of f32 on a CPU, all steps as one command.
//
// The products with the inputs of several steps are one product of matrices. Then each step is the product of the state
// with packed weights, by the loops of fused_mlp, and loops over the units for gates and states (recurrent_units.hpp).
// Workers share directions and sequences, each of which goes through all steps without waiting for others; where there
// are too few of these, the units of each step, as phases. Each sum has the same order in every tile, so a sequence has
// the same bits in every batch and with every number of workers.
//
// Units are counted in panels of 16 (fused_mlp_cpu.hpp), the last one filled with zeros. The image of a direction:
//     the weights of inputs, [panels][gates][inputs][16], and their biases, [panels][gates][16]
//     those of the state likewise; of a GRU whose reset comes first, the hidden gate's after those of the others
//     of an LSTM the peepholes of input, output and forget, [3][panels][16]
//
// An LSTM may have weights of 8 bits, as DynamicQuantizeLSTM has: its inputs are then quantized to 8 bits, all of them
// together, and its states before each step, those of a direction together (quantity_of in rounded_layers.hpp). Sums
// are exact integers, the rest is f32. Inputs after the longest sequence and the states of sequences that ended before
// the last step do not count. The image of a direction (recurrent_integer_layout): the weights of inputs and of the
// state, each an integer_image of one layer whose columns are [panels][gates][16]; and the peepholes as above.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "kernels/recurrent/recurrent_activation.hpp"
#include "kernels/recurrent/recurrent_kind.hpp"

namespace sluice::kernels {

// No number is 0, but perhaps `inputs`.
struct recurrent_form {
    recurrent_kind kind;
    std::size_t directions, steps, batch, inputs, hidden;
};

// As ONNX has them: [directions, gates * hidden, inputs], [directions, gates * hidden, hidden], [directions, 2 * gates
// * hidden] or null, and [directions, 3 * hidden] or null.
struct recurrent_weights {
    const float *of_inputs, *of_state, *biases, *peepholes;
};

// How many floats the image of all directions has; steps and batch do not matter.
std::size_t recurrent_image_floats(const recurrent_form& form) noexcept;
void pack_recurrent(const recurrent_form& form, const recurrent_weights& from, float* image);

// Weights of 8 bits, without zero points: [directions, inputs, 4 * hidden], [directions, hidden, 4 * hidden]; the steps
// of each column, finite, [directions, 4 * hidden]; and biases and peepholes as above.
struct recurrent_integers {
    std::vector<std::int8_t> of_inputs, of_state;
    std::vector<float> input_steps, state_steps;
    const float *biases, *peepholes;
};
std::vector<std::byte> recurrent_integer_image(const recurrent_form& form, const recurrent_integers& from);

// A tensor of [steps, batch, inputs], [directions, batch, hidden] and the like, in that order or another.
struct recurrent_strides {
    std::size_t of_step, of_direction, of_batch;
};

// A closure: trivially copyable, without padding.
struct recurrent_call {
    recurrent_form form;
    const float* image;         // null: `weights` are packed into scratch memory first
    const std::byte* integers;  // null, or the image of an LSTM with weights of 8 bits: then there are no others
    recurrent_weights weights;
    const float *x, *initial_h, *initial_c;  // the states may be null: all are 0
    const std::int32_t* lengths;             // of the sequences, or null: all have all steps
    float *y, *last_h, *last_c;              // null: not wanted
    float* scratch;                          // recurrent_scratch_floats
    recurrent_strides x_strides, y_strides, state_strides;
    std::uint64_t reversed;                   // bit d: direction d begins at the end of each sequence
    std::uint64_t has_peepholes, is_coupled;  // is_coupled: an LSTM's forget gate is 1 less the input gate
    recurrent_activation activations[2][3];   // of each direction, as ONNX orders them
};
static_assert(std::is_trivially_copyable_v<recurrent_call>);

enum class recurrent_image : unsigned char { none, floats, integers };
std::size_t recurrent_scratch_floats(const recurrent_form& form, recurrent_image image) noexcept;
void recurrent_on_cpu(const recurrent_call& call);

}  // namespace sluice::kernels
