// SPDX-License-Identifier: Apache-2.0
// serve_as_worker: the other side of worker_engine, in the process that computes.
//
//     int main() { return sluice::serve::serve_as_worker(); }   // a program that worker_engine_options::command names
#pragma once

#include <functional>
#include <memory>

#include "sluice/serve/engine.hpp"
#include "sluice/serve/network_engine.hpp"

namespace sluice::serve {

// Makes what computes in a worker process.
using worker_engine_maker = std::function<std::unique_ptr<engine>(const network_engine_options&)>;

// Loads and runs models for the process that has started this one, until that one ends; then this process ends without
// a return. Call it first in main: it closes all descriptors but those that it was given. Returns a status at once
// where no worker_engine has started this process, with a line on standard error; and where the engine cannot be made,
// which the front then says.
int serve_as_worker(const worker_engine_maker& make_engine = {});

}  // namespace sluice::serve
