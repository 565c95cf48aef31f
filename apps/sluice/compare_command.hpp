// SPDX-License-Identifier: Apache-2.0
// `sluice compare`: how the outputs of two networks differ for the same inputs.
//
// Each side is a network, or a NumPy file with the only output of one. Inputs and outputs of the two belong together by
// name where both have the same names, else by place.
#pragma once

#include <filesystem>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "sample_inputs.hpp"
#include "sluice/nn/safetensors.hpp"
#include "tensor_difference.hpp"

namespace sluice::app {

struct compare_options {
    std::filesystem::path a, b;
    std::string input;  // the file of the only input; may be empty
    nn::safetensors_options network;
    sample_options inputs;
    std::string device = "auto";
    std::size_t batch = 0;            // rows; 0: those of the files, or default_compared_rows
    std::optional<double> tolerance;  // the largest absolute difference that is no failure
};
inline constexpr std::size_t default_compared_rows = 64;

struct compared_output {
    std::string a, b;            // names
    std::string type_a, type_b;  // "f32 [64, 10]"
    std::size_t elements = 0, rows = 0;
    tensor_difference difference;
};

struct compare_result {
    std::string device;  // and its name; empty where both sides are files
    std::string inputs;  // where their numbers come from; empty likewise
    bool is_by_place = false;
    std::vector<compared_output> outputs;
    std::string missed;  // that the tolerance is, in words; empty when it is not
};

// Blocks. Throws file_error and error as run(); errc::shape_mismatch for networks whose inputs or outputs do not fit
// together.
compare_result compare(const compare_options& options);

// For scripts: one line of JSON. For people: a table.
void write_json(const compare_options& options, const compare_result& result, std::ostream& out);
void write_text(const compare_options& options, const compare_result& result, std::ostream& out);

}  // namespace sluice::app
