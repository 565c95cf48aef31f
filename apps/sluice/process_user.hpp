// SPDX-License-Identifier: Apache-2.0
// The user that the process runs as.
#pragma once

#include <string>

namespace sluice::app {

// The process, all of its threads, becomes this user, with the user's groups, and cannot become root again; programs
// that it starts get no rights that it does not have. For a process of root. Throws error: invalid_argument for a name
// that is no user's, for root, and where the process is not root's and not this user's; std::system_error when the
// system refuses a step.
void become_user(const std::string& name);

}  // namespace sluice::app
