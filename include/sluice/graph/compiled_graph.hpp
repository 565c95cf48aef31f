// SPDX-License-Identifier: Apache-2.0
// The untyped part of every executable_graph: the recorded commands, the memory they use, the programs that a backend
// instantiated from them, and the binding of each launch's inputs and outputs. Users see executable_graph.
//
// Thread safety: none; the caller holds mutex().
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/base/detail/held_lock.hpp"
#include "sluice/base/detail/lock_scheduler.hpp"
#include "sluice/base/source_location.hpp"
#include "sluice/runtime/execution_context.hpp"
#include "sluice/runtime/graph_program.hpp"

namespace sluice {

// What happens to a launch while all replicas of its graph are still running.
enum class when_busy : unsigned char {
    wait,    // on the device: the launch runs after an earlier one
    refuse,  // errc::graph_refused
};

// How compile makes a graph.
struct graph_options {
    // How many launches can be in flight concurrently, each with memory of its own. Further launches queue after them.
    std::size_t replicas = 1;
    when_busy busy = when_busy::wait;  // when all replicas are in flight
    std::string name = "graph";        // in errors; in traces too, unless named() gives another name
};

namespace detail {

// An input that is memory, not a value.
struct graph_input {
    std::size_t bytes = 0;
    bool is_from_host = false;             // copied to the device at the start of the graph
    std::vector<std::size_t> pieces = {};  // bytes of each, copied in this order; empty: one copy
};

// What one launch passes for an input: device memory, host memory, or bytes that are read during submission.
struct launch_input {
    storage_ref memory = {};
    const void* bytes = nullptr;
};

// One recording of an operation, while it is being made.
class graph_recording {
public:
    // What a recording is for.
    enum class purpose : unsigned char {
        learning,   // addresses are placeholders: nothing that it creates can be kept
        comparing,  // placeholders again, only to find the addresses in an earlier recording
        replaying,  // each launch creates its own outputs
        one_launch  // the outputs belong to one launch and are kept for it
    };

    graph_recording(execution_context& context, std::vector<std::vector<storage_ref>> inputs, purpose what)
        : context_(context), inputs_(std::move(inputs)), purpose_(what) {}

    execution_context& context() noexcept { return context_; }
    // The device memory of an input, one storage per piece.
    std::span<const storage_ref> input(std::size_t index) const noexcept { return inputs_[index]; }
    // Called once the tensors over the inputs own the memory.
    void forget_inputs() noexcept { inputs_.clear(); }
    bool is_learning() const noexcept { return purpose_ == purpose::learning || is_for_comparison(); }
    bool is_for_comparison() const noexcept { return purpose_ == purpose::comparing; }
    bool is_for_one_launch() const noexcept { return purpose_ == purpose::one_launch; }

    // The memory of the next output; null for an output without memory.
    void add_output(storage* memory) { outputs_.emplace_back(memory); }
    const std::vector<storage_ref>& outputs() const noexcept { return outputs_; }
    // An output is valid for one launch only, so each launch must be recorded again.
    void require_recording_each_launch() noexcept { records_each_launch_ = true; }
    bool records_each_launch() const noexcept { return records_each_launch_; }

    // Keeps the function, with its captures, for as long as the recorded commands may run.
    void keep(std::shared_ptr<const void> owner) { owners_.push_back(std::move(owner)); }
    std::vector<std::shared_ptr<const void>>& owners() noexcept { return owners_; }

private:
    execution_context& context_;
    std::vector<std::vector<storage_ref>> inputs_;
    std::vector<storage_ref> outputs_;
    std::vector<std::shared_ptr<const void>> owners_;
    purpose purpose_;
    bool records_each_launch_ = false;
};

// Submits the operation to the recording and registers its outputs.
using graph_function = std::function<void(graph_recording&)>;

// Whether only the host launches a graph, or kernels as well.
enum class graph_use : unsigned char { by_host, by_kernels };

struct address_site;
class graph_instance;
class graph_recorder;

class compiled_graph {
public:
    // With by_kernels the graph has no inputs and no outputs, and one replica.
    compiled_graph(device& on, std::vector<graph_input> inputs, graph_options options, source_location location,
                   graph_use use = graph_use::by_host);
    compiled_graph(const compiled_graph&) = delete;  // launches point to it
    compiled_graph& operator=(const compiled_graph&) = delete;
    ~compiled_graph();

    // Called once, before anything else. Of the memory that exists outside the graph, a graph that kernels launch may
    // write only what launches_use() names, since no thread would wait for other memory: `state`, whose storages share
    // an access_lock; pinned memory that several threads may write; and the memory of the graphs that it launches.
    void compile(const graph_function& record, std::span<storage* const> state = {});

    struct launch_result {
        std::span<const storage_ref> outputs;  // the memory of each, until forget_outputs(); null: no memory
        graph_change change = graph_change::none;
        bool is_recorded = false;  // `record` was called, and its outputs belong to this launch
    };
    // Submits one launch to a stream that carries it out. Calls `record` when the operation has changed since the
    // instance was recorded, when it must be compared with that recording, or when each launch is recorded. Takes over
    // the feeds' memory.
    launch_result submit(execution_context& context, std::span<launch_input> feeds, const graph_function& record);

    void forget_outputs() noexcept { outputs_.clear(); }

    // Whether the stream records another graph. If so, the launch becomes a part of that graph, which then keeps
    // `function`. Throws when the launch is not possible on this stream.
    bool join_recording(stream on, std::shared_ptr<const void> function) const;
    // For such a launch: the device memory of an input, one storage per piece.
    std::vector<storage_ref> take_in(stream on, const graph_input& input, launch_input feed) const;

    // Marks the operation as changed: each replica is recorded again at its next launch.
    void has_changed() noexcept { ++version_; }
    // Records the operation now and updates all replicas.
    graph_change update(const graph_function& record);
    // The same for a graph that kernels launch, whose handle stays valid. Blocks until no launch is in flight. Throws
    // errc::graph_refused where that is not possible, or where the operation uses memory that launches_use() does not
    // name; then nothing has changed.
    graph_change update_in_place(const graph_function& record);

    // Enables or disables the nodes whose operation or command has this name, in all replicas. Throws
    // errc::graph_refused when there is no such node, or when one of them cannot be disabled.
    void set_enabled(std::string_view name, bool enabled);
    // Whether each node of that name is enabled. Throws errc::graph_refused when there is no such node.
    bool is_enabled(std::string_view name) const;
    // Prepares the device for the next launch of each replica: on the stream, or with null at once; see upload() of
    // executable_graph.
    void upload(const stream* on);
    // Why the latest launch or update had to instantiate the graph again; empty when it had not.
    const std::string& why_instantiated() const noexcept { return why_instantiated_; }

    device& owner() const noexcept { return device_; }
    const graph_options& options() const noexcept { return options_; }
    using lock = noted_lock<schedulable_lock<std::mutex>>;
    lock& mutex() const noexcept { return mutex_; }
    // Calls f with the lock held, and returns its result. Where f fails because it may not wait for memory with the
    // lock held, this waits without the lock and calls f once more: f has the same effect when it is repeated.
    template <typename Function>
    auto alone(Function&& f) const {
        for (int calls = 1;; ++calls) {
            try {
                const std::lock_guard held(mutex_);
                return f();
            } catch (...) {
                wait_unlocked(calls);
            }
        }
    }
    const command_graph& commands() const noexcept;
    // Where commands() has the addresses of an input in device memory. Null: that is not known, or the commands write
    // the input.
    const std::vector<address_site>* input_sites(std::size_t input) const noexcept;
    // The handle with which kernels launch it. The same from compile() on.
    const void* launch_handle() const noexcept { return launch_handle_; }
    // Of a graph that kernels launch: the memory that a launch may use, for the command that launches it to name. The
    // same from compile() on.
    std::span<storage* const> launches_use() const noexcept { return launches_use_; }
    // Whether its own kernels launch graphs. The same from compile() on.
    bool launches_others() const noexcept { return launches_others_; }
    // These may be called on any thread, without mutex().

    // Commands on this stream have been submitted with the lock held; see runtime_options::blocks_each_command.
    static void block_if_asked(stream on);
    std::size_t memory_bytes() const noexcept { return memory_bytes_.load(std::memory_order_relaxed); }
    std::size_t node_count() const noexcept { return node_count_.load(std::memory_order_relaxed); }

private:
    friend class graph_instance;

    // In a catch block: waits for what the exception is short of, and throws it again when no wait can help.
    void wait_unlocked(int calls) const;

    struct output_place;
    struct slot;
    struct recorded;
    struct lesson;

    // The description of a launch, without its accesses.
    command_info command() const noexcept;
    recorded record_into(graph_recorder& recorder, const graph_function& record,
                         std::span<const storage_ref> host_inputs, graph_recording::purpose what) const;
    std::vector<storage_ref> upload_input(stream on, const graph_input& input, storage& block) const;
    void require_launchable(const command_graph& learned) const;
    void find_launch_uses(const command_graph& learned, const graph_recorder& recorder,
                          std::span<storage* const> state);
    bool is_used_by_launches(const storage& memory) const noexcept;
    void require_launch_uses(const command_graph& real, graph_recorder& recorder) const;
    void wait_for_captured_memory(const graph_recorder& recorder) const;
    bool find_required_copies(const recorded& learned);
    void lay_out(lesson& learned);
    std::unique_ptr<graph_instance> make_instance(const graph_function& record, lesson& learned) const;
    storage_ref storage_to_record(const graph_instance& in, std::span<const storage_ref> used, std::size_t s) const;
    void record_again(graph_instance& in, std::vector<storage_ref>& used, const graph_function& record);
    void keep(graph_instance& in, graph_recorder& recorder) const;
    void note_memory(graph_instance& in, graph_recorder& recorder, const command_graph& real) const;
    void understand(graph_instance& in, const command_graph& real, lesson& learned) const;
    bool can_patch_addresses(graph_instance& in, const graph_function& record) const;
    graph_instance& pick();
    void require_launch_on(stream on) const;
    void take_memory(graph_instance& in, stream on, std::span<launch_input> feeds);
    command_info name_accesses(graph_instance& in);
    struct launch_end;
    void require_matches_plan(const recorded& again) const;
    void log_instantiation() const noexcept;
    void log_update(graph_change change) const noexcept;
    void note_change(graph_change change, const graph_program& of);
    std::vector<std::size_t> nodes_named(std::string_view name) const;
    std::string other_plan(lesson& learned) const;

    device& device_;
    const std::vector<graph_input> inputs_;
    const graph_options options_;
    const source_location location_;
    const graph_use use_;
    std::uint64_t id_;  // of all recordings of this graph; unique
    mutable lock mutex_{"that of a compiled graph"};
    // What the learning pass found.
    std::vector<bool> copies_in_;   // by input: used where its address cannot be set, so it is copied in first
    std::vector<bool> copies_out_;  // by output: likewise
    std::vector<slot> slots_;
    std::vector<std::size_t> input_slots_;
    std::vector<std::size_t> output_slots_;
    struct layout;
    std::unique_ptr<layout> layout_;
    bool records_each_launch_ = false;  // each launch is recorded: host calls, or outputs for one launch
    // Of a graph that kernels launch.
    std::vector<storage_ref> launch_memory_;  // the state first
    std::vector<storage*> launches_use_;      // the same
    std::size_t state_size_ = 0;
    bool launches_others_ = false;
    const void* launch_handle_ = nullptr;
    std::atomic<std::size_t> memory_bytes_{0};
    std::atomic<std::size_t> node_count_{0};
    std::size_t version_ = 0;
    std::string why_instantiated_;
    std::vector<std::shared_ptr<graph_instance>> instances_;
    std::size_t turn_ = 0;
    // For the launch that is being submitted; members, so that their capacity is reused.
    std::vector<storage_ref> used_;  // by slot
    std::vector<storage_ref> outputs_;
};

}  // namespace detail
}  // namespace sluice
