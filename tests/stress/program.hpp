// SPDX-License-Identifier: Apache-2.0
// Random programs as descriptions that know no device, and their results computed by plain host code.
//
// Every value is a whole number from 0 to 250 in a float, and intermediate values stay below 2^24. So each result is
// exact in any order of evaluation, and every way to run a program must give the same bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace sluice::stress {

using generator = std::mt19937_64;
inline std::size_t below(generator& numbers, std::size_t limit) { return numbers() % limit; }

using values = std::vector<float>;

enum class step : unsigned char {
    // Leaves.
    owned_input,  // the launch's own tensor, moved in; at most once in a program
    read_input,   // the shared tensor
    host_input,   // the tensor that the host provides
    captured,     // one of the tensors created before
    uploaded,     // a vector of the host, filled from `number` and the argument k
    cleared,
    // Of one operand.
    changed,  // in place, with `number` or with the argument s
    transposed,
    named,
    in_context,  // submitted by hand in a context
    by_pointer,  // read through a pointer that is not a plain view; `number` selects its form
    inner,       // through the inner graph
    on_condition,
    counted,      // a loop of a known number of rounds
    until_small,  // a loop ended by a kernel
    dropped,      // an additional download whose result is dropped
    twice,        // shared and used twice
    chain,        // many changes one after the other, built at run time
    // Of two operands.
    mixed,
    added,
    subtracted,
    product,
    pasted,   // a rectangle of one over a rectangle of the other; `number` selects both
    swapped,  // zipped and unzipped, in exchanged order
};

struct node {
    step what;
    int left = -1, right = -1;  // earlier nodes of the program
    unsigned number = 0;
};

struct program {
    std::vector<node> nodes;  // each is used by one later node or is one of the two results
    std::size_t width = 0;    // tensors are width x width
    int result = 0, downloaded = 0;
    bool has_host_call = false;  // between the second result and its download
    bool selects = false;        // the argument k selects the captured tensor that is downloaded; each has another size
    bool may_be_refused = false;  // as a graph: it uses something that a recording need not support
};

struct program_limits {
    bool control = true, inner = true, pointers = true, host = true, selection = true;
    std::size_t depth = 4;
};

program random_program(std::uint64_t seed, std::size_t width, const program_limits& limits);

// The arguments of one launch of a program.
struct arguments {
    values owned, read, host;
    float s = 0;
    int k = 0;
};
arguments random_arguments(generator& numbers, std::size_t width);
values random_values(generator& numbers, std::size_t count);

// The numbers with which kernels and the host compute.
inline float factor(unsigned number, float s) { return number % 2 == 0 ? s : static_cast<float>(number % 8); }
inline float uploaded_value(unsigned number, int k) {
    return static_cast<float>((number + 7U * static_cast<unsigned>(k)) % 251U);
}
inline float small_limit(unsigned number) { return static_cast<float>(number % 60); }
// The rectangle that `pasted` copies: its size, and where it is in the two operands.
struct rectangle {
    std::size_t rows, columns, to_row, to_column, from_row, from_column;
};
inline rectangle pasted_rectangle(unsigned number, std::size_t width) {
    const std::size_t rows = 1 + number % width, columns = 1 + number / 3 % width;
    const std::size_t down = width - rows, across = width - columns;
    return {rows, columns, number % (down + 1), 0, down, number % 2 == 0 ? across : across / 2};
}
inline std::size_t selected(int k, std::size_t count) { return static_cast<std::size_t>(k) % count; }

struct results {
    values result, downloaded, chosen;
    bool operator==(const results&) const = default;
};

// Computes the results on the host. `captured` are the tensors that a program may use, each width x width; `selection`
// those from which k selects, of different sizes.
results evaluate(const program& what, const arguments& given, const std::vector<values>& captured,
                 const std::vector<values>& selection);
values evaluate_inner(values x, const values& y, std::size_t width, float s);

}  // namespace sluice::stress
