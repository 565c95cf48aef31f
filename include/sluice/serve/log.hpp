// SPDX-License-Identifier: Apache-2.0
// log_sink: where a server says what it does: starts, loads, failures, the end; requests only where it is asked to.
#pragma once

#include <functional>
#include <string>

#include "sluice/runtime/log.hpp"

namespace sluice::serve {

// One event.
struct log_line {
    log_level level = log_level::info;  // how serious it is
    std::string event;                  // "model_loaded": one word for programs
    std::string message;                // for people
    std::string model;                  // empty: it concerns the whole server
    // Of a request that belongs to a trace, as hexadecimal digits.
    std::string trace_id = {};
    std::string span_id = {};  // its own; empty where no span is recorded
};

// Called on any thread, several at the same time. May be empty.
using log_sink = std::function<void(const log_line&)>;

}  // namespace sluice::serve
