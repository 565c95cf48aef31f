// SPDX-License-Identifier: Apache-2.0
// if_, repeat_while, do_while: conditions and loops that the device evaluates, without the host.
//
//     repeat_while(condition, body, x, y ...)   while condition(x, y ...) is not 0: x, y ... = body(x, y ...)
//     do_while(body, x, y ...)                  x, y ... = body(again, x, y ...), repeated while a kernel sets `again`
//     if_(flag, body, x, y ...)                 if flag is not 0: x, y ... = body(x, y ...)
//
// x, y ... are tensors, and are returned as the output. `body` receives them as they are and returns an operation with
// the same number of outputs, of the same shapes; an output in other memory is copied back. `condition` receives shared
// tensors to read and returns an operation whose output is a tensor<int> of one element; `flag` is such a tensor. The
// functions are called once, when the operation is submitted, no matter how many rounds the device runs.
//
// In a compiled graph they are conditional nodes. Outside one, they are compiled when they are submitted, which costs
// about 100 us in a GPU's driver. The meaning is the same in both cases, and on a CPU. do_while saves one kernel in
// each round.
//
// Errors: outputs whose shapes differ from the inputs', or a condition that is not one number: errc::shape_mismatch.
// Host calls inside: errc::graph_refused. A driver without conditional nodes (before CUDA 12.4): errc::unsupported or a
// device_error.
#pragma once

#include <functional>
#include <tuple>
#include <utility>

#include "sluice/graph/executable_graph.hpp"
#include "sluice/graph/loop_condition.hpp"
#include "sluice/op/zip.hpp"

namespace sluice {

namespace detail {

// A part of a recording, between its begin and its end.
class recorded_part {
public:
    explicit recorded_part(execution_context& context);
    recorded_part(const recorded_part&) = delete;  // the destructor ends the part
    recorded_part& operator=(const recorded_part&) = delete;
    ~recorded_part();  // discards the part, unless end() was called

    // Closes the part. Commands recorded from here on come after it.
    void end(std::string_view name, conditional_command::kind kind, storage& condition, std::uint64_t mark);

private:
    execution_context& context_;
    bool is_open_ = true;
};
std::uint64_t next_loop_mark(execution_context& context);
// Fills one int with a nonzero value.
void set_flag(execution_context& context, storage& flag);
void copy_back(execution_context& context, storage& to, storage* from, std::size_t bytes);
void require_same_shape(const shape& before, const shape& after, std::string_view name);
void require_one_number(const tensor<int>& condition, std::string_view name);

// The tensors that a loop carries. Their memory stays the same in all rounds.
template <typename... Ts>
class loop_state {
public:
    explicit loop_state(tensor<Ts>&... state) : memory_{storage_ref(state.memory())...}, shapes_{state.shape()...} {}

    std::tuple<tensor<Ts>...> tensors() const { return make(std::index_sequence_for<Ts...>()); }

    // Copies the body's outputs into the loop's memory, where they are in other memory.
    template <typename Output>
    void copy_results_back(execution_context& context, Output made, std::string_view name) const {
        if constexpr (is_tuple<Output>) {
            static_assert(std::is_same_v<Output, std::tuple<tensor<Ts>...>>,
                          "the body of a loop or condition must return tensors of the types that it received");
            take(context, made, name, std::index_sequence_for<Ts...>());
        } else {
            static_assert(std::is_same_v<std::tuple<Output>, std::tuple<tensor<Ts>...>>,
                          "the body of a loop or condition must return tensors of the types that it received");
            std::tuple<tensor<Ts>...> one(std::move(made));
            take(context, one, name, std::index_sequence_for<Ts...>());
        }
    }

    auto output() const {
        if constexpr (sizeof...(Ts) == 1) {
            return std::get<0>(tensors());
        } else {
            return tensors();
        }
    }

private:
    template <std::size_t... Is>
    std::tuple<tensor<Ts>...> make(std::index_sequence<Is...>) const {
        return {tensor_over<Ts>(memory_[Is], shapes_[Is])...};
    }
    template <std::size_t... Is>
    void take(execution_context& context, std::tuple<tensor<Ts>...>& made, std::string_view name,
              std::index_sequence<Is...>) const {
        (require_same_shape(shapes_[Is], std::get<Is>(made).shape(), name), ...);
        (detail::copy_back(context, *memory_[Is], std::get<Is>(made).memory(), std::get<Is>(made).size_bytes()), ...);
    }

    std::array<storage_ref, sizeof...(Ts)> memory_;
    std::array<shape, sizeof...(Ts)> shapes_;
};

template <typename... Ts>
struct loop_output {
    using type = std::tuple<tensor<Ts>...>;
};
template <typename T>
struct loop_output<T> {
    using type = tensor<T>;
};

// Submits what `record` records; outside a recording, compiles it first.
template <typename Record, typename... Ts>
class control_flow_operation : public operation_base<control_flow_operation<Record, Ts...>> {
public:
    using output = typename loop_output<Ts...>::type;

    explicit control_flow_operation(Record record, tensor<Ts>... state)
        : record_(std::move(record)), state_(std::move(state)...) {}

    output submit(execution_context& context) && {
        if (context.stream().is_recording()) {
            return std::apply(
                [&](tensor<Ts>&... each) {
                    const loop_state<Ts...> state(each...);
                    record_(context, state, each...);
                    return state.output();
                },
                state_);
        }
        return std::apply(
            [&](tensor<Ts>&... each) {
                const auto graph = compile_graph(
                    context.device(), graph_options{},
                    [record = record_](tensor<Ts>... given) {
                        return control_flow_operation(record, std::move(given)...);
                    },
                    {}, device_input<Ts>(each.shape())...);
                return graph(std::move(each)...).submit(context);
            },
            state_);
    }
    work_estimate estimate() const { return branch_threshold; }

private:
    Record record_;
    std::tuple<tensor<Ts>...> state_;
};

template <typename Record, typename... Ts>
auto control_flow(Record record, tensor<Ts>... state) {
    return control_flow_operation<Record, Ts...>(std::move(record), std::move(state)...);
}

}  // namespace detail

template <typename Condition, typename Body, typename... Ts>
auto repeat_while(Condition condition, Body body, tensor<Ts>... state) {
    static_assert(sizeof...(Ts) != 0, "repeat_while: a loop carries at least one tensor");
    auto record = [condition = std::move(condition), body = std::move(body)](
                      execution_context& context, const detail::loop_state<Ts...>& kept, tensor<Ts>&... now) {
        const auto look = [&] {
            auto flag = std::apply(
                [&](auto... each) {
                    return std::invoke(condition, shared_tensor<Ts>(std::move(each))...).submit(context);
                },
                kept.tensors());
            detail::require_one_number(flag, "repeat_while");
            return flag;
        };
        const tensor<int> flag = look();
        detail::recorded_part part(context);
        kept.copy_results_back(context, std::invoke(body, std::move(now)...).submit(context), "repeat_while");
        const tensor<int> next = look();
        detail::copy_back(context, *flag.memory(), next.memory(), sizeof(int));
        part.end("repeat_while", conditional_command::kind::repeatedly, *flag.memory(), 0);
    };
    return detail::control_flow(std::move(record), std::move(state)...);
}

template <typename Body, typename... Ts>
auto do_while(Body body, tensor<Ts>... state) {
    static_assert(sizeof...(Ts) != 0, "do_while: a loop carries at least one tensor");
    auto record = [body = std::move(body)](execution_context& context, const detail::loop_state<Ts...>& kept,
                                           tensor<Ts>&... now) {
        const tensor<int> flag(context.stream(), {1}, {"do_while"});
        detail::set_flag(context, *flag.memory());
        const std::uint64_t mark = detail::next_loop_mark(context);
        detail::recorded_part part(context);
        kept.copy_results_back(
            context, std::invoke(body, loop_flag(*flag.memory(), mark), std::move(now)...).submit(context), "do_while");
        part.end("do_while", conditional_command::kind::repeatedly, *flag.memory(), mark);
    };
    return detail::control_flow(std::move(record), std::move(state)...);
}

template <typename Body, typename... Ts>
auto if_(tensor<int> flag, Body body, tensor<Ts>... state) {
    static_assert(sizeof...(Ts) != 0, "if_: needs at least one tensor");
    detail::require_one_number(flag, "if_");
    // The flag is carried too, so that it is an input when this is compiled outside a graph.
    auto record = [body = std::move(body)](execution_context& context, const detail::loop_state<int, Ts...>& kept,
                                           tensor<int>& condition, tensor<Ts>&... now) {
        const storage_ref known = storage_ref(condition.memory());
        const detail::loop_state<Ts...> rest(now...);
        detail::recorded_part part(context);
        rest.copy_results_back(context, std::invoke(body, std::move(now)...).submit(context), "if_");
        part.end("if_", conditional_command::kind::once, *known, 0);
        static_cast<void>(kept);
    };
    return detail::control_flow(std::move(record), std::move(flag), std::move(state)...)
        .transform([](tensor<int>, tensor<Ts>... rest) {
            if constexpr (sizeof...(Ts) == 1) {
                return (tensor<Ts>(std::move(rest)), ...);
            } else {
                return std::tuple<tensor<Ts>...>(std::move(rest)...);
            }
        });
}

}  // namespace sluice
