// SPDX-License-Identifier: Apache-2.0
// The nearest of the known words for one that is unknown.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace sluice::app {

// How many characters must be inserted, removed, replaced or exchanged with their neighbour to get from one word to
// the other. Each character is exchanged at most once.
std::size_t edit_distance(std::string_view from, std::string_view to);

// The known word that is most probably meant: the one with the smallest distance, or the first that begins with
// `unknown` or `unknown` with it. Empty when no word is near: more than a third of the characters, at least one,
// differ.
std::string nearest(std::string_view unknown, std::span<const std::string> known);

// "a, b, c"
std::string listed(std::span<const std::string> words);

}  // namespace sluice::app
