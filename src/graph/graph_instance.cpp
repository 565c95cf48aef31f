#include "graph/graph_instance.hpp"

#include <algorithm>
#include <cstring>

namespace sluice::detail {
namespace {

bool names(const graph_node& node, std::uint32_t memory) {
    return std::ranges::find(node.reads, memory) != node.reads.end() ||
           std::ranges::find(node.writes, memory) != node.writes.end();
}

// How far into the memory an address points; none when it does not.
std::optional<std::size_t> offset_in(std::uintptr_t address, const void* begin, std::size_t bytes) {
    const auto first = reinterpret_cast<std::uintptr_t>(begin);
    if (address < first || address - first >= bytes) return std::nullopt;
    return address - first;
}

std::uintptr_t word_at(std::span<const std::byte> closure, std::size_t at) {
    std::uintptr_t word = 0;
    std::memcpy(&word, closure.data() + at, sizeof(word));
    return word;
}

}  // namespace

std::vector<address_site> find_sites(const command_graph& graph, std::uint32_t memory, const void* begin,
                                     std::size_t bytes, const command_graph* other, const void* other_begin) {
    // One past the end may be the begin of what lies behind it; two recordings tell.
    if (other != nullptr) ++bytes;
    std::vector<address_site> found;
    const auto add_if_there = [&](std::size_t node, std::size_t at, std::uintptr_t word, std::uintptr_t other_word) {
        const auto offset = offset_in(word, begin, bytes);
        if (!offset) return;
        if (other != nullptr && offset_in(other_word, other_begin, bytes) != offset) return;
        found.push_back({node, at, *offset});
    };
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
        const graph_node& node = graph.nodes[i];
        if (!names(node, memory)) continue;
        const graph_node& same = other != nullptr ? other->nodes[i] : node;
        if (const auto* copy = std::get_if<copy_command>(&node.what)) {
            const auto& theirs = std::get<copy_command>(same.what);
            add_if_there(i, graph_program::copy_destination, reinterpret_cast<std::uintptr_t>(copy->destination),
                         reinterpret_cast<std::uintptr_t>(theirs.destination));
            add_if_there(i, graph_program::copy_source, reinterpret_cast<std::uintptr_t>(copy->source),
                         reinterpret_cast<std::uintptr_t>(theirs.source));
        } else if (const auto* fill = std::get_if<fill_command>(&node.what)) {
            add_if_there(i, graph_program::fill_destination, reinterpret_cast<std::uintptr_t>(fill->destination),
                         reinterpret_cast<std::uintptr_t>(std::get<fill_command>(same.what).destination));
        } else {
            const auto ours = graph.closure(node);
            const auto theirs = other != nullptr ? other->closure(same) : ours;
            for (std::size_t at = 0; at + sizeof(void*) <= std::min(ours.size(), theirs.size()); at += sizeof(void*))
                add_if_there(i, at, word_at(ours, at), word_at(theirs, at));
        }
    }
    return found;
}

bool graph_instance::bind(std::size_t slot, storage* to) {
    binding& it = bindings[slot];
    it.used = to;
    void* const address = to != nullptr ? to->data() : nullptr;
    if (it.address == address) return true;
    if (!it.are_sites_known) return false;
    it.address = nullptr;  // none, should there be no memory half way
    for (const address_site& site : it.sites)
        program->set_address(site.node, site.at, static_cast<std::byte*>(address) + site.offset);
    it.address = address;
    return true;
}

}  // namespace sluice::detail
