// SPDX-License-Identifier: Apache-2.0
// Whether a text is UTF-8, as messages of JSON and of protobuf must be.
#pragma once

#include <string_view>

namespace sluice::serve {

bool is_utf8(std::string_view text) noexcept;

}  // namespace sluice::serve
