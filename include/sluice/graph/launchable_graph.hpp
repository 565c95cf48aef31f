// SPDX-License-Identifier: Apache-2.0
// launchable: a graph that kernels launch from the device, without the host.
//
//     const auto refit = launchable(device, [](self_launcher self, tensor<float> x, tensor<int> rounds) { ... },
//                                   device_input<float>({1000}), device_input<int>({1}));
//     sync(refit.set(x0, none), pool);
//     const auto tick = compile(device, [=](tensor<float> sample) {
//         return ... launch(watch{0.1f}, range, error, refit, std::move(said)) ...   // refit is a graph_launcher there
//     }, ...);
//     auto [x, rounds] = sync(refit.get(), pool);
//
// The graph works on tensors of its own, its state. The function receives them and returns the same number of tensors
// of the same shapes, as the body of a loop does. If its first parameter is a self_launcher, a kernel of the graph can
// launch the graph again, to run after the current launch: a loop without a condition node.
//
// A launch by a kernel is part of the launch of the graph that contains the kernel, which completes only when all of it
// has completed. So no later command of that graph may touch the state after the launching kernel; the recorder refuses
// it. Commands after the outer launch find the state as the inner launch left it.
//
// Such a graph may contain kernels, copies on the device, fills, uploads of constants, and library calls that consist
// of these. It may load and store a pinned_tensor, which the host writes before the outer launch and reads after it
// (pinned_tensor.hpp). errc::graph_refused: a condition, a loop, a host call, a download, host memory that is not
// pinned, or a write to other captured memory. A kernel that launches graphs must itself be in a graph, and not in a
// condition or loop: errc::graph_refused.
//
// Its kernels may launch other launchable graphs, and its other commands may set and read the state of those before
// the launching kernel. A command that launches the graph names the memory of all of them as written. One kernel cannot
// launch two graphs that use the same memory: errc::graph_refused. graph_launcher.hpp says which launches a device
// refuses. A graph exists before the graphs that launch it, so no two can launch each other; an update that would
// change that is refused.
//
// It costs what compile costs, and memory of the device for each tensor of the state.
//
// What the function captures must not be written any more; compiling blocks until it has been written. Kernel launches
// that other threads submit may run between the copies in, the launch and the copies out of one call from the host; to
// keep these together, launch from one thread or only from graphs. Thread safety: as executable_graph.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>

#include "sluice/graph/control_flow.hpp"
#include "sluice/runtime/graph_launcher.hpp"

namespace sluice {

namespace detail {

struct device_launch {
    static graph_launcher launcher(const void* graph, bool launches_others) { return {graph, launches_others}; }
    static self_launcher self() { return {}; }
};

template <typename Function, typename... Ts>
class launchable_state {
public:
    template <std::size_t I>
    using element = std::tuple_element_t<I, std::tuple<Ts...>>;
    static constexpr bool takes_self = std::is_invocable_v<const Function&, self_launcher, tensor<Ts>...>;

    launchable_state(device& on, graph_options options, Function f, const std::array<shape, sizeof...(Ts)>& shapes,
                     source_location location)
        : function_(std::make_shared<const Function>(std::move(f))),
          shapes_(shapes),
          memory_(allocate(on, location, std::index_sequence_for<Ts...>())),
          core_(on, {}, std::move(options), location, graph_use::by_kernels) {
        for (std::size_t i = 0; i < sizeof...(Ts); ++i) {
            known_[i] = memory_[i].get();
            memory_[i]->share_among_writers(lock_);
        }
        core_.compile(recording_of(function_), known_);
    }

    template <typename Other>
    graph_change update(Other f) {
        auto next = std::make_shared<const Function>(std::move(f));
        return core_.alone([&] {
            const graph_change change = core_.update_in_place(recording_of(next));
            function_.swap(next);
            return change;
        });
    }

    template <std::size_t... Is, typename... Values>
    void set(execution_context& context, std::index_sequence<Is...>, const Values&... values) const {
        {
            const std::lock_guard lock(core_.mutex());
            const std::lock_guard together(*lock_);
            (copy_back(context, *memory_[Is], values.memory(), values.size_bytes()), ...);
        }
        core_.block_if_asked(context.stream());
    }
    template <std::size_t... Is>
    auto get(execution_context& context, std::index_sequence<Is...> which) const {
        auto made = tensors(context, which);  // without the lock: it may wait for memory
        {
            const std::lock_guard lock(core_.mutex());
            copy_state(context, made, which);
        }
        core_.block_if_asked(context.stream());
        return given(std::move(made), which);
    }
    // set, get and launches by other host threads cannot come in between; launches by kernels can.
    auto run(execution_context& context, const std::tuple<tensor<Ts>...>& values) {
        constexpr std::index_sequence_for<Ts...> all;
        auto made = tensors(context, all);  // without the lock: it may wait for memory
        core_.alone([&] {
            set_all(context, values, all);
            static_cast<void>(core_.submit(context, {}, {}));
            copy_state(context, made, all);
        });
        core_.block_if_asked(context.stream());
        return given(std::move(made), all);
    }

    const std::array<shape, sizeof...(Ts)>& shapes() const noexcept { return shapes_; }
    const compiled_graph& core() const noexcept { return core_; }

private:
    template <std::size_t... Is>
    std::array<storage_ref, sizeof...(Ts)> allocate(device& on, source_location location,
                                                    std::index_sequence<Is...>) const {
        return {on.device_pool().allocate(shapes_[Is].size() * sizeof(Ts), nullptr, {"launchable", {}, location})...};
    }

    graph_function recording_of(std::shared_ptr<const Function> function) const {
        return [this, function = std::move(function)](graph_recording& recording) {
            recording.keep(function);
            record(recording.context(), *function, std::index_sequence_for<Ts...>());
        };
    }
    template <std::size_t... Is>
    void record(execution_context& context, const Function& function, std::index_sequence<Is...>) const {
        std::tuple<tensor<Ts>...> given{tensor_over<Ts>(memory_[Is], shapes_[Is])...};
        const loop_state<Ts...> kept(std::get<Is>(given)...);
        if constexpr (takes_self) {
            kept.copy_results_back(context,
                                   function(device_launch::self(), std::move(std::get<Is>(given))...).submit(context),
                                   "launchable");
        } else {
            kept.copy_results_back(context, function(std::move(std::get<Is>(given))...).submit(context), "launchable");
        }
    }

    template <std::size_t... Is>
    void set_all(execution_context& context, const std::tuple<tensor<Ts>...>& values,
                 std::index_sequence<Is...>) const {
        const std::lock_guard together(*lock_);
        (copy_back(context, *memory_[Is], std::get<Is>(values).memory(), std::get<Is>(values).size_bytes()), ...);
    }
    // Tensors for a copy of the state.
    template <std::size_t... Is>
    std::tuple<tensor<element<Is>>...> tensors(execution_context& context, std::index_sequence<Is...>) const {
        // Braces fix the order.
        return {tensor<element<Is>>(context.stream(), shapes_[Is], {"launchable"})...};
    }
    template <typename Tensors, std::size_t... Is>
    void copy_state(execution_context& context, const Tensors& to, std::index_sequence<Is...>) const {
        const std::lock_guard together(*lock_);
        std::apply(
            [&](const auto&... each) {
                (copy_back(context, *each.memory(), memory_[Is].get(), each.size_bytes()), ...);
            },
            to);
    }
    template <typename Tensors, std::size_t... Is>
    static auto given(Tensors made, std::index_sequence<Is...>) {
        if constexpr (sizeof...(Is) == 1) {
            return std::get<0>(std::move(made));
        } else {
            return made;
        }
    }

    std::shared_ptr<const Function> function_;
    const std::array<shape, sizeof...(Ts)> shapes_;
    const std::array<storage_ref, sizeof...(Ts)> memory_;
    // Graphs whose kernels launch this one write the state, too. One lock covers all its tensors, so that no launch
    // comes between the copy of one tensor and the next.
    const std::shared_ptr<access_lock> lock_ = std::make_shared<access_lock>();
    std::array<storage*, sizeof...(Ts)> known_{};
    compiled_graph core_;
};

}  // namespace detail

// A handle: copies refer to the same graph. As an argument of launch() it becomes the kernel's graph_launcher, and that
// launch writes its state.
template <typename Function, typename... Ts>
class launchable_graph {
    using state = detail::launchable_state<Function, Ts...>;
    template <std::size_t I>
    using element = typename state::template element<I>;

public:
    // Called by launchable. Costs O(1).
    explicit launchable_graph(std::shared_ptr<state> made) : state_(std::move(made)) {}

    // Operations that copy the values into the state, or into one tensor of it. Submitting one costs a copy command for
    // each tensor.
    auto set(tensor<Ts>... values) const { return setting(std::index_sequence_for<Ts...>(), std::move(values)...); }
    template <std::size_t I>
    auto set(tensor<element<I>> value) const {
        return setting(std::index_sequence<I>(), std::move(value));
    }
    template <std::size_t I>
    auto set(shared_tensor<element<I>> value) const {
        return setting(std::index_sequence<I>(), std::move(value));
    }
    // Operations that return copies of the state, or of one tensor of it, after all work submitted before. Submitting
    // one costs a new tensor and a copy command for each tensor of the output.
    auto get() const { return getting(std::index_sequence_for<Ts...>()); }
    template <std::size_t I>
    auto get() const {
        return getting(std::index_sequence<I>());
    }
    // An operation that sets the state, launches the graph from the host, and returns the resulting state. Not for use
    // inside another graph. Submitting it costs one launch, and two copy commands and a new tensor for each tensor of
    // the state.
    auto operator()(tensor<Ts>... values) const {
        require_shapes(std::index_sequence_for<Ts...>(), values...);
        return with_context([kept = state_, all = std::tuple<tensor<Ts>...>(std::move(values)...)](
                                execution_context& context) { return kept->run(context, all); });
    }

    // Replaces the operation by another one over the same state, recorded now; graphs that launch this one run it from
    // then on, without a new compilation. Launches that were submitted before run the old operation: the call blocks
    // until they are complete, and launches by other threads wait for its end. Must not be called while the function of
    // this graph is recorded, nor where a thread may not wait (host calls, completion handlers:
    // errc::invalid_argument).
    //
    // The handle that other graphs hold stays valid, so the new graph must have the structure of the old one: the same
    // commands in the same order with the same edges and sizes of temporaries. It may launch only graphs, and use only
    // pinned_tensors, that the graph used when it was created. Otherwise, and where the driver refuses the change:
    // errc::graph_refused with the reason and the node, and the operation is unchanged. A way around: create another
    // launchable graph, and update the graphs that launch this one. Costs two recordings of the operation, what the
    // driver takes for the change, and that wait.
    template <typename Other = Function>
    graph_change update(Other f) const {
        static_assert(
            std::is_convertible_v<Other, Function>,
            "update: the function has another type; launchable(device, std::function<...>(f), ...) takes any");
        return state_->update(std::move(f));
    }

    // Must not be read while another thread updates. Costs O(1).
    const command_graph& commands() const noexcept { return state_->core().commands(); }
    // Of the block of temporaries, in bytes. Costs O(1).
    std::size_t memory_bytes() const noexcept { return state_->core().memory_bytes(); }
    // The device that it was compiled for. Costs O(1).
    device& owner() const noexcept { return state_->core().owner(); }

    // For launch(): the kernel's parameter, and what the command declares about the launched graph. Costs O(1).
    graph_launcher launcher() const noexcept {
        return detail::device_launch::launcher(state_->core().launch_handle(), state_->core().launches_others());
    }
    // What the command declares. Costs O(1).
    launched_graph launched() const noexcept { return {state_, state_->core().launches_use()}; }

private:
    template <typename T>
    static const tensor<T>& plain(const tensor<T>& owned) {
        return owned;
    }
    template <typename T>
    static const tensor<T>& plain(const shared_tensor<T>& shared) {
        return *shared;
    }

    template <std::size_t... Is, typename... Values>
    void require_shapes(std::index_sequence<Is...>, const Values&... values) const {
        (detail::require_input_shape(state_->shapes()[Is], plain(values).shape()), ...);
    }
    template <std::size_t... Is, typename... Values>
    auto setting(std::index_sequence<Is...> which, Values... values) const {
        require_shapes(which, values...);
        return with_context(
            [kept = state_, which, all = std::tuple<Values...>(std::move(values)...)](execution_context& context) {
                std::apply([&](const auto&... each) { kept->set(context, which, plain(each)...); }, all);
            });
    }
    template <std::size_t... Is>
    auto getting(std::index_sequence<Is...> which) const {
        return with_context([kept = state_, which](execution_context& context) { return kept->get(context, which); });
    }

    std::shared_ptr<state> state_;
};

namespace detail {
// What a launch says of a graph that its kernel launches. How much memory that graph uses is not known from its type,
// so the launch names none of it: the recorder does (graph_recorder::with_launched_memory).
struct launched_by_kernel {
    static constexpr std::span<storage* const> memory = {};
    launched_graph graph;

    operator launched_graph() const { return graph; }
};

template <typename Function, typename... Ts>
struct bound_argument<graph_launcher, launchable_graph<Function, Ts...>> {
    static constexpr argument_use use = argument_use::read;  // the launch does not return it
    static constexpr std::size_t launched_memory = 0;
    static graph_launcher bind(const launchable_graph<Function, Ts...>& graph, const error_context&) {
        return graph.launcher();
    }
    static launched_by_kernel launched(const launchable_graph<Function, Ts...>& graph) { return {graph.launched()}; }
};
}  // namespace detail

template <typename Function, typename... Ts>
auto launchable(detail::compile_place at, graph_options options, Function f, device_input<Ts>... inputs) {
    static_assert(sizeof...(Ts) != 0, "launchable: the graph works on at least one tensor");
    constexpr bool fits = std::is_invocable_v<const Function&, self_launcher, tensor<Ts>...> ||
                          std::is_invocable_v<const Function&, tensor<Ts>...>;
    static_assert(fits,
                  "launchable: the function cannot be called with the tensors of the state, with or without a "
                  "self_launcher before them, as a const function");
    if constexpr (fits) {
        using state = detail::launchable_state<Function, Ts...>;
        return launchable_graph<Function, Ts...>(std::make_shared<state>(
            at.on, std::move(options), std::move(f), std::array<shape, sizeof...(Ts)>{inputs.shape()...}, at.location));
    }
}
template <typename Function, typename... Ts>
auto launchable(detail::compile_place at, Function f, device_input<Ts>... inputs) {
    return launchable(at, graph_options{}, std::move(f), std::move(inputs)...);
}

}  // namespace sluice
