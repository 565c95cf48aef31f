// SPDX-License-Identifier: Apache-2.0
// Makes foreign text (names in files, paths, names of devices) safe for a message and a terminal.
//
// Thread safety: both functions depend only on their arguments.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace sluice {

inline constexpr std::size_t no_limit = static_cast<std::size_t>(-1);  // no text is cut

// Returns the text on one line, with nothing in it that a terminal would act on. UTF-8 characters stay as they are,
// except those that a terminal executes instead of showing: control characters (C0, DEL, C1), separators of lines and
// paragraphs, and those that change the writing direction. These, and bytes that are not UTF-8, become visible: "\x1b",
// "\u009b", "\xff". Text that is already printable does not change. A text longer than `longest` bytes is cut there and
// followed by "...". Costs O(bytes of the result).
std::string printable(std::string_view text, std::size_t longest = no_limit);

// The same in quotes, at most 80 bytes of it: 'net.0.weight'.
std::string in_quotes(std::string_view text);

}  // namespace sluice
