// SPDX-License-Identifier: Apache-2.0
// `sluice completion SHELL`: a script with which a shell completes commands, options and their values.
#pragma once

#include <string>
#include <vector>

#include "command_list.hpp"

namespace sluice::app {

// "bash", "zsh", "fish"
std::vector<std::string> known_shells();

// Throws error (errc::invalid_argument) for another shell.
std::string completion_script(const command_list& commands, const std::string& shell);

}  // namespace sluice::app
