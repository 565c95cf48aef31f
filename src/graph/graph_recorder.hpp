// SPDX-License-Identifier: Apache-2.0
// graph_recorder: a stream_interpreter that records commands instead of running them. Edges follow from the declared
// reads and writes; memory that is allocated while it records becomes places of the graph.
//
// One operation is recorded several times: first to learn what it allocates and which commands use it, with a
// placeholder address for each place; then against a layout with the address of each place. Each recording must
// allocate the same; the recordings differ in addresses (address_sites.hpp) and in parameters of commands.
//
// Thread safety: none; one thread records.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "sluice/runtime/command_graph.hpp"
#include "sluice/runtime/device.hpp"
#include "sluice/runtime/interpreter.hpp"

namespace sluice::detail {

// The addresses of the places of a recording, in the order of allocation.
struct recording_layout {
    struct place {
        std::size_t bytes = 0;  // as learned, to check that this recording is of the same operation
        void* address = nullptr;
        storage_ref memory = {};  // real memory instead of an address
    };
    std::vector<place> places;
    // By number: blocks to use instead of fresh ones; null or missing: a fresh block.
    std::vector<storage_ref> host_blocks = {};
    // By number, as learned; nullopt where recordings may use different blocks.
    std::optional<std::vector<std::size_t>> host_bytes = {};
};

class graph_recorder final : public command_recorder {
public:
    // Memory that commands name but the graph did not allocate; kept alive.
    struct external_memory {
        storage_ref memory;
        access_mode mode;  // write if any command writes it
        std::uint32_t index;
    };
    struct place {
        storage_ref memory;
        std::size_t bytes;
        std::uint32_t index;
        std::string_view name;
        source_location location;
        bool is_given = false;  // by the layout: memory that is referenced outside the recording
    };

    // `layout` must outlive the recorder; null to learn. `graph_id`: the same for each recording of a graph, and unique
    // to it.
    graph_recorder(device& of, const recording_layout* layout, std::uint64_t graph_id);
    ~graph_recorder() override;

    // The stream to submit to.
    stream recording() const noexcept { return recording_; }

    // The recorder of a stream; null for a stream that carries out its commands.
    static graph_recorder* of(stream on) noexcept { return static_cast<graph_recorder*>(on.queue().recorder()); }

    // The commands from here to end_part are the body of one node, which runs it under a condition.
    void begin_part();
    void end_part(const command_info& info, conditional_command::kind kind, storage& condition, std::uint64_t mark);
    void drop_part() noexcept { levels_.pop_back(); }
    // See conditional_command::mark; the same in each recording of an operation.
    std::uint64_t next_loop_mark() noexcept;

    // Fresh host blocks of this recording will have none of these addresses.
    void avoid_addresses(std::vector<const void*> addresses) noexcept { avoided_addresses_ = std::move(addresses); }

    // Ends the recording and returns it. Throws errc::graph_refused when the layout belongs to another operation.
    command_graph finish();

    // Memory allocated while recording, in order; host blocks are real memory.
    std::vector<place>& places() noexcept { return places_; }
    std::vector<place>& host_blocks() noexcept { return host_blocks_; }
    const std::vector<external_memory>& outside() const noexcept { return outside_; }
    // All memory that nodes name, by index.
    const std::vector<storage*>& memory() const noexcept { return storages_; }
    // The place of which this is a part that was made while recording: places are planned whole. Null for other memory:
    // parts from before have histories of their own, after which launches are ordered.
    const place* whole_place_of(const storage& named) const;
    void keep(std::shared_ptr<const void> object) override { owners_.push_back(std::move(object)); }

    // Registers an existing host block as if it had been allocated now.
    storage_ref adopt_host(const storage_ref& block, std::size_t bytes, const command_info& info);

    storage_ref allocate(std::size_t bytes, const command_info& info) override;
    storage_ref allocate_host(std::size_t bytes, const command_info& info) override;
    storage_ref workspace(std::size_t bytes) override;

    std::size_t recorded() const noexcept override { return levels_.back().graph.nodes.size(); }
    void begin_after(std::size_t first) override;
    void end_after() noexcept override { orders_.pop_back(); }
    void order_after_recorded(ticket earlier) override;

    void copy(const command_info& info, const copy_command& command) override;
    void fill(const command_info& info, const fill_command& command) override;
    void launch(const command_info& info, const launch_command& command) override;
    std::exception_ptr library_call(const command_info& info, const library_command& command) override;
    void host_call(const command_info& info, host_command command) override;
    void graph(const command_info& info, const graph_command& command) override;
    ticket order_after(stream_interpreter& other, ticket upto) override;
    std::unique_ptr<timed_mark> mark() override;

    native_stream native() const noexcept override;
    ticket passed() const noexcept override { return 0; }
    void poll() noexcept override {}
    void wait(ticket upto, wait_mode mode) override;

private:
    static constexpr std::uint32_t nothing = ~std::uint32_t{0};

    // How the nodes have used a piece of memory so far.
    struct uses {
        std::uint32_t last_write = nothing;
        std::vector<std::uint32_t> readers;  // since the last write
        bool is_read = false;
        bool is_written = false;
    };
    // Nodes from `end` on come after the nodes `last`.
    struct order {
        std::uint64_t level;
        std::uint32_t end;
        std::vector<std::uint32_t> last;
    };
    // A graph that is being recorded: the whole, or the body of a node.
    struct level {
        command_graph graph;
        std::vector<uses> used;                // by index of memory
        std::vector<bool> is_followed;         // by node: whether a later node comes after it
        std::uint32_t latest_alone = nothing;  // the last node that shares no data
        std::uint32_t latest_host_call = nothing;
        std::uint64_t id = 0;            // unique in the recording
        std::vector<order> orders = {};  // of order_after_recorded: until the level ends
    };
    // The node of a command.
    struct position {
        std::uint64_t level;
        std::uint32_t node;
    };

    graph_node& add(const command_info& info, graph_node::command what);
    void use(graph_node& node, std::uint32_t memory, access_mode mode);
    void add_edge(graph_node& node, const graph_edge& edge);
    bool shares_data(const command_info& info, const graph_node::command& what) const;
    void keep_order(graph_node& node, bool is_alone);
    void keep_explicit_order(graph_node& node);
    void start_early(graph_node& node);
    std::vector<memory_access> with_launched_memory(const command_info& info, const launch_command& command) const;
    void reserve_for_launched_graphs(graph_node& by, std::vector<std::uint32_t> memory);
    std::uint32_t index_of(storage& named, access_mode mode);
    storage_ref fresh_host_block(std::size_t bytes, const command_info& info);
    std::uint32_t know(storage& memory, const graph_memory& as);

    device& device_;
    const recording_layout* const layout_;
    command_queue queue_;
    const stream recording_{queue_};
    std::vector<level> levels_;
    std::vector<order> orders_;        // between begin_after and end_after
    std::vector<position> positions_;  // by ticket, from 1
    std::uint64_t next_level_ = 1;
    std::vector<graph_memory> memory_;
    std::vector<storage*> storages_;  // parallel to memory_
    std::unordered_map<const storage*, std::uint32_t> indices_;
    std::vector<place> places_;
    std::vector<place> host_blocks_;
    std::vector<const void*> avoided_addresses_;
    std::vector<storage_ref>
        rejected_blocks_;  // blocks at avoided addresses; held so that the pool does not return them again
    std::vector<external_memory> outside_;
    std::vector<std::shared_ptr<const void>> owners_;
    std::unordered_map<std::uint32_t, std::string_view>
        launched_;  // by memory of launched graphs: the launching kernel
    const std::size_t first_part_ = storage::latest_part_number();  // the parts made from here on have higher numbers
    std::uintptr_t next_address_;
    std::uint64_t loops_ = 0;
    const std::uint64_t graph_id_;
};

}  // namespace sluice::detail
