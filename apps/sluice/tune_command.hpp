// SPDX-License-Identifier: Apache-2.0
// `sluice tune`: measures the algorithms for matrix products on this machine's GPUs; later runs use the fastest.
#pragma once

#include <filesystem>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "sluice/kernels/gemm_tuning.hpp"

namespace sluice::app {

struct tune_options {
    std::string device = "cuda:0";
    std::vector<std::string> shapes;  // "4096x4096x4096": rows, columns, inner; none: the usual ones
    std::string type = "bf16";        // of those shapes: bf16, f16 or tf32
    bool plain_b = false;             // they are products with b [inner, columns], not the layers of networks
    std::optional<std::filesystem::path> table;  // default: in the user's cache
};

// Throws error for a device that is absent or is not a GPU, and for text that is no shape.
void tune(const tune_options& options, bool as_json, std::ostream& out);

// The products that the shapes of the options describe.
std::vector<gemm_problem> problems_of(const tune_options& options);

}  // namespace sluice::app
