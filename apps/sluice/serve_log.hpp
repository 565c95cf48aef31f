// SPDX-License-Identifier: Apache-2.0
// The log of `sluice serve`: one line an event, as text or as JSON.
#pragma once

#include <iosfwd>

#include "sluice/serve/log.hpp"

namespace sluice::app {

// Writes lines to `log`, which must outlive it. May be called on any thread; lines stay whole. When `log` cannot be
// written to, because a disk is full, lines are lost; the first one that is written again says how many.
serve::log_sink lines_to(std::ostream& log, bool as_json);

}  // namespace sluice::app
