// SPDX-License-Identifier: Apache-2.0
// Random programs whose answer is known by construction: a random graph of commands, spread over streams, with an event
// for each edge between streams. With all edges there is nothing to find; without one edge that no other path replaces,
// there is. Programs of CUDA use it too (C++17).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace sluice::check::testing {

struct random_command {
    std::size_t stream;
    std::size_t written, read;       // buffers
    std::vector<std::size_t> after;  // commands that it must follow
};

struct random_program {
    std::vector<random_command> commands;
    std::size_t streams = 0, buffers = 0;
};

struct random_edge {
    std::size_t from = 0, to = 0;  // commands; the same where there is none
};

// Each command follows those that it conflicts with.
inline random_program make_random_program(std::mt19937_64& random) {
    random_program made;
    made.streams = 2 + random() % 5;
    made.buffers = 2 + random() % 6;
    const std::size_t count = 4 + random() % 30;
    for (std::size_t i = 0; i < count; ++i) {
        random_command next{random() % made.streams, random() % made.buffers, random() % made.buffers, {}};
        for (std::size_t k = 0; k < i; ++k) {
            const random_command& earlier = made.commands[k];
            if (earlier.written == next.written || earlier.written == next.read || earlier.read == next.written)
                next.after.push_back(k);
        }
        made.commands.push_back(next);
    }
    return made;
}

inline bool is_left_out(const random_edge& without, std::size_t from, std::size_t to) {
    return without.from == from && without.to == to;
}

// Whether a path leads from one command to the other, through streams and edges other than the one left out.
inline bool is_ordered_without(const random_program& of, const random_edge& without) {
    std::vector<bool> is_reached(of.commands.size());
    is_reached[without.from] = true;
    for (std::size_t i = without.from + 1; i <= without.to; ++i) {
        const random_command& each = of.commands[i];
        for (std::size_t k = 0; k < i; ++k) {
            const bool is_same_stream = of.commands[k].stream == each.stream;
            const bool is_edge =
                std::count(each.after.begin(), each.after.end(), k) != 0 && !is_left_out(without, k, i);
            if (is_reached[k] && (is_same_stream || is_edge)) is_reached[i] = true;
        }
    }
    return is_reached[without.to];
}

// Some edge between streams that nothing else replaces.
inline random_edge find_needed_edge(const random_program& of, std::mt19937_64& random) {
    std::vector<random_edge> needed;
    for (std::size_t i = 0; i < of.commands.size(); ++i) {
        for (const std::size_t before : of.commands[i].after) {
            const random_edge each{before, i};
            if (!is_ordered_without(of, each)) needed.push_back(each);
        }
    }
    return needed.empty() ? random_edge{} : needed[random() % needed.size()];
}

}  // namespace sluice::check::testing
