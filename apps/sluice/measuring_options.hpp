// SPDX-License-Identifier: Apache-2.0
// The options of the commands that measure, compare and show networks.
#pragma once

#include <CLI/CLI.hpp>

#include "bench_command.hpp"
#include "compare_command.hpp"
#include "inspect_command.hpp"
#include "profile_command.hpp"

namespace sluice::app {

void add_bench(CLI::App& app, bench_options& options);
void add_profile(CLI::App& app, profile_options& options);
void add_compare(CLI::App& app, compare_options& options);
void add_inspect(CLI::App& app, inspect_options& options);

}  // namespace sluice::app
