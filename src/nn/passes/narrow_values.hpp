// SPDX-License-Identifier: Apache-2.0
// Which steps round what they read to 16 bits.
#pragma once

#include <cstddef>
#include <vector>

#include "nn/prepared_graph.hpp"

namespace sluice::nn::detail {

class narrow_readers {
public:
    explicit narrow_readers(const prepared_graph& in);

    // Whether all that reads elements of the value rounds them, or only moves them to such; and something does. Of a
    // value that was rounded already, also whether all takes it in 16 bits.
    bool round(slot value, bool was_rounded) const;
    // Whether this step does so with this input.
    bool rounds(std::size_t reader, std::size_t input, bool was_rounded) const;
    // The steps that read the value, in order, each once.
    const std::vector<std::size_t>& of(slot value) const { return readers_[value]; }
    // Whether the graph's caller, or a graph of a step, reads the value.
    bool is_read_outside(slot value) const { return is_outside_[value]; }

private:
    const prepared_graph& in_;
    std::vector<std::vector<std::size_t>> readers_;
    std::vector<bool> is_outside_;
};

}  // namespace sluice::nn::detail
