// SPDX-License-Identifier: Apache-2.0
#include "graph/address_sites.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>
#include <variant>

#include "runtime/graph_difference.hpp"
#include "sluice/runtime/graph_program.hpp"
#include "sluice/runtime/row_copy.hpp"

namespace sluice::detail {
namespace {

std::uintptr_t word_at(std::span<const std::byte> closure, std::size_t at) {
    std::uintptr_t word = 0;
    std::memcpy(&word, closure.data() + at, sizeof(word));
    return word;
}
std::uintptr_t word_of(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }

bool has_same_bytes(const void* a, const void* b, std::size_t bytes) {
    return bytes == 0 || (a != nullptr && b != nullptr && std::memcmp(a, b, bytes) == 0);
}
// Of two copies with the same rows.
bool reads_same_bytes(const copy_command& a, const copy_command& b) {
    for (std::size_t row = 0; row < b.rows.count; ++row) {
        const std::size_t at = row * b.rows.source_pitch;
        if (!has_same_bytes(static_cast<const std::byte*>(a.source) + at, static_cast<const std::byte*>(b.source) + at,
                            b.bytes))
            return false;
    }
    return true;
}
bool is_same(const launch_extent& a, const launch_extent& b) { return a.x == b.x && a.y == b.y && a.z == b.z; }

class comparison {
public:
    comparison(const recording& learned, const recording& real, bool library_calls_run_later)
        : learned_(learned.memory),
          real_(real.memory),
          calls_run_later_(library_calls_run_later),
          sites_(real.memory.size()) {}

    // The nodes of a graph's part have no addresses that can be set.
    bool look_at(const command_graph& learned, const command_graph& real, bool is_part) {
        if (!compare(learned, real).has_same_topology) return false;
        for (std::size_t i = 0; i < real.nodes.size(); ++i) {
            can_be_set_ = !is_part;
            if (!look_at(learned, learned.nodes[i], real, real.nodes[i], i)) return false;
        }
        return true;
    }

    std::vector<std::vector<address_site>>& sites() noexcept { return sites_; }

private:
    bool look_at(const command_graph& learned, const graph_node& a, const command_graph& real, const graph_node& b,
                 std::size_t node) {
        if (a.reads != b.reads || a.writes != b.writes) return false;
        if (const auto* copy = std::get_if<copy_command>(&b.what))
            return look_at_copy(std::get<copy_command>(a.what), *copy, b, node);
        if (const auto* fill = std::get_if<fill_command>(&b.what)) {
            const auto& other = std::get<fill_command>(a.what);
            return fill->value == other.value && fill->bytes == other.bytes &&
                   is_address(word_of(other.destination), word_of(fill->destination), b,
                              {node, graph_program::fill_destination});
        }
        if (const auto* launch = std::get_if<launch_command>(&b.what)) {
            const auto& other = std::get<launch_command>(a.what);
            return runs_same_code(*launch, other) && is_same(launch->grid, other.grid) &&
                   is_same(launch->block, other.block) && launch->shared_bytes == other.shared_bytes &&
                   has_same_group(*launch, other) && launch->early_start == other.early_start &&
                   a.launched == b.launched && look_at_closure(learned.closure(a), real.closure(b), b, node);
        }
        if (const auto* library = std::get_if<library_command>(&b.what)) {
            can_be_set_ = can_be_set_ && calls_run_later_;
            return library->call == std::get<library_command>(a.what).call &&
                   look_at_closure(learned.closure(a), real.closure(b), b, node);
        }
        if (const auto* part = std::get_if<conditional_command>(&b.what)) {
            const auto& other = std::get<conditional_command>(a.what);
            can_be_set_ = false;
            return part->what == other.what && part->mark == other.mark &&
                   is_address(word_of(other.condition), word_of(part->condition), b, {node, 0}) &&
                   look_at(*other.body, *part->body, true);
        }
        return false;  // each recording has a function object of its own
    }

    bool look_at_copy(const copy_command& a, const copy_command& b, const graph_node& of, std::size_t node) {
        if (!has_same_rows(a, b) || a.direction != b.direction) return false;
        if (!is_address(word_of(a.destination), word_of(b.destination), of, {node, graph_program::copy_destination}))
            return false;
        // Each recording owns a copy of what it uploads.
        const bool is_owned =
            b.direction == copy_direction::host_to_device && a.host_owner != nullptr && b.host_owner != nullptr;
        return (is_owned && reads_same_bytes(a, b)) ||
               is_address(word_of(a.source), word_of(b.source), of, {node, graph_program::copy_source});
    }

    bool look_at_closure(std::span<const std::byte> a, std::span<const std::byte> b, const graph_node& of,
                         std::size_t node) {
        if (a.size() != b.size()) return false;
        std::size_t at = 0;
        for (; at + sizeof(void*) <= b.size(); at += sizeof(void*)) {
            if (!is_address(word_at(a, at), word_at(b, at), of, {node, at})) return false;
        }
        return has_same_bytes(a.data() + at, b.data() + at, b.size() - at);
    }

    struct spot {
        std::size_t node, at;
    };
    // Whether the two words are equal, or are the same address.
    bool is_address(std::uintptr_t a, std::uintptr_t b, const graph_node& of, const spot& site) {
        if (a == b) return true;
        const auto is_there = [&](std::uint32_t memory) {
            const std::uintptr_t offset = b - word_of(real_[memory].begin);
            // A pointer one past the end belongs to no other memory: the learning recording has a gap after each place.
            if (offset > real_[memory].bytes || a - word_of(learned_[memory].begin) != offset) return false;
            if (real_[memory].is_slot) sites_[memory].push_back({site.node, site.at, offset});
            return true;
        };
        const auto found = [&](const std::vector<std::uint32_t>& named) {
            const auto memory = std::ranges::find_if(named, is_there);
            return memory != named.end() && (can_be_set_ || !real_[*memory].is_slot);
        };
        return found(of.reads) || found(of.writes);
    }

    const std::span<const recorded_memory> learned_, real_;
    const bool calls_run_later_;
    bool can_be_set_ = true;
    std::vector<std::vector<address_site>> sites_;
};

bool names(const std::vector<std::uint32_t>& list, std::uint32_t memory) {
    return std::ranges::find(list, memory) != list.end();
}

// The addresses of one piece of memory in a graph. A word that is an address of it lies between its first byte and its
// end: find_sites has shown that each word of a command is a number, which is the same wherever memory is, or an
// address in memory that the command names. Two pieces that one command names do not share bytes.
class memory_uses {
public:
    memory_uses(const command_graph& graph, std::uint32_t memory, const void* begin)
        : graph_(graph), memory_(memory), begin_(word_of(begin)), bytes_(graph.memory[memory].bytes) {}

    // Whether all that the node has of it was found.
    bool add(std::size_t node) {
        const graph_node& of = graph_.nodes[node];
        const std::size_t before = found_.size();
        if (const auto* const copy = std::get_if<copy_command>(&of.what)) {
            add(node, graph_program::copy_destination, word_of(copy->destination));
            add(node, graph_program::copy_source, word_of(copy->source));
        } else if (const auto* const fill = std::get_if<fill_command>(&of.what)) {
            add(node, graph_program::fill_destination, word_of(fill->destination));
        } else if (std::holds_alternative<launch_command>(of.what) ||
                   std::holds_alternative<library_command>(of.what)) {
            const std::span<const std::byte> closure = graph_.closure(of);
            for (std::size_t at = 0; at + sizeof(void*) <= closure.size(); at += sizeof(void*))
                add(node, at, word_at(closure, at));
        }
        return found_.size() != before && !is_ambiguous_;
    }
    std::vector<address_site>& found() noexcept { return found_; }

private:
    void add(std::size_t node, std::size_t at, std::uintptr_t word) {
        if (word < begin_ || word - begin_ > bytes_) return;
        // Another piece of memory may begin where this one ends.
        const graph_node& of = graph_.nodes[node];
        const bool names_others = std::ranges::any_of(of.reads, [&](auto each) { return each != memory_; }) ||
                                  std::ranges::any_of(of.writes, [&](auto each) { return each != memory_; });
        if (word - begin_ == bytes_ && names_others) is_ambiguous_ = true;
        found_.push_back({node, at, word - begin_});
    }

    const command_graph& graph_;
    const std::uint32_t memory_;
    const std::uintptr_t begin_;
    const std::size_t bytes_;
    bool is_ambiguous_ = false;
    std::vector<address_site> found_;
};

}  // namespace

std::optional<std::vector<std::vector<address_site>>> find_sites(const recording& learned, const recording& real,
                                                                 bool library_calls_run_later) {
    if (learned.memory.size() != real.memory.size()) return std::nullopt;
    for (std::uint32_t i = 0; i < real.memory.size(); ++i) {
        const recorded_memory &a = learned.memory[i], &b = real.memory[i];
        if (a.bytes != b.bytes) return std::nullopt;
        // At equal addresses, an address could not be distinguished from a number.
        if (b.is_slot && b.bytes != 0 && a.begin == b.begin) return std::nullopt;
        if (a.is_host_data && b.is_host_data && !real.graph.is_written(i) && !has_same_bytes(a.begin, b.begin, b.bytes))
            return std::nullopt;
    }
    comparison of(learned, real, library_calls_run_later);
    if (!of.look_at(learned.graph, real.graph, false)) return std::nullopt;
    return std::move(of.sites());
}

std::vector<address_site> sites_of_copied(const command_graph& graph, std::size_t copy) {
    const graph_node& by = graph.nodes[copy];
    const auto& what = std::get<copy_command>(by.what);
    if (by.reads.size() != 1 || what.rows.count != 1) return {};
    const std::uint32_t memory = by.reads.front();
    const graph_memory& copied = graph.memory[memory];
    if (!copied.is_temporary || copied.bytes != what.bytes) return {};
    memory_uses uses(graph, memory, what.source);
    bool is_written = false;
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
        const graph_node& each = graph.nodes[i];
        const bool reads = names(each.reads, memory), writes = names(each.writes, memory);
        if (names(each.launched, memory) || (reads && !is_written))
            return {};  // what it reads first comes from elsewhere
        is_written = is_written || writes;
        if (i != copy && (reads || writes) && !uses.add(i)) return {};
    }
    return std::move(uses.found());
}

}  // namespace sluice::detail
