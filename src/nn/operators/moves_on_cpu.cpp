// SPDX-License-Identifier: Apache-2.0
#include "nn/operators/moves_on_cpu.hpp"

#include <type_traits>
#include <utility>

namespace sluice::nn::operators {
namespace {

// How the words of a view are moved.
struct move_plan {
    enum class kind : unsigned char { runs, fills, tiles, steps };

    kind what = kind::steps;
    std::size_t column = 0;  // tiles: the dimension whose neighbours are neighbours in x
    std::size_t unit = 1;
};

move_plan plan_of(const strided_view& view) {
    if (view.rank == 0) return {move_plan::kind::runs, 0, 1};
    const std::size_t inner = view.rank - 1;
    move_plan made{move_plan::kind::steps, 0, view.length[inner]};
    if (view.stride[inner] == 1) {
        made.what = move_plan::kind::runs;
    } else if (view.stride[inner] == 0) {
        made.what = move_plan::kind::fills;
    } else {
        std::size_t longest = 1;
        for (std::size_t d = 0; d < inner; ++d) {
            if (view.stride[d] != 1 || view.length[d] <= longest) continue;
            longest = view.length[d];
            made.what = move_plan::kind::tiles;
            made.column = d;
        }
        if (made.what == move_plan::kind::tiles)
            for (std::size_t d = made.column + 1; d < inner; ++d) made.unit *= view.length[d];
    }
    return made;
}

// Words that lie side by side at each place, as one: 0, or by how many times it is larger.
std::size_t widening_of(const strided_view& view, std::size_t word_bytes) {
    if (view.rank < 2 || view.stride[view.rank - 1] != 1) return 0;
    const auto run = view.length[view.rank - 1];
    if ((run != 2 && run != 4 && run != 8) || run * word_bytes > sizeof(std::uint64_t)) return 0;
    bool fits = view.begin % static_cast<std::int64_t>(run) == 0;
    for (std::size_t d = 0; d + 1 < view.rank; ++d) fits = fits && view.stride[d] % static_cast<std::int64_t>(run) == 0;
    return fits ? run : 0;
}

strided_view widened(const strided_view& view, std::size_t by) {
    strided_view made = view;
    --made.rank;
    made.count /= by;
    made.begin /= static_cast<std::int64_t>(by);
    for (std::size_t d = 0; d < made.rank; ++d) made.stride[d] /= static_cast<std::int64_t>(by);
    return made;
}

// Goes through the places of the first dimensions in their order.
class view_walk {
public:
    view_walk(const strided_view& view, std::size_t first_dimension, std::size_t dimensions, std::size_t at)
        : view_(view), first_(first_dimension), end_(first_dimension + dimensions) {
        for (std::size_t d = end_; d-- > first_; at /= view.length[d]) {
            at_[d] = at % view.length[d];
            offset_ += static_cast<std::int64_t>(at_[d]) * view.stride[d];
        }
    }
    std::int64_t offset() const { return offset_; }
    void advance() {
        for (std::size_t d = end_; d-- > first_;) {
            offset_ += view_.stride[d];
            if (++at_[d] < view_.length[d]) return;
            offset_ -= static_cast<std::int64_t>(view_.length[d]) * view_.stride[d];
            at_[d] = 0;
        }
    }

private:
    const strided_view& view_;
    const std::size_t first_, end_;
    std::size_t at_[strided_view::max_rank] = {};
    std::int64_t offset_ = 0;
};

template <typename Word>
void fill_run(Word value, std::size_t count, Word* to) {
    std::fill_n(to, count, value);
}

template <typename Word, std::int64_t Step>
void take_steps(const Word* from, std::size_t count, Word* to) {
    for (std::size_t k = 0; k < count; ++k) to[k] = from[static_cast<std::int64_t>(k) * Step];
}
template <typename Word>
void take_steps(const Word* from, std::int64_t step, std::size_t count, Word* to) {
    switch (step) {
        case -1: return take_steps<Word, -1>(from, count, to);
        case 2: return take_steps<Word, 2>(from, count, to);
        case 3: return take_steps<Word, 3>(from, count, to);
        case 4: return take_steps<Word, 4>(from, count, to);
        default:
            for (std::size_t k = 0; k < count; ++k) to[k] = from[static_cast<std::int64_t>(k) * step];
    }
}

// --- tiles -------------------------------------------------------------------------------------------------------

// As many rows as a row has words: a square in vectors of 16 bytes, which every processor that we know has.
template <typename Word>
struct word_square {
    static constexpr std::size_t bytes = 16, side = bytes / sizeof(Word);
    typedef Word row __attribute__((vector_size(bytes)));

    template <std::size_t... Lane>
    [[gnu::always_inline]] static void interleave(const row& a, const row& b, row& low, row& high,
                                                  std::index_sequence<Lane...>) {
        low = __builtin_shufflevector(a, b, (Lane / 2 + Lane % 2 * side)...);
        high = __builtin_shufflevector(a, b, (side / 2 + Lane / 2 + Lane % 2 * side)...);
    }

    // to[j][i] = from[i][j], for rows that are these words apart.
    static void transpose(const Word* from, std::int64_t from_step, Word* to, std::size_t to_step) {
        row rows[side], next[side];
        for (std::size_t i = 0; i < side; ++i)
            std::memcpy(&rows[i], from + static_cast<std::int64_t>(i) * from_step, bytes);
        for (std::size_t done = 1; done < side; done *= 2) {
            for (std::size_t i = 0; i < side / 2; ++i)
                interleave(rows[i], rows[i + side / 2], next[2 * i], next[2 * i + 1], std::make_index_sequence<side>());
            for (std::size_t i = 0; i < side; ++i) rows[i] = next[i];
        }
        for (std::size_t i = 0; i < side; ++i) std::memcpy(to + i * to_step, &rows[i], bytes);
    }
};

// y[i * y_step + j] = x[i + j * x_step] for i < rows, j < columns.
template <typename Word>
void transpose_tile(const Word* x, std::int64_t x_step, Word* y, std::size_t y_step, std::size_t rows,
                    std::size_t columns) {
    constexpr std::size_t side = word_square<Word>::side;
    const auto at = [&](std::size_t i, std::size_t j) { return x + i + static_cast<std::int64_t>(j) * x_step; };
    const std::size_t whole_rows = rows / side * side, whole_columns = columns / side * side;
    for (std::size_t j = 0; j < whole_columns; j += side)
        for (std::size_t i = 0; i < whole_rows; i += side)
            word_square<Word>::transpose(at(i, j), x_step, y + i * y_step + j, y_step);
    for (std::size_t i = 0; i < whole_rows; ++i)
        for (std::size_t j = whole_columns; j < columns; ++j) y[i * y_step + j] = *at(i, j);
    for (std::size_t i = whole_rows; i < rows; ++i)
        for (std::size_t j = 0; j < columns; ++j) y[i * y_step + j] = *at(i, j);
}

template <typename Word>
void move_tiles(const Word* x, Word* y, const strided_view& view, const move_plan& plan, std::size_t first,
                std::size_t last) {
    constexpr std::size_t rows_of_tile = 64 / sizeof(Word) < 16 ? 16 : 64 / sizeof(Word);
    const std::size_t inner = view.rank - 1, d = plan.column, length = view.length[d], columns = view.length[inner];
    const std::size_t between = plan.unit / columns;
    for (std::size_t row = first / plan.unit; row < last / plan.unit;) {
        const std::size_t within = row % length;
        const std::size_t rows = std::min({rows_of_tile, length - within, last / plan.unit - row});
        const Word* const from = x + view.begin + view_walk(view, 0, d + 1, row).offset();
        view_walk middle(view, d + 1, inner - d - 1, 0);
        for (std::size_t m = 0; m < between; ++m, middle.advance()) {
            transpose_tile(from + middle.offset(), view.stride[inner], y + row * plan.unit + m * columns, plan.unit,
                           rows, columns);
        }
        row += rows;
    }
}

template <typename Word>
void move_rows(const Word* x, Word* y, const strided_view& view, const move_plan& plan, std::size_t first,
               std::size_t last) {
    const std::size_t inner = view.rank - 1, length = view.length[inner];
    view_walk outer(view, 0, inner, first / length);
    for (std::size_t i = first; i < last; i += length, outer.advance()) {
        const Word* const from = x + view.begin + outer.offset();
        switch (plan.what) {
            case move_plan::kind::runs: copy_run(from, length, y + i); break;
            case move_plan::kind::fills: fill_run(*from, length, y + i); break;
            default: take_steps(from, view.stride[inner], length, y + i);
        }
    }
}

// The unsigned integer of this many bytes.
template <std::size_t Bytes>
using word_of =
    std::conditional_t<Bytes == 2, std::uint16_t, std::conditional_t<Bytes == 4, std::uint32_t, std::uint64_t>>;

template <std::size_t By, typename Word>
bool move_widened(const Word* x, Word* y, const strided_view& view, std::size_t by, std::size_t first,
                  std::size_t last) {
    if constexpr (By * sizeof(Word) <= sizeof(std::uint64_t)) {
        using wide = word_of<By * sizeof(Word)>;
        const auto is_aligned = [](const void* at) { return reinterpret_cast<std::uintptr_t>(at) % sizeof(wide) == 0; };
        if (by != By || !is_aligned(x) || !is_aligned(y)) return false;
        move_elements(reinterpret_cast<const wide*>(x), reinterpret_cast<wide*>(y), widened(view, by), first / by,
                      last / by);
        return true;
    } else {
        return false;
    }
}

}  // namespace

std::size_t unit_of_moves(const strided_view& view, std::size_t word_bytes) {
    const std::size_t by = widening_of(view, word_bytes);
    return by != 0 ? by * unit_of_moves(widened(view, by), by * word_bytes) : plan_of(view).unit;
}

template <typename Word>
void move_elements(const Word* x, Word* y, const strided_view& view, std::size_t first, std::size_t last) {
    if (const std::size_t by = widening_of(view, sizeof(Word)); by != 0) {
        if (move_widened<2>(x, y, view, by, first, last) || move_widened<4>(x, y, view, by, first, last) ||
            move_widened<8>(x, y, view, by, first, last))
            return;
    }
    if (view.rank == 0) {
        if (first < last) y[0] = x[view.begin];
        return;
    }
    const move_plan plan = plan_of(view);
    if (plan.what == move_plan::kind::tiles) return move_tiles(x, y, view, plan, first, last);
    move_rows(x, y, view, plan, first, last);
}

template void move_elements(const std::uint8_t*, std::uint8_t*, const strided_view&, std::size_t, std::size_t);
template void move_elements(const std::uint16_t*, std::uint16_t*, const strided_view&, std::size_t, std::size_t);
template void move_elements(const std::uint32_t*, std::uint32_t*, const strided_view&, std::size_t, std::size_t);
template void move_elements(const std::uint64_t*, std::uint64_t*, const strided_view&, std::size_t, std::size_t);

}  // namespace sluice::nn::operators
