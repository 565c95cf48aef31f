// SPDX-License-Identifier: Apache-2.0
#include "base/access.hpp"

#include <limits>

#include "sluice/base/block_cluster.hpp"
#include "sluice/base/error.hpp"

namespace sluice::detail {
namespace {

struct words {
    const char* unit;
    const char* of;
};

words words_of(accessed what) {
    if (what == block_of_cluster) return {"block", "a block_cluster"};
    switch (what) {
        case accessed::view_element: return {"element", "a view"};
        case accessed::matrix_row: return {"row", "a matrix_view"};
        case accessed::matrix_column: return {"column", "a matrix_view"};
        case accessed::tile_row: return {"row", "a tile_view"};
        case accessed::tile_column: return {"column", "a tile_view"};
        case accessed::part_element: return {"element", "a block_part"};
        case accessed::matrix_tile_row: return {"row of tiles", "a tiles_of"};
        case accessed::matrix_tile_column: return {"column of tiles", "a tiles_of"};
        case accessed::tile_number: return {"number", "a thread's share of a tile"};
    }
    return {"element", "memory"};
}

// A negative number has become a large one.
std::string index_text(std::size_t index) {
    constexpr std::size_t largest = std::numeric_limits<std::ptrdiff_t>::max();
    return index <= largest ? std::to_string(index) : std::to_string(static_cast<std::ptrdiff_t>(index));
}

}  // namespace

std::string text_of_access(accessed what, std::size_t index, std::size_t size, std::string_view file, unsigned line) {
    const auto [unit, of] = words_of(what);
    std::string text = std::string(unit) + " " + index_text(index) + " of " + of + " is out of range: its size is " +
                       std::to_string(size) + " (accessed at " + std::string(file);
    if (line != 0) text += ":" + std::to_string(line);
    return text + ")";
}

void throw_out_of_range(accessed what, std::size_t index, std::size_t size, const char* file, unsigned line) {
    throw error(errc::out_of_range, text_of_access(what, index, size, file, line));
}

}  // namespace sluice::detail
