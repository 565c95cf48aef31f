// SPDX-License-Identifier: Apache-2.0
// What is learned of a model when it is loaded, from runs with numbers of our own: how long one row takes, and batches.
#pragma once

#include <chrono>
#include <cstddef>
#include <vector>

#include "serve/size_classes.hpp"
#include "sluice/serve/engine.hpp"

namespace sluice::serve {

struct trial {
    std::chrono::nanoseconds one_row{};  // 0: the trial runs have failed, so it is not known
    std::size_t elements = 1;            // of the inputs of one row
};

// Whether every input and output has a first dimension without a fixed length, and of one name: along these dimensions
// requests can be joined, if the model's rows are independent.
bool has_first_dimensions(const loaded_model& model);

trial try_model(const loaded_model& model);

// What batches of 1, 2, 4, ... up to `most` rows take, the best of some runs; each size is prepared by that. Ends at
// the first size that takes long or that the model refuses.
std::vector<timed_size> time_sizes(const loaded_model& model, std::size_t most);

}  // namespace sluice::serve
