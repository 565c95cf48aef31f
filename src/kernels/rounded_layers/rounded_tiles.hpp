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
//         // Of bf16: a panel's columns of one row, as the kernel's round_rows rounds them.
//         static void round(const float* from, std::byte* to);
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

// Which weights a step of 16 groups fetches in advance, where they do not stay in the second cache. With one tile of
// rows: those of the same panels a little later. With more tiles: its share of the next strip's weights, so that memory
// is read at an even rate. What is fetched may lie beyond the weights: such a fetch does nothing.
struct weight_fetch {
    bool of_own_panels = false;
    const std::byte* next = nullptr;  // the first step's share, or null
    std::size_t next_lines = 0;       // of each share
};

// How much later: two tiles of a panel. (Measured on a core that was shared with other machines, 8 MB of weights: 0.75
// of the time without, and 0.83 to 0.93 with larger distances.)
constexpr std::size_t own_distance = 2 * tile_bytes;

// Into the first cache, or the second one only.
template <int Cache>
[[gnu::always_inline]] inline void fetch_lines(const std::byte* from, std::size_t lines) {
    for (std::size_t i = 0; i < lines; ++i) __builtin_prefetch(from + i * tile_line, 0, 4 - Cache);
}

// `Down` tiles of inputs, which begin at these rows, times a strip; the sums of each go to `out`.
template <class Tiles, int Down, int Across>
void multiply_block(Tiles& tiles, const panel_strip<Across>& strip, const std::size_t (&rows)[Down],
                    float* const (&out)[Down], std::size_t out_stride, const weight_fetch& fetch) {
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
    // Each product as soon as its factors are loaded: loads take about as long as products.
    const auto add = [&](std::size_t k, bool of_own_panels, const auto& weights_of) {
        for_each_below<Down>([&](auto d) {
            constexpr int down = decltype(d)::value;
            tiles.template load<inputs + down>(of.rows + rows[down] * of.row_bytes + k * tile_line, of.row_bytes);
            for_each_below<Across>([&](auto a) {
                constexpr int each = decltype(a)::value, at = weights + each % weight_tiles;
                if constexpr (down == 0) {
                    if (of_own_panels) fetch_lines<1>(weights_of(each) + own_distance, tile_height);
                    tiles.template load<at>(weights_of(each), tile_line);
                }
                tiles.template multiply_add<down * Across + each, inputs + down, at>();
            });
        });
    };
    for (std::size_t k = 0; k < strip.whole; ++k) {
        if (fetch.next != nullptr) fetch_lines<2>(fetch.next + k * fetch.next_lines * tile_line, fetch.next_lines);
        add(k, fetch.of_own_panels, [&](std::size_t across) { return strip.weights(across) + k * tile_bytes; });
    }
    if (strip.has_rest) add(strip.whole, false, [&](std::size_t across) { return strip.rests + across * tile_bytes; });
    for_each_below<Across>([&](auto a) {
        for_each_below<Down>([&](auto d) {
            constexpr int across = decltype(a)::value, down = decltype(d)::value;
            tiles.template store<down * Across + across>(out[down] + across * rounded_panel,
                                                         out_stride * sizeof(float));
        });
    });
}

// Tiles of as many rows each, so that they have one configuration. The last may begin within the one before: it writes
// the same numbers again.
struct tile_rows {
    std::size_t count, tiles, height;

    explicit tile_rows(std::size_t rows)
        : count(rows), tiles((rows + tile_height - 1) / tile_height), height((rows + tiles - 1) / tiles) {}
    std::size_t blocks() const { return (tiles + 1) / 2; }  // of two tiles
    std::size_t first_of(std::size_t tile) const {
        return tile * height + height <= count ? tile * height : count - height;
    }
};

// multiply_block for tiles of `height` rows, then the activation. The outputs are rounded to inputs of the next layer.
template <class Tiles, int Down, int Across>
void multiply_and_round_block(Tiles& tiles, const panel_strip<Across>& strip, const std::size_t (&rows)[Down],
                              std::size_t height, const weight_fetch& fetch) {
    constexpr std::size_t width = Across * rounded_panel;
    const rounded_part& of = strip.of;
    alignas(tile_line) float sums[Down * tile_height * width];
    float* out[Down];
    for (std::size_t d = 0; d < Down; ++d) out[d] = sums + d * height * width;
    multiply_block<Tiles, Down, Across>(tiles, strip, rows, out, width, fetch);
    rounded_part done = of;
    done.count = 1;
    done.panels = Down * height * Across;
    done.out = sums;
    activate_part(done);
    const bool is_last = strip.first + Across == of.panels;
    const std::size_t whole_columns = (of.panels + of.panels % 2) * rounded_panel;
    for (std::size_t d = 0; d < Down; ++d) {
        for (std::size_t r = 0; r < height; ++r) {
            std::byte* const to = of.next + (rows[d] + r) * of.next_bytes + strip.column(0) * 2;
            for (std::size_t a = 0; a < Across; ++a)
                Tiles::round(out[d] + r * width + a * rounded_panel, to + a * rounded_panel * 2);
            if (is_last) memset(to + (of.next_columns - strip.column(0)) * 2, 0, (whole_columns - of.next_columns) * 2);
        }
    }
}

// All rows times `Across` panels, with what follows the sums while they are in the cache.
template <class Tiles, int Across>
void multiply_strip(Tiles& tiles, const rounded_part& of, const tile_rows& rows, std::size_t panel) {
    const panel_strip<Across> strip(of, panel);
    const std::size_t next_lines = (Across * tile_height + rows.blocks() - 1) / rows.blocks();
    std::size_t block = 0;
    const auto multiply = [&]<int Down>(const std::size_t(&firsts)[Down]) {
        weight_fetch fetch;
        fetch.of_own_panels = of.weights_are_far && rows.tiles == 1;
        if (of.weights_are_far && rows.tiles > 1) {
            fetch.next = strip.weights(Across) + block * strip.whole * next_lines * tile_line;
            fetch.next_lines = next_lines;
        }
        ++block;
        if constexpr (Tiles::type == rounded_type::bf16) {
            if (of.next != nullptr)
                return multiply_and_round_block<Tiles, Down, Across>(tiles, strip, firsts, rows.height, fetch);
        }
        float* out[Down];
        for (std::size_t d = 0; d < Down; ++d) out[d] = of.out + firsts[d] * of.out_stride + strip.column(0);
        multiply_block<Tiles, Down, Across>(tiles, strip, firsts, out, of.out_stride, fetch);
    };
    std::size_t t = 0;
    if constexpr (Across <= 2)
        for (; t + 2 <= rows.tiles; t += 2) multiply({rows.first_of(t), rows.first_of(t + 1)});
    for (; t < rows.tiles; ++t) multiply({rows.first_of(t)});
    if (of.next != nullptr) return;
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
