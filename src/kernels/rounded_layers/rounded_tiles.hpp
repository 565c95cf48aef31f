// SPDX-License-Identifier: Apache-2.0
// The loop over tiles: for a unit that multiplies tiles of 16 rows by 64 bytes. A class has its instructions, so that
// the tests can run the loop on any processor:
//
//     class tiles {
//         static constexpr rounded_type type;
//         // For tiles of `height` rows of inputs. `is_single`: there is one such tile, and 5 holds weights.
//         tiles(std::size_t height, bool is_single);
//         template <int To> void load(const void* from, std::size_t stride);  // in bytes from row to row
//         template <int From> void store(void* to, std::size_t stride);
//         template <int To> void clear();
//         template <int To, int Inputs, int Weights> void multiply_add();
//     };
//
// Tiles 0 to 3 hold sums, 4 inputs, 5 inputs or weights, 6 and 7 weights. The weights are read where they are: 16
// groups of a panel are one tile. The inputs have zeros up to a whole tile; of the weights, what follows the last whole
// tile of a panel is copied, with zeros after it.
//
// A row's sums do not depend on the rows and columns that are computed with it: always tiles of 16 groups, from the
// first group to the last.
//
// Included after rounded_loops.hpp. As there, nothing has external linkage.
#pragma once

#include <string.h>

#include <utility>

#include "kernels/rounded_layers/rounded_layers.hpp"

namespace sluice::kernels {
namespace {

constexpr std::size_t tile_height = 16, tile_line = 64, tile_bytes = tile_height * tile_line;

template <int Number>
struct tile_number {
    static constexpr int value = Number;
};
template <typename Function, int... Numbers>
[[gnu::always_inline]] inline void for_numbers(std::integer_sequence<int, Numbers...>, const Function& function) {
    (function(tile_number<Numbers>{}), ...);
}
template <int Count, typename Function>
[[gnu::always_inline]] inline void for_each_below(const Function& function) {
    for_numbers(std::make_integer_sequence<int, Count>{}, function);
}

// `Across` panels and what is no whole tile of their weights.
template <int Across>
struct panel_strip {
    const rounded_part& of;
    const std::size_t first;  // panel
    const std::size_t whole;  // tiles of a panel
    const bool has_rest;
    alignas(tile_line) std::byte rests[Across * tile_bytes];

    panel_strip(const rounded_part& part, std::size_t panel)
        : of(part), first(panel), whole(part.groups / tile_height), has_rest(part.groups % tile_height != 0) {
        if (!has_rest) return;
        const std::size_t rest = of.groups % tile_height * tile_line;
        for (std::size_t a = 0; a < Across; ++a) {
            memcpy(rests + a * tile_bytes, weights(a) + whole * tile_bytes, rest);
            memset(rests + a * tile_bytes + rest, 0, tile_bytes - rest);
        }
    }

    const std::byte* weights(std::size_t across) const { return of.weights + (first + across) * of.groups * tile_line; }
    std::size_t column(std::size_t across) const { return (first + across) * rounded_panel; }
};

// `Down` tiles of inputs, which begin at these rows, times a strip.
template <class Tiles, int Down, int Across>
void multiply_block(Tiles& tiles, const panel_strip<Across>& strip, const std::size_t (&rows)[Down]) {
    static_assert(Down * Across <= 4);
    constexpr int inputs = 4, weights = Across == 4 ? 5 : 6, weight_tiles = Across == 4 ? 3 : Across;
    const rounded_part& of = strip.of;
    for_each_below<Across>([&](auto a) {
        for_each_below<Down>([&](auto d) {
            constexpr int sum = decltype(d)::value * Across + decltype(a)::value;
            if constexpr (Tiles::type == rounded_type::int8) {
                tiles.template clear<sum>();
            } else {
                tiles.template load<sum>(of.biases + strip.column(decltype(a)::value), 0);  // the same in each row
            }
        });
    });
    const auto add = [&](std::size_t k, const auto& weights_of) {
        for_each_below<Down>([&](auto d) {
            constexpr int each = decltype(d)::value;
            tiles.template load<inputs + each>(of.rows + rows[each] * of.row_bytes + k * tile_line, of.row_bytes);
        });
        for_each_below<Across>([&](auto a) {
            constexpr int each = decltype(a)::value, at = weights + each % weight_tiles;
            tiles.template load<at>(weights_of(each), tile_line);
            for_each_below<Down>([&](auto d) {
                constexpr int down = decltype(d)::value;
                tiles.template multiply_add<down * Across + each, inputs + down, at>();
            });
        });
    };
    for (std::size_t k = 0; k < strip.whole; ++k)
        add(k, [&](std::size_t across) { return strip.weights(across) + k * tile_bytes; });
    if (strip.has_rest) add(strip.whole, [&](std::size_t across) { return strip.rests + across * tile_bytes; });
    for_each_below<Across>([&](auto a) {
        for_each_below<Down>([&](auto d) {
            constexpr int across = decltype(a)::value, down = decltype(d)::value;
            tiles.template store<down * Across + across>(of.out + rows[down] * of.out_stride + strip.column(across),
                                                         of.out_stride * sizeof(float));
        });
    });
}

// Tiles of as many rows each, so that they have one configuration. The last may begin within the one before: it writes
// the same numbers again.
struct tile_rows {
    std::size_t count, tiles, height;

    explicit tile_rows(std::size_t rows)
        : count(rows), tiles((rows + tile_height - 1) / tile_height), height((rows + tiles - 1) / tiles) {}
    std::size_t first_of(std::size_t tile) const {
        return tile * height + height <= count ? tile * height : count - height;
    }
};

// All rows times `Across` panels, with what follows the sums while they are in the cache.
template <class Tiles, int Across>
void multiply_strip(Tiles& tiles, const rounded_part& of, const tile_rows& rows, std::size_t panel) {
    const panel_strip<Across> strip(of, panel);
    std::size_t t = 0;
    if constexpr (Across <= 2) {
        for (; t + 2 <= rows.tiles; t += 2) {
            const std::size_t both[]{rows.first_of(t), rows.first_of(t + 1)};
            multiply_block<Tiles, 2, Across>(tiles, strip, both);
        }
    }
    for (; t < rows.tiles; ++t) {
        const std::size_t one[]{rows.first_of(t)};
        multiply_block<Tiles, 1, Across>(tiles, strip, one);
    }
    rounded_part done = of;
    done.panels = Across;
    done.biases += strip.column(0);
    done.out += strip.column(0);
    if constexpr (Tiles::type == rounded_type::int8) {
        done.steps += strip.column(0);
        done.column_sums += strip.column(0);
        finish_integers(done);
    }
    activate_part(done);
}

template <class Tiles>
void multiply_with_tiles(const rounded_part& part) {
    const tile_rows rows(part.count);
    Tiles tiles(rows.height, rows.tiles == 1);
    std::size_t p = 0;
    // A sum must not wait for itself: of few rows more panels at once.
    if (rows.tiles == 1)
        for (; p + 4 <= part.panels; p += 4) multiply_strip<Tiles, 4>(tiles, part, rows, p);
    for (; p + 2 <= part.panels; p += 2) multiply_strip<Tiles, 2>(tiles, part, rows, p);
    for (; p < part.panels; ++p) multiply_strip<Tiles, 1>(tiles, part, rows, p);
}

}  // namespace
}  // namespace sluice::kernels
