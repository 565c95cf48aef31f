// SPDX-License-Identifier: Apache-2.0
// Where the numbers of a network that stays on a GPU lie, and the words by which host and kernel exchange requests and
// answers.
//
// A lane is a cluster of blocks that answers one request after the other. Each block keeps a slice of every layer's
// inputs and the weights of these inputs; so each layer's sums are partial, and the block whose slice of the next layer
// an output belongs to adds the parts up. The last layer's outputs belong to block 0.
//
// A word is 16 bytes: 14 of data, and above them a flag of 16 bits. The kernel reads and writes it as a whole. The host
// writes the half with the flag last and reads it first; so who sees the flag has the data. The flag is the number of
// the request (1, 2, ...) times 16, plus what is asked:
//
//     0 ... 7   an answer for that number of rows, plus one
//     8         read the image again, from where resident_call::image says by now
//
// A number comes again after 4095 requests. By then the host has cleared every word that had it (resident_lanes).
//
// A network of f32 has one block for each lane, whose threads add the products up themselves. The boxes are the same:
// in its layout inputs, slices, outputs and pitches count halves of a float.
#pragma once

#include <cstddef>
#include <cstdint>

#include "sluice/base/kernel.hpp"
#include "sluice/kernels/activation.hpp"

namespace sluice::kernels {

inline constexpr unsigned most_resident_layers = 9, most_resident_rows = 8;

// The tensor cores' tile: 16 outputs by 16 inputs by 8 rows. Of f32, steps are of 16 inputs too.
inline constexpr unsigned resident_tile = 16;

// Of f32: from the weights of an output to those of the next one, in floats. An odd multiple of 16, so that the threads
// of a warp read different banks.
SLUICE_KERNEL constexpr std::uint32_t resident_f32_pitch(std::uint32_t steps) { return (steps | 1) * resident_tile; }

// A word of the boxes.
struct alignas(16) resident_word {
    std::uint64_t low, high;  // the flag is in the highest 16 bits
};
inline constexpr std::uint32_t resident_word_elements = 7;  // of 16 bits
SLUICE_KERNEL constexpr std::uint32_t resident_words_of(std::uint32_t elements) {
    return (elements + resident_word_elements - 1) / resident_word_elements;
}

// The most steps of a regular layer in a lane of one block and of several: a warp keeps the weights of two of its tiles
// in registers. In a lane of several blocks slices are padded to 2 or 4 steps.
inline constexpr std::uint32_t regular_steps = 5, regular_shared_steps = 4;
SLUICE_KERNEL constexpr std::uint32_t resident_regular_steps(std::uint32_t steps) {
    return steps <= 2 ? 2 : steps == 3 ? 4 : steps;
}

struct resident_layer {
    std::uint32_t inputs;         // of the layer
    std::uint32_t outputs;        // of the layer
    std::uint32_t slice;          // of the inputs, that each block keeps; whole words or, of later layers, tiles
    std::uint32_t sources;        // blocks whose slice is not empty
    std::uint32_t steps;          // of 16 places of the operand, that the slice is padded to
    std::uint32_t tiles;          // of 16 outputs
    std::uint32_t next_tiles;     // that a block adds up, the next layer's slice; of the last layer all
    std::uint32_t weights;        // where they begin in shared memory, in bytes
    std::uint32_t biases;         // of the outputs that this block adds up
    std::uint32_t targets;        // [tiles]: where a tile goes, as block * 65536 + place among that block's tiles
    std::uint32_t parts;          // floats [blocks][pairs of rows][next_tiles][32]: partial sums of other blocks
    std::uint32_t operand;        // elements [8][operand_pitch]: the slice of the inputs, of 8 rows
    std::uint32_t operand_pitch;  // in elements
    activation after;
};

struct resident_layout {
    std::uint32_t blocks = 0;  // of a lane
    std::uint32_t rows = 0;    // the most of one request
    std::uint32_t layers = 0;
    std::uint32_t threads = 0;      // of a block
    std::uint32_t words = 0;        // of one row's inputs, that a block reads; at least 1
    std::uint32_t image_bytes = 0;  // weights and biases of one block: the first part of its shared memory
    std::uint32_t shared_bytes = 0;
    std::uint32_t results = 0;  // [rows][outputs of the network]: floats for a softmax
    std::uint32_t answer = 0;   // elements of 16 bits [rows][outputs of the network]
    resident_layer layer[most_resident_layers] = {};

    // Of a block in the inbox, which are [rows][words] and fill lines of 128 bytes of their own: reads of one line of
    // the host's memory by several blocks are carried out one after the other, and each takes more than a microsecond.
    SLUICE_KERNEL std::uint32_t input_pitch() const { return (rows * words + 7) / 8 * 8; }
    SLUICE_KERNEL std::uint32_t input_words() const { return blocks * input_pitch(); }
    SLUICE_KERNEL std::uint32_t output_words() const {
        return (resident_words_of(rows * layer[layers - 1].outputs) + 7) / 8 * 8;
    }
    // Each layer has at most two tiles for each warp, of few steps, and each thread adds up at most one sum.
    SLUICE_KERNEL bool is_regular() const {
        for (std::uint32_t i = 0; i < layers; ++i) {
            if (layer[i].steps > (blocks > 1 ? regular_shared_steps : regular_steps) || layer[i].tiles > threads / 16)
                return false;
            if (blocks > 1 && pairs() * layer[i].next_tiles * 32 > threads) return false;
        }
        return true;
    }
    // The tensor cores give sums of rows 2 i and 2 i + 1 to the same thread.
    SLUICE_KERNEL std::uint32_t pairs() const { return (rows + 1) / 2; }
};

// Requests are counted from 1; after the last number comes 1 again. Words are 0 at first.
inline constexpr std::uint32_t resident_reload = 8, last_resident_number = (1u << 12) - 1;
SLUICE_KERNEL constexpr std::uint32_t next_resident_number(std::uint32_t number) {
    return number == last_resident_number ? 1 : number + 1;
}

// What the kernel is launched with. Trivially copyable.
struct resident_call {
    // Pinned host memory: the address of device memory [blocks][image_bytes].
    const std::uint64_t* image;
    const resident_word* inbox;  // pinned host memory: words [lanes][depth][blocks][input_pitch]
    resident_word* outbox;       // words [lanes][depth][output_words]
    const std::uint32_t* stop;   // pinned host memory: not 0 ends the kernel, also in the middle of a request
    // Entries of a lane in each box. One more than requests that may be in flight: a block that takes no part in a
    // request reads the request's number nevertheless, perhaps after the answer, and surely before the next answer.
    std::uint32_t depth;
    std::uint32_t pause;  // nanoseconds between two looks into the inbox; 0 for none
    resident_layout layout;
};

}  // namespace sluice::kernels
