// SPDX-License-Identifier: Apache-2.0
// Numbers as text: what a cell of a table may hold.
#pragma once

#include <cstddef>
#include <string_view>

#include "sluice/io/dtype.hpp"

namespace sluice::io {

enum class number_text {
    read,
    no_number,
    not_whole,     // the type is one of integers, and it has a fraction or an exponent
    out_of_range,  // of the type
};

// Writes one element of the type to `to`, unless it is refused. Decimal floats are rounded to the nearest one, and
// those that are too small become zero.
number_text parse_number(std::string_view text, dtype type, std::byte* to);

}  // namespace sluice::io
