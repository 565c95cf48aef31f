// SPDX-License-Identifier: Apache-2.0
// `sluice devices`: a report for people (tables) or for scripts (JSON).
#pragma once

#include <iosfwd>

namespace sluice {
class runtime;
}

namespace sluice::app {

void describe_devices(const runtime& machine, bool as_json, std::ostream& out);

}  // namespace sluice::app
