// compile: an operation as a graph, to be launched again and again.
//
//     auto fast = compile(device, [=](tensor<float> x) { return forward(std::move(x), w0, w1); },
//                         host_input<float>({64, 784}));
//     std::vector<float> y = sync(fast(x), pool);          // fast(x) is an operation, like forward's
//
// The function is called, on this thread, with tensors that stand for the inputs, and the operation that it returns is
// submitted to a recorder: twice or three times now, and again when an argument changes. It must do the same each
// time, and may keep nothing of what it makes; what it captures (weights) the graph keeps. What the commands say they
// read and write becomes the edges, so independent arms run side by side. Temporaries share one block of memory.
//
// Errors: an operation that needs the host in between (or_else, retry, timeout: is_staged) does not compile. Memory of
// the graph that outlives it, a wait inside, an operation that differs when recorded again: errc::graph_refused. What
// the device or its driver cannot have in a graph: errc::unsupported. An input of another shape: errc::shape_mismatch,
// where the launch is made. Nothing is left behind by any of these.
//
// Launches of one graph are ordered, each behind the one before on its replica, on whatever stream; with several
// replicas that many run side by side. A launch inside another operation that is being compiled becomes part of it.
//
// A graph with host calls, or with results that are made by one, is recorded anew for each launch.
//
// Thread safety: launches may be made and submitted on any threads. The graph may be dropped at any moment.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

#include "sluice/graph/compiled_graph.hpp"
#include "sluice/graph/graph_input.hpp"
#include "sluice/graph/graph_output.hpp"
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

    graph_state(device& on, graph_options options, Function f, Inputs... inputs, source_location where)
        : inputs_(std::move(inputs)...),
          function_(std::move(f)),
          core_(on, describe(std::index_sequence_for<Inputs...>()), std::move(options), where),
          record_([this](graph_recording& recording) { record(recording); }) {
        core_.compile(record_);
    }

    output submit(execution_context& context, const std::tuple<typename Inputs::launch_value...>& values) {
        const std::lock_guard lock(core_.mutex());
        bool has_changed = false;
        std::array<graph_feed, sizeof...(Inputs) + 1> feeds;
        const std::size_t count = take(values, feeds.data(), has_changed, std::index_sequence_for<Inputs...>());
        if (has_changed) core_.has_changed();
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

    template <typename Other>
    graph_change update(Other f) {
        const std::lock_guard lock(core_.mutex());
        // By emplacing: closures cannot be assigned.
        Function before = std::move(*function_);
        graph_output<output> made_before = *made_;
        function_.emplace(std::move(f));
        try {
            last_change_ = core_.update(record_);
        } catch (...) {
            function_.emplace(std::move(before));
            made_.emplace(std::move(made_before));
            core_.has_changed();  // for replicas that were recorded before it failed
            recorded_.reset();
            throw;
        }
        recorded_.reset();
        return last_change_;
    }

    graph_change last_change() const {
        const std::lock_guard lock(core_.mutex());
        return last_change_;
    }
    compiled_graph& core() noexcept { return core_; }
    const std::tuple<Inputs...>& inputs() const noexcept { return inputs_; }

private:
    template <std::size_t... Is>
    std::vector<graph_input> describe(std::index_sequence<Is...>) {
        std::vector<graph_input> all;
        [[maybe_unused]] const auto add = [&](const auto& input) {
            if constexpr (std::remove_cvref_t<decltype(input)>::is_memory) all.push_back(input.describe());
        };
        (add(std::get<Is>(inputs_)), ...);
        return all;
    }

    // An argument's value as it is now; nothing for memory.
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
    std::size_t take(const std::tuple<typename Inputs::launch_value...>& values, graph_feed* feeds, bool& has_changed,
                     std::index_sequence<Is...>) {
        std::size_t count = 0;
        [[maybe_unused]] const auto one = [&](const auto& value, auto& kept) {
            if constexpr (requires { kept.now; }) {
                if (kept.now == value.value()) return;
                kept.now = value.value();
                has_changed = true;
            } else {
                feeds[count++] = value.feed();
            }
        };
        (one(std::get<Is>(values), std::get<Is>(kept_)), ...);
        return count;
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
        output made = std::apply(
            [&](typename Inputs::given&... each) {
                return std::as_const(*function_)(std::move(each)...).submit(recording.context());
            },
            given);
        made_->learn(made, recording);
        if (recording.is_for_one_launch()) recorded_.emplace(std::move(made));
    }

    const std::tuple<Inputs...> inputs_;
    std::tuple<kept_value<Inputs>...> kept_{std::apply(
        [](const Inputs&... each) { return std::tuple<kept_value<Inputs>...>{kept_value<Inputs>(each)...}; }, inputs_)};
    std::optional<Function> function_;                         // always there
    std::optional<graph_output<output>> made_{std::in_place};  // likewise
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

    graph_launch(std::shared_ptr<State> graph, typename Inputs::launch_value... values)
        : graph_(std::move(graph)), values_(std::move(values)...) {}

    output submit(execution_context& context) && {
        const auto graph = std::move(graph_);
        return graph->submit(context, values_);
    }
    // As much as a branch is worth.
    work_estimate estimate() const { return {.commands = graph_->core().node_count()}; }

private:
    std::shared_ptr<State> graph_;
    std::tuple<typename Inputs::launch_value...> values_;
};

// A handle: copies are the same graph.
template <typename Function, typename... Inputs>
class executable_graph {
    using state = detail::graph_state<Function, Inputs...>;

public:
    using output = typename state::output;

    explicit executable_graph(std::shared_ptr<state> made) : state_(std::move(made)) {}

    // The operation of launching it, with a value for each input.
    template <typename... Values>
    auto operator()(Values&&... values) const {
        static_assert(sizeof...(Values) == sizeof...(Inputs), "a launch gives one value for each input of the graph");
        return launch(std::index_sequence_for<Inputs...>(), std::forward<Values>(values)...);
    }

    // Another operation of the same inputs and outputs in its place, recorded now. When the graph it makes has the same
    // shape, parameters are set; else the driver updates the graph, or it is instantiated anew. Launches submitted
    // before run what was there. When it throws, the operation is as it was.
    template <typename Other = Function>
    graph_change update(Other f) const {
        static_assert(std::is_convertible_v<Other, Function>,
                      "update: the function has another type; compile(device, std::function<...>(f), ...) takes any");
        return state_->update(std::move(f));
    }
    // What the latest launch or update had to change.
    graph_change last_change() const { return state_->last_change(); }

    // Nodes, by the name of their operation (named) or of their command: disabled, they do nothing, and what comes
    // after them finds the memory as it is. Concerns launches from now on, but none inside
    // other graphs, and none after an update that instantiates anew. Throws errc::graph_refused when there is
    // none of that name, or one that is no copy, fill or kernel.
    void disable(std::string_view name) const { set_enabled(name, false); }
    void enable(std::string_view name) const { set_enabled(name, true); }

    // The block of temporaries of one replica, in bytes; outputs are not in it.
    std::size_t memory_bytes() const noexcept { return state_->core().memory_bytes(); }
    // The commands with their edges, of the first replica. Not to be looked at while another thread launches.
    const command_graph& commands() const noexcept { return state_->core().commands(); }
    device& owner() const noexcept { return state_->core().owner(); }

private:
    template <std::size_t... Is, typename... Values>
    auto launch(std::index_sequence<Is...>, Values&&... values) const {
        return graph_launch<state, Inputs...>(
            state_, typename Inputs::launch_value(std::get<Is>(state_->inputs()), std::forward<Values>(values))...);
    }
    void set_enabled(std::string_view name, bool enabled) const {
        const std::lock_guard lock(state_->core().mutex());
        state_->core().set_enabled(name, enabled);
    }

    std::shared_ptr<state> state_;
};

namespace detail {
template <typename Function, typename... Inputs>
auto compile_graph(device& on, graph_options options, Function f, source_location where, Inputs... inputs) {
    constexpr bool fits = std::is_invocable_v<const Function&, typename Inputs::given...>;
    static_assert(fits, "compile: the function cannot be called with what the inputs give, as a const function");
    if constexpr (fits) {
        using result = std::invoke_result_t<const Function&, typename Inputs::given...>;
        static_assert(operation<result>, "compile: the function must return an operation");
        if constexpr (operation<result>) {
            static_assert(!is_staged<result>,
                          "compile: an operation that recovers, tries again or gives up needs the host in between and "
                          "cannot be a graph");
            using state = graph_state<Function, Inputs...>;
            return executable_graph<Function, Inputs...>(
                std::make_shared<state>(on, std::move(options), std::move(f), std::move(inputs)..., where));
        }
    }
}

// A device, and the line that compiles for it.
struct compile_place {
    compile_place(device& of, source_location line = source_location::current()) : on(of), where(line) {}
    compile_place(scheduling_policy& policy, source_location line = source_location::current())
        : on(policy.next().owner()), where(line) {}
    device& on;
    source_location where;
};
}  // namespace detail

// For a device, or for that of a policy's next stream.
template <typename Function, typename... Inputs>
requires(detail::is_graph_input<Inputs> && ...)
auto compile(detail::compile_place at, Function f, Inputs... inputs) {
    return detail::compile_graph(at.on, graph_options{}, std::move(f), at.where, std::move(inputs)...);
}
template <typename Function, typename... Inputs>
requires(detail::is_graph_input<Inputs> && ...)
auto compile(detail::compile_place at, graph_options options, Function f, Inputs... inputs) {
    return detail::compile_graph(at.on, std::move(options), std::move(f), at.where, std::move(inputs)...);
}

// A graph written down command by command: `f` submits to the stream that it is given, in any order; what the commands
// say they read and write makes the edges. It may be called several times. What they use must be there before: the
// graph keeps it. A launch, graph(), has no output.
//
//     const auto step = record(device, [&](stream& on) { scale_on(on, x); add_on(on, x, y); });
//     sync(step(), pool);
template <typename Function>
auto record(detail::compile_place at, Function f, graph_options options = {}) {
    static_assert(std::is_invocable_v<const Function&, stream&>, "record: the function takes a stream&");
    return detail::compile_graph(
        at.on, std::move(options),
        [f = std::move(f)] { return with_context([&f](execution_context& context) { f(context.stream()); }); },
        at.where);
}

}  // namespace sluice
