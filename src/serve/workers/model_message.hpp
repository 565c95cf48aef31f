// SPDX-License-Identifier: Apache-2.0
// What the front says of a model that is to be loaded, and what a worker says of one that it has loaded, as bytes.
#pragma once

#include <cstddef>
#include <filesystem>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "serve/workers/packed.hpp"
#include "sluice/io/regular_file.hpp"
#include "sluice/nn/model.hpp"
#include "sluice/nn/row_independence.hpp"
#include "sluice/serve/engine.hpp"
#include "sluice/serve/model_config.hpp"
#include "sluice/serve/model_files.hpp"

namespace sluice::serve {

// Files, and how they were when they were read.
using files_as_read = std::vector<std::pair<std::filesystem::path, io::file_state>>;

// Of the configuration, what an engine reads: devices, precision, memory, instances, activations. The front keeps the
// rest.
struct load_message {
    model_version which;
    model_config config;
    files_as_read files;  // as the first worker has read them; empty: this is the first
};

// All that a loaded_model says of itself.
struct model_description {
    std::vector<nn::value_info> inputs, outputs;
    std::vector<std::string> texts;
    nn::row_independence rows;
    std::string platform, device_name, how;
    bool prefers_few_sizes = false;
    std::size_t most_joined_rows = std::numeric_limits<std::size_t>::max();
};

model_description description_of(const loaded_model& from);

void put(packed_writer& to, const load_message& message);
void put(packed_writer& to, const files_as_read& files);
void put(packed_writer& to, const model_description& description);

// Throw worker_damage for bytes that are none.
load_message read_load_message(packed_reader& from);
files_as_read read_files(packed_reader& from);
model_description read_description(packed_reader& from);

}  // namespace sluice::serve
