// SPDX-License-Identifier: Apache-2.0
// compile: turns an operation into a graph that can be launched many times.
//
//     auto fast = compile(device, [=](tensor<float> x) { return forward(std::move(x), w0, w1); },
//                         host_input<float>({64, 784}));
//     std::vector<float> y = sync(fast(x), pool);          // fast(x) is an operation, as forward(...) is
//
// The function is called on this thread, with placeholder tensors for the inputs, and the operation that it returns is
// submitted to a recorder: two or three times now, and again when an argument changes. It must do the same each time
// and must not keep anything that it creates. The graph keeps what the function captures (weights) until its last
// launch has completed, also after an update and when the graph is dropped. The declared reads and writes of the
// commands become the edges, so independent branches run concurrently. Temporaries share one block of memory.
//
// Two recordings of one operation are compared byte by byte. They may differ in addresses of the memory that a command
// names. If they differ in anything else (an address in pieces, a distance between two tensors, an uploaded table of
// addresses, another kernel), the operation is recorded again for each launch: correct, but slower.
//
// Errors: an operation that needs the host in between (or_else, retry, timeout: is_host_driven) does not compile.
// errc::graph_refused: memory of the graph that outlives it, a wait inside, or an operation whose commands, order or
// memory differ when it is recorded again. errc::unsupported: what the device or its driver cannot have in a graph.
// errc::shape_mismatch, where the launch is created: an input of another shape. None of these leaves anything behind.
//
// Launches of one graph are ordered: each runs after the previous launch of its replica, on whatever stream. With
// several replicas that many launches run concurrently. A launch inside another operation that is being compiled
// becomes part of that graph: the function is called once more, and its temporaries become memory of the outer graph.
//
// A graph with host calls, or with pending results that are valid for one launch only, is recorded again for each
// launch.
//
// Thread safety: launches may be created and submitted on any thread. The graph may be dropped at any moment.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "sluice/graph/compiled_graph.hpp"
#include "sluice/graph/detail/graph_output.hpp"
#include "sluice/graph/detail/same_value.hpp"
#include "sluice/graph/graph_input.hpp"
#include "sluice/op/detail/single_use.hpp"
#include "sluice/op/operation.hpp"
#include "sluice/op/with_context.hpp"
#include "sluice/runtime/scheduling_policy.hpp"

namespace sluice {

template <typename Function, typename... Inputs>
class executable_graph;

namespace detail {

template <typename Function, typename... Inputs>
class graph_state {
public:
    using recorded_operation = std::invoke_result_t<const Function&, typename Inputs::given...>;
    using output = output_of<recorded_operation>;

    graph_state(device& on, graph_options options, Function f, Inputs... inputs, source_location location)
        : inputs_(std::move(inputs)...),
          function_(std::make_shared<const Function>(std::move(f))),
          core_(on, describe(std::index_sequence_for<Inputs...>()), std::move(options), location),
          record_([this](graph_recording& recording) { record(recording); }) {
        core_.compile(record_);
    }

    output submit(execution_context& context, const std::tuple<typename Inputs::launch_value...>& values) {
        output made = core_.alone([&] { return submit_alone(context, values); });
        core_.block_if_asked(context.stream());
        return made;
    }

    template <typename Other>
    graph_change update(Other f) {
        const auto next = std::make_shared<const Function>(std::move(f));
        return core_.alone([&] { return update_alone(next); });
    }

    graph_change last_change() const {
        const std::lock_guard lock(core_.mutex());
        return last_change_;
    }
    compiled_graph& core() noexcept { return core_; }
    const std::tuple<Inputs...>& inputs() const noexcept { return inputs_; }

private:
    // These two with the lock held.
    output submit_alone(execution_context& context, const std::tuple<typename Inputs::launch_value...>& values) {
        if (core_.join_recording(context.stream(), function_))
            return submit_inside(context, values, std::index_sequence_for<Inputs...>());
        std::array<launch_input, sizeof...(Inputs) + 1> feeds;
        const std::size_t count = take(values, feeds.data(), std::index_sequence_for<Inputs...>());
        const auto launched = core_.submit(context, {feeds.data(), count}, record_);
        last_change_ = launched.change;
        struct cleanup {
            graph_state& of;
            ~cleanup() {
                of.recorded_.reset();
                of.core_.forget_outputs();
            }
        } const after{*this};
        if (launched.is_recorded) return std::move(*recorded_);
        std::span<const storage_ref> memory = launched.outputs;
        return made_->make(memory);
    }

    graph_change update_alone(const std::shared_ptr<const Function>& next) {
        std::shared_ptr<const Function> before = std::exchange(function_, next);
        graph_output<output> made_before = *made_;
        try {
            last_change_ = core_.update(record_);
        } catch (...) {
            function_ = std::move(before);
            made_.emplace(std::move(made_before));
            core_.has_changed();  // for replicas that were recorded before it failed
            recorded_.reset();
            throw;
        }
        recorded_.reset();
        return last_change_;
    }

    template <std::size_t... Is>
    std::vector<graph_input> describe(std::index_sequence<Is...>) {
        std::vector<graph_input> all;
        [[maybe_unused]] const auto add = [&](const auto& input) {
            if constexpr (std::remove_cvref_t<decltype(input)>::is_memory) all.push_back(input.describe());
        };
        (add(std::get<Is>(inputs_)), ...);
        return all;
    }

    // The current value of an argument; empty for memory.
    template <typename Input>
    struct kept_value {
        explicit kept_value(const Input&) {}
    };
    template <typename T>
    struct kept_value<argument<T>> {
        explicit kept_value(const argument<T>& input) : now(input.initial()) {}
        T now;
    };

    template <std::size_t... Is>
    std::size_t take(const std::tuple<typename Inputs::launch_value...>& values, launch_input* feeds,
                     std::index_sequence<Is...>) {
        std::size_t count = 0;
        [[maybe_unused]] const auto one = [&](const auto& value, auto& kept) {
            if constexpr (requires { kept.now; }) {
                if (is_same_value(kept.now, value.value())) return;
                core_.has_changed();  // first: copying may throw, and earlier arguments have changed already
                kept.now = value.value();
            } else {
                feeds[count++] = value.feed();
            }
        };
        (one(std::get<Is>(values), std::get<Is>(kept_)), ...);
        return count;
    }

    // Submits the launch as a part of the operation that the context records.
    template <std::size_t... Is>
    output submit_inside(execution_context& context, const std::tuple<typename Inputs::launch_value...>& values,
                         std::index_sequence<Is...>) {
        [[maybe_unused]] const auto give = [&](const auto& input, const auto& value) {
            if constexpr (std::remove_cvref_t<decltype(input)>::is_memory) {
                return input.make(core_.take_in(context.stream(), input.describe(), value.feed()));
            } else {
                return value.value();
            }
        };
        // Braces fix the order.
        std::tuple<typename Inputs::given...> given{give(std::get<Is>(inputs_), std::get<Is>(values))...};
        return std::apply(
            [&](typename Inputs::given&... each) { return (*function_)(std::move(each)...).submit(context); }, given);
    }

    void record(graph_recording& recording) { record(recording, std::index_sequence_for<Inputs...>()); }
    template <std::size_t... Is>
    void record(graph_recording& recording, std::index_sequence<Is...>) {
        [[maybe_unused]] std::size_t next = 0;
        [[maybe_unused]] const auto give = [&](const auto& input, const auto& kept) {
            if constexpr (requires { kept.now; }) {
                static_cast<void>(input);
                return kept.now;
            } else {
                static_cast<void>(kept);
                return input.make(recording.input(next++));
            }
        };
        // Braces fix the order.
        std::tuple<typename Inputs::given...> given{give(std::get<Is>(inputs_), std::get<Is>(kept_))...};
        recording.forget_inputs();
        recording.keep(function_);
        output made = std::apply(
            [&](typename Inputs::given&... each) {
                return (*function_)(std::move(each)...).submit(recording.context());
            },
            given);
        if (recording.is_for_comparison()) {
            graph_output<output> compared = *made_;  // a comparison does not change what launches use
            compared.learn(made, recording);
            return;
        }
        made_->learn(made, recording);
        if (recording.is_for_one_launch()) recorded_.emplace(std::move(made));
    }

    const std::tuple<Inputs...> inputs_;
    std::tuple<kept_value<Inputs>...> kept_{std::apply(
        [](const Inputs&... each) { return std::tuple<kept_value<Inputs>...>{kept_value<Inputs>(each)...}; }, inputs_)};
    std::shared_ptr<const Function> function_;                 // recordings keep it too
    std::optional<graph_output<output>> made_{std::in_place};  // always there
    std::optional<output> recorded_;
    graph_change last_change_ = graph_change::none;
    compiled_graph core_;
    const graph_function record_;
};

}  // namespace detail

// One launch. Its output is that of the recorded operation.
template <typename State, typename... Inputs>
class graph_launch : public operation_base<graph_launch<State, Inputs...>> {
public:
    using output = typename State::output;

    // Called by the graph's call operator. Costs moves of its arguments.
    graph_launch(std::shared_ptr<State> graph, typename Inputs::launch_value... values)
        : graph_(std::move(graph)), values_(std::move(values)...) {}

    output submit(execution_context& context) && {
        if (graph_ == nullptr) detail::refuse_used_operation("graph");
        const auto graph = std::move(graph_);
        return graph->submit(context, values_);
    }
    // Decides whether zip gives the launch a branch of its own.
    work_estimate estimate() const {
        if (graph_ == nullptr) detail::refuse_used_operation("graph");
        return {.commands = graph_->core().node_count()};
    }

private:
    std::shared_ptr<State> graph_;
    std::tuple<typename Inputs::launch_value...> values_;
};

// A handle: copies are the same graph.
template <typename Function, typename... Inputs>
class executable_graph {
    using state = detail::graph_state<Function, Inputs...>;

public:
    using output = typename state::output;  // of a launch

    // Called by compile. Costs O(1).
    explicit executable_graph(std::shared_ptr<state> made) : state_(std::move(made)) {}

    // An operation that launches the graph with the given value for each input. Takes time linear in the number of
    // inputs. Submitting it costs one command, and time linear in the number of tensors that the graph uses and does
    // not allocate itself; where addresses or arguments have changed, it also costs a change of each command that has
    // them.
    template <typename... Values>
    auto operator()(Values&&... values) const {
        static_assert(sizeof...(Values) == sizeof...(Inputs), "a launch takes one value for each input of the graph");
        return launch(std::index_sequence_for<Inputs...>(), std::forward<Values>(values)...);
    }

    // Replaces the operation by another with the same inputs and outputs, recorded now. If the new graph has the same
    // structure, only parameters are set; otherwise the driver updates the graph, or it is instantiated again. Launches
    // that were submitted before run the old operation. If update throws, the operation is unchanged. It costs
    // recordings of the operation, and what the driver takes for the change.
    template <typename Other = Function>
    graph_change update(Other f) const {
        static_assert(std::is_convertible_v<Other, Function>,
                      "update: the function has another type; compile(device, std::function<...>(f), ...) takes any");
        return state_->update(std::move(f));
    }
    // What the latest launch or update had to change. Costs O(1), under the graph's lock.
    graph_change last_change() const { return state_->last_change(); }
    // If that was graph_change::instantiated: why the graph could not be updated, with the name of the node: "node 2,
    // 'layer 3' (gemm), is new", or the driver's result. Otherwise empty. Costs a copy of the text, under the graph's
    // lock.
    std::string why_instantiated() const {
        const std::lock_guard lock(state_->core().mutex());
        return state_->core().why_instantiated();
    }

    // Disables nodes, by the name of their operation (named) or of their command. A disabled node does nothing, and
    // later nodes find the memory unchanged. Applies to launches from now on, but not to launches inside other graphs,
    // and not after an update that instantiates again. Throws errc::graph_refused when no node has that name, or when
    // one of them is not a copy, fill or kernel. Costs O(nodes), and a change of each such node in each replica.
    void disable(std::string_view name) const { set_enabled(name, false); }
    void enable(std::string_view name) const { set_enabled(name, true); }  // undoes disable; costs what disable costs
    // Whether each node of that name does something at the next launch. Throws errc::graph_refused when no node has it.
    // Costs O(nodes).
    bool is_enabled(std::string_view name) const {
        const std::lock_guard lock(state_->core().mutex());
        return state_->core().is_enabled(name);
    }

    // Uploads all replicas to the GPU, which the first launch of each would do otherwise, so that the first launch is
    // as fast as the others; likewise after an update that instantiated the graph again. Without a stream it blocks
    // until they are uploaded; with one it is in that stream's order, and does not block. What is uploaded already is
    // not uploaded again. On a CPU there is nothing to upload, so it does nothing. Throws what a launch on the stream
    // would throw; errc::graph_refused on a stream that records. Costs at most one upload for each replica.
    void upload() const { upload_on(nullptr); }
    void upload(stream on) const { upload_on(&on); }

    // The size of one replica's block of temporaries, in bytes; outputs are not in it. Costs O(1).
    std::size_t memory_bytes() const noexcept { return state_->core().memory_bytes(); }
    // The commands with their edges, of the first replica. Must not be read while another thread launches. Costs O(1).
    const command_graph& commands() const noexcept { return state_->core().commands(); }
    // The device that it was compiled for. Costs O(1).
    device& owner() const noexcept { return state_->core().owner(); }

private:
    template <std::size_t... Is, typename... Values>
    auto launch(std::index_sequence<Is...>, Values&&... values) const {
        return graph_launch<state, Inputs...>(
            state_, typename Inputs::launch_value(std::get<Is>(state_->inputs()), std::forward<Values>(values))...);
    }
    void upload_on(const stream* on) const {
        const std::lock_guard lock(state_->core().mutex());
        state_->core().upload(on);
    }
    void set_enabled(std::string_view name, bool enabled) const {
        const std::lock_guard lock(state_->core().mutex());
        state_->core().set_enabled(name, enabled);
    }

    std::shared_ptr<state> state_;
};

namespace detail {
template <typename Function, typename... Inputs>
auto compile_graph(device& on, graph_options options, Function f, source_location location, Inputs... inputs) {
    constexpr bool fits = std::is_invocable_v<const Function&, typename Inputs::given...>;
    static_assert(fits, "compile: the function cannot be called with the values of the inputs, as a const function");
    if constexpr (fits) {
        using result = std::invoke_result_t<const Function&, typename Inputs::given...>;
        static_assert(operation<result>, "compile: the function must return an operation");
        if constexpr (operation<result>) {
            static_assert(!is_host_driven<result>,
                          "compile: or_else, retry, timeout and stop_when need the host in between, so the operation "
                          "cannot be a graph");
            using state = graph_state<Function, Inputs...>;
            return executable_graph<Function, Inputs...>(
                std::make_shared<state>(on, std::move(options), std::move(f), std::move(inputs)..., location));
        }
    }
}

// A device, and the source line that compiles for it.
struct compile_place {
    compile_place(device& of, source_location line = source_location::current()) : on(of), location(line) {}
    compile_place(scheduling_policy& policy, source_location line = source_location::current())
        : on(policy.next().owner()), location(line) {}
    device& on;
    source_location location;
};
}  // namespace detail

// Compiles for a device, or for the device of a policy's next stream. It costs two or three recordings of the
// operation, the plan of its temporary memory, and the driver's instantiation of the graph.
template <typename Function, typename... Inputs>
requires(detail::is_graph_input<Inputs> && ...)
auto compile(detail::compile_place at, Function f, Inputs... inputs) {
    return detail::compile_graph(at.on, graph_options{}, std::move(f), at.location, std::move(inputs)...);
}
template <typename Function, typename... Inputs>
requires(detail::is_graph_input<Inputs> && ...)
auto compile(detail::compile_place at, graph_options options, Function f, Inputs... inputs) {
    return detail::compile_graph(at.on, std::move(options), std::move(f), at.location, std::move(inputs)...);
}

// Records a graph command by command: `f` submits commands to the stream that it receives, in any order; their declared
// reads and writes become the edges. It may be called several times. The memory that the commands use must exist
// before; the graph keeps it. A launch, graph(), has no output.
//
//     const auto step = record(device, [&](stream on) { scale_on(on, x); add_on(on, x, y); });
//     sync(step(), pool);
// Costs what compile costs.
template <typename Function>
auto record(detail::compile_place at, Function f, graph_options options = {}) {
    static_assert(std::is_invocable_v<const Function&, stream>, "record: the function takes a stream");
    return detail::compile_graph(
        at.on, std::move(options),
        [f = std::move(f)] { return with_context([&f](execution_context& context) { f(context.stream()); }); },
        at.location);
}

}  // namespace sluice
