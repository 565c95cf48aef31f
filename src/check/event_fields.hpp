// SPDX-License-Identifier: Apache-2.0
// read_fields: the keys of one line of a trace.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "check/event.hpp"

namespace sluice::check {

// Fills the event. Returns what is wrong; empty when nothing is.
std::string read_fields(const nlohmann::json& fields, event& to);

}  // namespace sluice::check
