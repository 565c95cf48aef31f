// SPDX-License-Identifier: Apache-2.0
// `sluice run` of an ONNX network with any operators: whole arrays as inputs, whole arrays as outputs, in one batch.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "run_command.hpp"
#include "run_precision.hpp"
#include "sluice/nn/model.hpp"

namespace sluice::app {

struct network_output {
    std::string name;
    std::string type_and_shape;  // "f32 [8, 10]"
    std::optional<std::filesystem::path> file;
};

// `rows` are known with labels only.
struct network_result : run_outcome {
    device_use device;
    std::vector<network_output> outputs;
    std::optional<used_precision> precision;
};

// Whether the options are for a run of whole arrays, whatever the network: they name inputs or outputs, or a precision,
// or the input is a picture.
bool asks_for_whole_arrays(const run_options& options);

// Blocks. Throws file_error and error, as run(); errc::invalid_argument for options that are for rows only, for inputs
// and outputs that the network does not have, and for inputs that are not given.
network_result run_network(const run_options& options, nn::model network);

std::string to_json(const run_options& options, const network_result& result);
std::string to_text(const run_options& options, const network_result& result);

}  // namespace sluice::app
