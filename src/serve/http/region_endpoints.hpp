// SPDX-License-Identifier: Apache-2.0
// The endpoints of memory that clients share with the server: what they do, and what they answer.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "serve/http/routes.hpp"
#include "sluice/serve/http_front.hpp"

namespace sluice::serve {

// Throws refusal.
nlohmann::json regions_answer(const route& to, const std::string& body, const http_options& options);

}  // namespace sluice::serve
