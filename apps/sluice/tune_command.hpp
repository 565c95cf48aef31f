// `sluice tune`: measures which way matrix products go best on this machine's GPUs, for later runs to go by.
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

// Throws error for a device that is not there or is not a GPU, and for shapes that are none.
void tune(const tune_options& options, bool as_json, std::ostream& out);

// What the shapes of the options stand for.
std::vector<gemm_problem> problems_of(const tune_options& options);

}  // namespace sluice::app
