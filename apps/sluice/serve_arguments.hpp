// SPDX-License-Identifier: Apache-2.0
// The arguments of `sluice serve`.
#pragma once

#include "serve_command.hpp"

namespace CLI {
class App;
}

namespace sluice::app {

// Adds them to the command; parsing writes the options.
void add_serve(CLI::App& app, serve_options& options);

}  // namespace sluice::app
