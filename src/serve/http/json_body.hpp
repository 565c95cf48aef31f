// SPDX-License-Identifier: Apache-2.0
// The short JSON bodies of requests that are not to models.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace sluice::serve {

// The object of a body, which is {} where it is empty. Throws refusal (bad_request) for a body of more than 64 KiB, one
// that is nested too deep, and one that is no object.
nlohmann::json object_of(const std::string& body);

}  // namespace sluice::serve
