// SPDX-License-Identifier: Apache-2.0
// Describes an access out of range.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "sluice/base/detail/access.hpp"

namespace sluice::detail {

// "element 12 of a view is out of range: its size is 10 (accessed at file.cu:34)"
std::string text_of_access(accessed what, std::size_t index, std::size_t size, std::string_view file, unsigned line);

}  // namespace sluice::detail
