// SPDX-License-Identifier: Apache-2.0
// The endpoints that are answered at once: all but infer, load and unload.
#pragma once

#include <string>
#include <string_view>

#include "serve/http/front_state.hpp"
#include "serve/http/reply.hpp"
#include "serve/http/routes.hpp"

namespace sluice::serve {

// Throws refusal.
reply answer_of(const route& to, const std::string& body, const front_state& state);

// The body of a load or an unload. Throws refusal (bad_request) for parameters: what is loaded is what the repository
// has.
void require_change_body(const std::string& body, bool loads);

std::string_view openapi_text();
std::string_view status_page_text();

}  // namespace sluice::serve
