// SPDX-License-Identifier: Apache-2.0
// All steps of an RNN, a GRU or an LSTM on a GPU, once the products with the inputs are there. What goes where:
//     recurrent_activation.hpp the activations
//     recurrent_layer.hpp      what a layer is, and how its work is divided: for the operators
//     recurrent_group.hpp      what one warp does for one unit in one step, and what the rows of a group keep
//     recurrent_clusters.hpp   one kernel for all steps: a cluster of blocks has a group of rows of one direction
//     recurrent_registers.cuh  the same with the weights in registers, for layers of up to some hundred units with the
//                              usual activations: two to three times as fast
//     recurrent_cuda.cu        the launches; and a kernel for each step: a warp has one unit of a group
// nn/operators/recurrent.cu checks the node and asks for them.
//
// Sums are f32. The order in which the products of a unit and a row are added depends on the layer alone: of the same
// products with the inputs a row has the same bits in every batch. Clusters and steps have the same order; registers
// have another one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "kernels/recurrent/recurrent_activation.hpp"
#include "kernels/recurrent/recurrent_kind.hpp"
#include "sluice/base/thread_block.hpp"
#include "sluice/runtime/command.hpp"
#include "sluice/runtime/interpreter.hpp"

namespace sluice::kernels {

enum class recurrent_element : std::uint64_t { f32, f16, bf16 };

constexpr std::size_t bytes_of(recurrent_element type) { return type == recurrent_element::f32 ? 4 : 2; }

// A layer. Addresses are of the element type, and may be null where that is said. Without padding.
struct recurrent_layer {
    recurrent_kind kind;
    recurrent_element type;
    const void* products;   // [steps, batch, directions, gates * hidden], or with steps and batch exchanged
    const void* r;          // [directions, gates * hidden, hidden]
    const void* bias;       // [directions, 2 * gates * hidden], or null
    const void* peepholes;  // [directions, 3 * hidden], of input, output, forget; or null
    const std::int32_t* sequence_lengths;  // [batch], or null
    const void *first_h, *first_c;         // states; or null
    void *y, *last_h, *last_c;             // each may be null
    std::size_t batch, hidden, directions, steps;
    std::size_t row_of_step, row_of_batch;              // of products
    std::size_t y_of_step, y_of_direction, y_of_batch;  // strides
    std::size_t state_of_direction, state_of_batch;     // the same of states
    std::uint64_t reversed;                             // bit d: direction d begins at the end
    std::uint64_t is_coupled;                           // the forget gate is 1 less the input gate
    recurrent_activation f[2], g[2], out[2];            // of each direction
};

// What the rows of a group keep while the steps go on: an array of floats, with these parts.
struct recurrent_floats {
    std::size_t rows, padded, units;  // padded: the numbers of a row's state, with zeros up to a multiple of 4
    std::uint64_t has_reset;

    SLUICE_KERNEL static constexpr std::size_t whole_fours(std::size_t count) { return (count + 3) / 4 * 4; }

    // The state of all units [rows, padded] before the steps with this parity.
    SLUICE_KERNEL std::size_t h(std::size_t step) const { return step % 2 * rows * padded; }
    // The same, times the reset gate.
    SLUICE_KERNEL std::size_t reset() const { return 2 * rows * padded; }
    // [units, rows]: the cell state of an LSTM, the update gate of a GRU.
    SLUICE_KERNEL std::size_t own() const { return reset() + (has_reset != 0 ? rows * padded : 0); }
    // [rows], as 32-bit integers.
    SLUICE_KERNEL std::size_t lengths() const { return own() + whole_fours(units * rows); }
    SLUICE_KERNEL std::size_t count() const { return lengths() + whole_fours(rows); }
};

// How one kernel does all steps.
struct recurrent_cluster_division {
    std::size_t blocks;        // of a cluster
    std::size_t rows;          // of a group: 1 or 8
    std::size_t groups;        // of one direction
    std::size_t units;         // of a block; the last ones may have fewer
    std::size_t kept;          // of these, those whose weights stay in shared memory
    std::size_t threads;       // of a block
    std::size_t shared_bytes;  // of a block
    recurrent_floats floats;
};

// Empty where the GPU has no clusters, where the states do not fit, and where blocks would read too many weights again
// at each step: a kernel for each step, on all multiprocessors, is then the faster form.
std::optional<recurrent_cluster_division> divide_into_clusters(const recurrent_layer& call,
                                                               const device_properties& gpu);
// With this many rows of a group, 1 or 8, and blocks of a cluster, 1, 2, 4 or 8; the same otherwise.
std::optional<recurrent_cluster_division> divide_into_clusters(const recurrent_layer& call,
                                                               const device_properties& gpu, std::size_t rows,
                                                               std::size_t blocks);

// The same with the weights in registers.
struct recurrent_register_division {
    std::size_t blocks;        // of a cluster; 0: the layer has no such kernel on this GPU
    std::size_t rows;          // of a group: 1; or 8, of f32 4
    std::size_t groups;        // of one direction
    std::size_t shared_bytes;  // of a block
};

// The closures of the kernels. Without padding.
struct recurrent_clusters {
    recurrent_layer call;
    recurrent_cluster_division division;
    recurrent_register_division registers;
    shared_memory<float> shared{0};
};
struct recurrent_steps {
    recurrent_layer call;
    recurrent_floats floats;  // of one group
    std::size_t groups;       // of one direction
    std::size_t step;
    float* states;  // of all groups
};

recurrent_register_division divide_into_registers(const recurrent_layer& call, const device_properties& gpu);

// How one kernel does all steps on this GPU: in registers where that can be, else as divide_into_clusters says. Empty
// where neither can be. A CPU always runs the form for clusters.
std::optional<recurrent_clusters> recurrent_in_one_kernel(const recurrent_layer& call, const device_properties& gpu);
// That kernel.
launch_command recurrent_in_clusters(recurrent_clusters& closure);

// The other form: a kernel that fills `states`, then `passes_of` kernels for each step. `states` has `floats_of_steps`
// floats.
recurrent_steps divide_into_steps(const recurrent_layer& call);
std::size_t floats_of_steps(const recurrent_steps& of);
constexpr std::size_t passes_of(recurrent_kind kind) { return kind == recurrent_kind::gru_reset_first ? 2 : 1; }
launch_command recurrent_first_states(recurrent_steps& closure);
launch_command recurrent_step_by_warps(recurrent_steps& closure, std::size_t pass);

}  // namespace sluice::kernels
