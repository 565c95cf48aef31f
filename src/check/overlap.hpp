// SPDX-License-Identifier: Apache-2.0
// overlap: whether two spans of bytes have a byte in common.
#pragma once

#include "check/event.hpp"

namespace sluice::check {

// Exact for spans of any rows and pitches, except where both have more than 65,536 rows and their pitches differ: there
// it is true when their ends permit it.
bool overlap(const byte_span& a, const byte_span& b) noexcept;

// Whether each byte of `inner` is one of `outer`; may be false where it is so with rows of another pitch.
bool contains(const byte_span& outer, const byte_span& inner) noexcept;

}  // namespace sluice::check
