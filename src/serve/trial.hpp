// SPDX-License-Identifier: Apache-2.0
// What is learned of a model when it is loaded, from runs with numbers of our own: how long one row takes, and whether
// rows may be joined, i.e. whether each row's outputs are the same in any company.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "serve/size_classes.hpp"
#include "sluice/serve/engine.hpp"

namespace sluice::serve {

struct trial {
    // Every input and output has a first dimension without a fixed length, and of one name.
    bool has_rows = false;
    // The trial has shown that rows depend on each other, or that an output does not have the batch's rows.
    bool rows_depend = false;
    // The trial has shown that they do not.
    bool rows_are_independent = false;
    std::string reason;                  // of these three
    std::chrono::nanoseconds one_row{};  // 0: the trial runs have failed, so it is not known
    std::size_t elements = 1;            // of the inputs of one row
};

trial try_model(const loaded_model& model);

// What batches of 1, 2, 4, ... up to `most` rows take, the best of some runs; each size is prepared by that. Ends at
// the first size that takes long or that the model refuses.
std::vector<timed_size> time_sizes(const loaded_model& model, std::size_t most);

}  // namespace sluice::serve
