// SPDX-License-Identifier: Apache-2.0
// Where the numbers of a network that stays on a GPU lie, and the words by which host and kernel exchange requests and
// answers.
//
// A lane is a cluster of blocks that answers one request after the other. Each block keeps a slice of every layer's
// inputs and the weights of these inputs; so each layer's sums are partial, and the block whose slice of the next layer
// an output belongs to adds the parts up. The last layer's outputs belong to block 0.
//
// A word is 8 bytes: 4 of data, and above them a flag. It is written and read as a whole, so a reader that sees the
// flag has the data. The flag is the number of the request (1, 2, ...) times 16, plus what is asked:
//
//     0 ... 7   an answer for that number of rows, plus one
//     8         read the image again, from where resident_call::image says by now
#pragma once

#include <cstddef>
#include <cstdint>

#include "sluice/base/kernel.hpp"
#include "sluice/kernels/activation.hpp"

namespace sluice::kernels {

inline constexpr unsigned most_resident_layers = 9, most_resident_rows = 8;

// The tensor cores' tile: 16 outputs by 16 inputs by 8 rows.
inline constexpr unsigned resident_tile = 16;

struct resident_layer {
    std::uint32_t inputs;         // of the layer
    std::uint32_t outputs;        // of the layer
    std::uint32_t slice;          // of the inputs, that each block keeps; a multiple of 8
    std::uint32_t sources;        // blocks whose slice is not empty
    std::uint32_t steps;          // of 16 inputs, that the slice is padded to
    std::uint32_t tiles;          // of 16 outputs
    std::uint32_t next_slice;     // of the outputs: the next layer's slice; of the last layer all; even
    std::uint32_t weights;        // where they begin in shared memory, in bytes
    std::uint32_t biases;         // of the outputs that this block adds up
    std::uint32_t targets;        // [2 * tiles]: where 8 outputs go, as block * 65536 + place in its next slice
    std::uint32_t parts;          // words [sources][rows][next_slice]: partial sums that other blocks have written
    std::uint32_t operand;        // elements [rows][operand_pitch]: the slice of the inputs
    std::uint32_t operand_pitch;  // in elements
    activation after;
};

struct resident_layout {
    std::uint32_t blocks = 0;  // of a lane
    std::uint32_t rows = 0;    // the most of one request
    std::uint32_t layers = 0;
    std::uint32_t threads = 0;      // of a block
    std::uint32_t image_bytes = 0;  // weights and biases of one block: the first part of its shared memory
    std::uint32_t shared_bytes = 0;
    std::uint32_t results = 0;  // floats [rows][outputs of the network], for a softmax
    resident_layer layer[most_resident_layers] = {};

    // Of a row in the inbox. Each block's words fill lines of 128 bytes of their own: reads of one line of the host's
    // memory by several blocks are carried out one after the other, and each takes more than a microsecond.
    SLUICE_KERNEL std::uint32_t input_pitch() const { return (layer[0].slice / 2 + 15) / 16 * 16; }  // of a block
    SLUICE_KERNEL std::uint32_t input_words() const { return blocks * input_pitch(); }
    SLUICE_KERNEL std::uint32_t output_words() const { return (layer[layers - 1].outputs + 1) / 2; }
};

// Requests are counted from 1; after the last number comes 1 again. Words are 0 at first.
inline constexpr std::uint32_t resident_reload = 8, last_resident_number = (1u << 28) - 1;
SLUICE_KERNEL constexpr std::uint32_t next_resident_number(std::uint32_t number) {
    return number == last_resident_number ? 1 : number + 1;
}

// What the kernel is launched with. Trivially copyable.
struct resident_call {
    // Pinned host memory: the address of device memory [blocks][image_bytes].
    const std::uint64_t* image;
    const std::uint64_t* inbox;  // pinned host memory: words [lanes][depth][rows][blocks][input_pitch]
    std::uint64_t* outbox;       // words [lanes][depth][rows][output_words]
    const std::uint32_t* stop;   // pinned host memory: not 0 ends the kernel, also in the middle of a request
    // Entries of a lane in each box. One more than requests that may be in flight: a block that takes no part in a
    // request reads the request's number nevertheless, perhaps after the answer, and surely before the next answer.
    std::uint32_t depth;
    std::uint32_t pause;  // nanoseconds between two looks into the inbox; 0 for none
    resident_layout layout;
};

}  // namespace sluice::kernels
