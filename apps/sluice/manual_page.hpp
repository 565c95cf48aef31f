// SPDX-License-Identifier: Apache-2.0
// `sluice manual`: the manual page, for man.
#pragma once

#include <string>

#include "command_list.hpp"

namespace sluice::app {

// In the language of man pages (roff).
std::string manual_page(const command_list& commands, const std::string& version);

}  // namespace sluice::app
