// What stands behind every executable_graph, whatever its types: the recorded commands, the memory they use, the
// programs that a backend made of them, and the binding of each launch's inputs and outputs. Users see
// executable_graph.
//
// Thread safety: none; whoever calls holds mutex().
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

#include "sluice/runtime/execution_context.hpp"
#include "sluice/runtime/graph_program.hpp"
#include "sluice/runtime/source_location.hpp"

namespace sluice {

// What happens to a launch while all replicas of its graph are still running.
enum class when_busy : unsigned char {
    wait,    // on the device: it runs behind an earlier one
    refuse,  // errc::graph_refused
};

struct graph_options {
    // How many launches can be in flight side by side, each with memory of its own. Further ones queue behind them.
    std::size_t replicas = 1;
    when_busy busy = when_busy::wait;
    std::string name = "graph";  // in errors; and in traces, where no other name is in force (named)
};

namespace detail {

// An input that is memory.
struct graph_input {
    std::size_t bytes = 0;
    bool is_from_host = false;             // the graph begins by copying it to the device
    std::vector<std::size_t> pieces = {};  // the bytes of each, copied one behind the other; none: all at once
};

// What one launch gives for an input: memory of the device, or of the host; or bytes that are read at once.
struct graph_feed {
    storage_ref memory = {};
    const void* bytes = nullptr;
};

// While an operation is being recorded.
class graph_recording {
public:
    // What a recording is for.
    enum class purpose : unsigned char {
        learning,   // its addresses are nothing's: nothing made by it can be kept
        replaying,  // launches make outputs of their own
        one_launch  // what it makes belongs to one launch, and is to be kept for it
    };

    graph_recording(execution_context& context, std::vector<std::vector<storage_ref>> inputs, purpose what)
        : context_(context), inputs_(std::move(inputs)), purpose_(what) {}

    execution_context& context() noexcept { return context_; }
    // The device memory of an input: of each piece.
    std::span<const storage_ref> input(std::size_t index) const noexcept { return inputs_[index]; }
    // Whoever made tensors of them owns them now.
    void forget_inputs() noexcept { inputs_.clear(); }
    bool is_learning() const noexcept { return purpose_ == purpose::learning; }
    bool is_for_one_launch() const noexcept { return purpose_ == purpose::one_launch; }

    // The memory of the next output; null for one without.
    void add_output(storage* memory) { outputs_.push_back(memory); }
    const std::vector<storage*>& outputs() const noexcept { return outputs_; }
    // An output is good for one launch: each must be recorded anew.
    void must_record_each() noexcept { records_each_ = true; }
    bool records_each() const noexcept { return records_each_; }

private:
    execution_context& context_;
    std::vector<std::vector<storage_ref>> inputs_;
    std::vector<storage*> outputs_;
    purpose purpose_;
    bool records_each_ = false;
};

// Submits the operation, and tells of its outputs.
using graph_function = std::function<void(graph_recording&)>;

// Who launches a graph besides the host.
enum class graph_use : unsigned char { by_host, by_kernels };

class graph_instance;
class graph_recorder;

class compiled_graph {
public:
    // By kernels: without inputs and outputs, and of one replica.
    compiled_graph(device& on, std::vector<graph_input> inputs, graph_options options, source_location where,
                   graph_use use = graph_use::by_host);
    compiled_graph(const compiled_graph&) = delete;  // launches point to it
    compiled_graph& operator=(const compiled_graph&) = delete;
    ~compiled_graph();

    // Once, before anything else. Of memory that others know too, a graph that kernels launch writes `state` only: for
    // the rest nobody would wait.
    void compile(const graph_function& record, std::span<storage* const> state = {});

    struct launch_result {
        std::span<const storage_ref> outputs;  // the memory of each, until forget_outputs(); null for one without
        graph_change change = graph_change::none;
        bool is_recorded = false;  // `record` was called for it, and its outputs are this launch's
    };
    // Submits one launch. `record` is called when the operation has changed since the instance was recorded, or when
    // each launch is recorded anew. Takes the feeds' memory.
    launch_result submit(execution_context& context, std::span<graph_feed> feeds, const graph_function& record);

    void forget_outputs() noexcept { outputs_.clear(); }

    // The operation is another from the next launch of each replica on.
    void has_changed() noexcept { ++version_; }
    // Makes all replicas what is recorded now.
    graph_change update(const graph_function& record);

    // Nodes by the name of their operation or command, in all replicas. Throws errc::graph_refused when there is none,
    // or one that cannot be disabled.
    void set_enabled(std::string_view name, bool enabled);

    device& owner() const noexcept { return device_; }
    const graph_options& options() const noexcept { return options_; }
    std::mutex& mutex() const noexcept { return mutex_; }
    const command_graph& commands() const noexcept;
    // What kernels launch it by.
    const void* launch_handle() const noexcept;
    std::size_t memory_bytes() const noexcept { return memory_bytes_; }
    // On any thread, without mutex().
    std::size_t node_count() const noexcept { return node_count_.load(std::memory_order_relaxed); }

private:
    friend class graph_instance;

    struct output_place;
    struct slot;
    struct recorded;

    // What a launch says of itself, but for its accesses.
    command_info command() const noexcept;
    recorded record_into(graph_recorder& recorder, const graph_function& record,
                         std::span<const storage_ref> host_inputs, graph_recording::purpose what) const;
    std::vector<storage_ref> upload_input(stream& on, const graph_input& input, storage& block) const;
    void require_launchable(const command_graph& learned) const;
    void require_writes_only(std::span<storage* const> state) const;
    void await_what_is_captured() const;
    bool find_what_must_be_copied(const recorded& learned);
    std::unique_ptr<graph_instance> make_instance(const graph_function& record) const;
    storage_ref stand_in(const graph_instance& in, std::span<const storage_ref> used, std::size_t s) const;
    void record_again(graph_instance& in, std::vector<storage_ref>& used, const graph_function& record);
    void keep(graph_instance& in, graph_recorder& recorder) const;
    graph_instance& pick(bool is_recording);
    struct launch_end;
    void require_as_learned(const recorded& again) const;
    bool is_as_learned(const graph_function& record) const;

    device& device_;
    const std::vector<graph_input> inputs_;
    const graph_options options_;
    const source_location where_;
    const graph_use use_;
    std::uint64_t id_;  // of the recordings; no other graph's
    mutable std::mutex mutex_;
    // What learning has told.
    std::vector<bool> copies_in_;   // by input: used where its address cannot be set, so copied to a place first
    std::vector<bool> copies_out_;  // by output: likewise
    std::vector<slot> slots_;
    std::vector<std::size_t> input_slots_;
    std::vector<std::size_t> output_slots_;
    struct layout;
    std::unique_ptr<layout> layout_;
    bool records_each_ = false;  // a recording for each launch: there are host calls, or outputs good for one
    std::size_t memory_bytes_ = 0;
    std::atomic<std::size_t> node_count_{0};
    std::size_t version_ = 0;
    std::vector<std::shared_ptr<graph_instance>> instances_;
    std::size_t turn_ = 0;
    // Of the launch that is being submitted; here so that their room is used again.
    std::vector<storage_ref> used_;  // by slot
    std::vector<storage_ref> outputs_;
};

}  // namespace detail
}  // namespace sluice
