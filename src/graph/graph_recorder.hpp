// graph_recorder: the interpreter of the waist that writes commands down. Edges follow from what the commands say they
// read and write; memory that is allocated while it records becomes places of the graph's.
//
// One operation is recorded several times: first to learn what it allocates and who uses it, each place at an address
// that nothing has; then against a layout that says where each place is. It must do the same each time: what tells the
// recordings apart is the addresses, and parameters of commands.
//
// Thread safety: none; one thread records.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "sluice/runtime/command_graph.hpp"
#include "sluice/runtime/device.hpp"
#include "sluice/runtime/interpreter.hpp"

namespace sluice::detail {

// Where the places of a recording are, in the order of allocation.
struct recording_layout {
    struct place {
        std::size_t bytes = 0;  // as learned, to tell whether this recording is of the same operation
        void* address = nullptr;
        storage_ref memory = {};  // real memory, instead of an address
    };
    std::vector<place> places;
    std::vector<storage_ref>
        host_blocks;  // by number: blocks to take in place of fresh ones; null, or not there: fresh
};

class graph_recorder final : public command_recorder {
public:
    // Memory that commands name which is not the graph's own; kept.
    struct outside_memory {
        storage_ref memory;
        access_mode mode;  // what all commands together do to it
        std::uint32_t index;
    };
    struct place {
        storage_ref memory;
        std::size_t bytes;
        std::uint32_t index;
        std::string_view name;
        source_location where;
        bool is_given = false;  // by the layout: memory that others know too, perhaps of a graph around this one
    };

    // `layout` outlives it; null to learn. `graph_id`: the same for each recording of a graph, and no other's.
    graph_recorder(device& of, const recording_layout* layout, std::uint64_t graph_id);
    ~graph_recorder() override;

    // To submit to.
    stream& recording() noexcept { return queue_.handle(); }

    // The recorder behind a stream; null for a stream that carries its commands out.
    static graph_recorder* behind(const stream& on) noexcept {
        return static_cast<graph_recorder*>(on.queue().recorder());
    }

    // Commands from here to the end are the body of one node, which runs it under a condition.
    void begin_part();
    void end_part(const command_info& info, conditional_command::kind kind, storage& condition, std::uint64_t mark);
    void drop_part() noexcept { levels_.pop_back(); }
    // See conditional_command::mark; the same in each recording of an operation.
    std::uint64_t next_loop_mark() noexcept;

    // What was recorded, when all was. Throws errc::graph_refused when the layout is another operation's.
    command_graph finish();

    // Memory allocated while recording, in order; of the host's, real.
    std::vector<place>& places() noexcept { return places_; }
    std::vector<place>& host_blocks() noexcept { return host_blocks_; }
    const std::vector<outside_memory>& outside() const noexcept { return outside_; }
    // By index, all memory that nodes name.
    const std::vector<storage*>& memory() const noexcept { return storages_; }
    // What must live as long as the graph is used.
    std::vector<std::shared_ptr<const void>>& owners() noexcept { return owners_; }

    // A host block that is there already, as if it had been allocated now.
    storage_ref adopt_host(const storage_ref& block, std::size_t bytes, const command_info& info);

    storage_ref allocate(std::size_t bytes, const command_info& info) override;
    storage_ref allocate_host(std::size_t bytes, const command_info& info) override;
    storage_ref workspace(std::size_t bytes) override;

    void copy(const command_info& info, const copy_command& command) override;
    void fill(const command_info& info, const fill_command& command) override;
    void launch(const command_info& info, const launch_command& command) override;
    std::exception_ptr library_call(const command_info& info, const library_command& command) override;
    void host_call(const command_info& info, host_command command) override;
    void graph(const command_info& info, const graph_command& command) override;
    ticket wait_for(stream_interpreter& other, ticket upto) override;
    std::unique_ptr<timed_mark> mark() override;

    native_stream native() const noexcept override;
    ticket passed() const noexcept override { return 0; }
    void poll() noexcept override {}
    void await(ticket upto, wait_mode mode) override;

private:
    static constexpr std::uint32_t nothing = ~std::uint32_t{0};

    // What nodes have done to a piece of memory so far.
    struct uses {
        std::uint32_t last_write = nothing;
        std::vector<std::uint32_t> readers;  // since
        bool is_read = false;
        bool is_written = false;
    };
    // A graph that is being written: the whole, or a part inside.
    struct level {
        command_graph graph;
        std::vector<uses> used;  // by index of memory
    };

    graph_node& add(const command_info& info, graph_node::command what);
    void use(graph_node& node, std::uint32_t memory, access_mode mode);
    void add_edge(graph_node& node, const graph_edge& edge);
    void start_early(graph_node& node);
    void leave_to_launched_graphs(graph_node& by, std::vector<std::uint32_t> memory);
    std::uint32_t index_of(storage& memory, access_mode mode);
    std::uint32_t know(storage& memory, const graph_memory& as);
    void append(const command_graph& from, std::span<storage* const> memory);
    void use_as_a_whole(std::uint32_t memory, std::uint32_t first_node);

    device& device_;
    const recording_layout* const layout_;
    command_queue queue_;
    std::vector<level> levels_;
    std::vector<graph_memory> memory_;
    std::vector<storage*> storages_;  // as memory_
    std::unordered_map<const storage*, std::uint32_t> indices_;
    std::vector<place> places_;
    std::vector<place> host_blocks_;
    std::vector<outside_memory> outside_;
    std::vector<std::shared_ptr<const void>> owners_;
    std::unordered_map<std::uint32_t, std::string_view> launched_;  // memory of launched graphs: the kernel that did
    std::uintptr_t next_address_;
    std::uint64_t loops_ = 0;
    const std::uint64_t graph_id_;
};

}  // namespace sluice::detail
