// SPDX-License-Identifier: Apache-2.0
// `sluice run --stream`: a network with memory, a step for each line of text.
//
// A line has the numbers of the inputs that are no state, in the network's order: separated by commas or spaces, inputs
// by semicolons. Each step's outputs that are no state are written as a line of the same kind, at once. An empty line
// begins the next sequence.
#pragma once

#include <istream>
#include <ostream>
#include <string>
#include <vector>

#include "run_command.hpp"
#include "sluice/nn/model.hpp"

namespace sluice::app {

struct stream_options {
    bool is_requested = false;
    std::vector<std::string> pairs;  // outputs that are the next inputs, OUTPUT=INPUT; empty: their names say it
};

// Until the end of `from`. Blocks. Throws error (errc::invalid_argument) for options that are for whole arrays;
// file_error for a line that is not as above, with its number; what nn::session throws. The lines before that are
// answered.
void run_stream(const run_options& options, const stream_options& how, nn::model network, std::istream& from,
                std::ostream& to);

}  // namespace sluice::app
