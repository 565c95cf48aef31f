// SPDX-License-Identifier: Apache-2.0
// The share of one rank of many: rows of the input, devices and cores of its machine.
#pragma once

#include <cstddef>
#include <vector>

#include "sluice/run_inputs.hpp"

namespace sluice::app {

// Whole batches, split as in a single process: so the outputs do not depend on the number of ranks, down to the
// last bit. The ranges of all ranks follow each other; with fewer batches than ranks some are empty.
row_range share_of_rows(std::size_t rows, std::size_t batch, int rank, int size);

// The share of one rank of its machine's `devices` devices of one kind. At least one: fewer devices than ranks are
// assigned in rotation. When there are more, each rank has one, or with `all` its part of all of them.
std::vector<std::size_t> share_of_devices(std::size_t devices, bool all, int local_rank, int local_size);

// How many cores of this machine a rank's CPU device uses: an equal share, but no more than the process may run on.
std::size_t share_of_cores(int local_size);

}  // namespace sluice::app
