// SPDX-License-Identifier: Apache-2.0
// Finds the addresses in what was recorded, by comparing two recordings of one operation.
//
// In the learning recording each place has a placeholder address, at which nothing is; in the other one it has the
// address of its memory. Nothing else distinguishes the two. So each byte of a command is equal in both, or belongs to
// a word that is an address: in both recordings it points into the same memory, which the command names, at the same
// offset. Any other difference (an address in pieces, a distance between two places, another kernel) is not understood:
// its value for memory at a third address is unknown.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "sluice/runtime/command_graph.hpp"

namespace sluice::detail {

// The position of one address in a program.
struct address_site {
    std::size_t node;
    std::size_t at;      // as in graph_program::set_address
    std::size_t offset;  // added to the memory's address

    friend bool operator==(const address_site&, const address_site&) = default;
};

// One piece of memory, as a recording saw it.
struct recorded_memory {
    const std::byte* begin = nullptr;
    std::size_t bytes = 0;
    bool is_slot = false;       // rebound at each launch
    bool is_host_data = false;  // host memory that the recording keeps and only reads: part of its contents
};

struct recording {
    const command_graph& graph;
    std::span<const recorded_memory> memory;  // by index
};

// The sites of each slot's addresses, by index of the memory; nullopt when the two recordings differ in anything else.
// `library_calls_run_later`: whether setting an address in their closures has an effect.
std::optional<std::vector<std::vector<address_site>>> find_sites(const recording& learned, const recording& real,
                                                                 bool library_calls_run_later);

// Where the other commands have addresses of the memory that this node, a copy, reads: what computes that memory may
// then write it elsewhere, and the copy is not needed. Only of a graph for which find_sites has found sites, and whose
// library calls run later. Empty: the memory is not the graph's own, is not what the copy reads from its first byte to
// its last one, or a command uses it in a way that setting an address does not change.
std::vector<address_site> sites_of_copied(const command_graph& graph, std::size_t copy);

}  // namespace sluice::detail
