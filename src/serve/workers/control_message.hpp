// SPDX-License-Identifier: Apache-2.0
// The messages on a control channel. Each begins with its kind; those of a model continue with the model's number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "serve/workers/packed.hpp"
#include "sluice/serve/network_engine.hpp"

namespace sluice::serve {

enum class to_worker : std::uint8_t {
    begin,   // the first one: worker_setup
    load,    // number, load_message
    unload,  // number
    trim,    // gives memory back
};

enum class to_front : std::uint8_t {
    ready,        // the engine is made
    refused,      // it cannot be made: a failure
    loaded,       // number, files_as_read, model_description
    load_failed,  // number, a failure
    alive,        // now and then, whatever else it does
    fault,        // a text: its device has failed, so the worker ends
};

// What a worker needs to begin.
struct worker_setup {
    network_engine_options engine;
    int compute_nice = 0;
    std::size_t hatches = 1;
    std::size_t hatch_bytes = 1;  // of a hatch's area
    std::chrono::nanoseconds spin{0};
};

// Of the engine's options all but what holds only in one process: GPUs by number, traces, logs.
std::string packed_setup(const worker_setup& setup);
worker_setup read_setup(packed_reader& from);

}  // namespace sluice::serve
