// SPDX-License-Identifier: Apache-2.0
// Networks that `sluice run` runs row by row: in batches, on several streams and devices, with an input of any length.
#pragma once

#include <cstddef>
#include <optional>

#include "sluice/nn/model.hpp"

namespace sluice::app {

struct row_network {
    nn::model network;            // of any number of rows
    std::size_t in = 0, out = 0;  // features of a row
};

// The network, if it has one input f32 [rows, in] and one output f32 [rows, out], and its rows are proven to be
// independent of each other: then the number of rows that the file says does not matter.
std::optional<row_network> by_rows(const nn::model& network);

}  // namespace sluice::app
