// SPDX-License-Identifier: Apache-2.0
// The token of a request.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace sluice::serve {

inline constexpr std::string_view why_token = "a token is needed (Authorization: Bearer TOKEN)";

// Whether the value of a field Authorization is "Bearer", in upper or lower case, and one of the tokens. The time that
// this takes says nothing about how much of a token was right.
bool has_token(std::string_view authorization, std::span<const std::string> tokens) noexcept;

}  // namespace sluice::serve
