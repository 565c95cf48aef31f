// SPDX-License-Identifier: Apache-2.0
// one_of: several kernels that do the same, such as one kernel with tiles of several sizes. A launch runs the one that
// is the fastest for the shapes on the device, as a table of measurements has it.
//
//     const auto table = std::make_shared<tuning_table>();
//     const one_of<gemm_tiles<half, 64, 64, 32>, gemm_tiles<half, 128, 64, 32>> multiply(table);
//     tune(gpu, multiply, a, b, c);                      // measures, and adds to the table
//     launch(multiply, std::move(a), b, std::move(c))    // runs the fastest
//
//     launch(one_of(table, scale_in_tiles<64>{2.f}, scale_in_tiles<256>{2.f}), std::move(x))  // kernels with members
//
// Where the table has no measurement of the device, of the kernels and of the shapes of all tensors among the
// arguments, and without a table, the first kernel runs. Each kernel must give the same result.
//
// The kernels take the same arguments and write the same of them, which launch.hpp, tile_launch.hpp and
// launch_operations.hpp describe: a range, each_written() or neither, then arguments, some of which may be operations.
// What tile kernels write is a tensor, because a partition has the tiles of one kernel.
//
// The choice is made when the launch is submitted; in a graph, when the graph is recorded. It depends on the table, the
// device and the shapes alone. Measure before you compile: a graph may be recorded again at a later launch, with what
// the table has then, and recordings that differ can make each launch slower.
//
// Errors: those of the launch of the kernel that runs.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "sluice/kernels/detail/kernel_choice.hpp"
#include "sluice/kernels/tuning_table.hpp"
#include "sluice/runtime/launch.hpp"
#include "sluice/runtime/launch_operations.hpp"

namespace sluice {

class device;

template <typename... Kernels>
class one_of {
    static_assert(sizeof...(Kernels) != 0, "one_of: there is no kernel to choose");
    static_assert((std::is_trivially_copyable_v<Kernels> && ...),
                  "one_of: a kernel object is copied to the device byte by byte");

public:
    one_of() = default;
    explicit one_of(std::shared_ptr<tuning_table> table) : table_(std::move(table)) {}
    // With kernels that have members. Costs a copy of each kernel.
    explicit one_of(Kernels... kernels) : kernels_(kernels...) {}
    one_of(std::shared_ptr<tuning_table> table, Kernels... kernels) : table_(std::move(table)), kernels_(kernels...) {}

    static constexpr std::size_t count = sizeof...(Kernels);  // the number of kernels
    // The names of the kernels' types, without namespaces. Costs O(kernels).
    static constexpr std::array<std::string_view, count> names() { return {detail::type_name<Kernels>()...}; }
    // The table of measurements; null when there is none.
    const std::shared_ptr<tuning_table>& table() const noexcept { return table_; }

    // Calls function(kernel) with the kernel of that number, counted from 0. Costs O(kernels), and one call of the
    // function.
    template <typename Function>
    void with(std::size_t number, Function function) const {
        std::apply(
            [&](const Kernels&... each) {
                std::size_t at = 0;
                static_cast<void>(((at++ == number ? (function(each), true) : false) || ...));
            },
            kernels_);
    }

private:
    std::shared_ptr<tuning_table> table_;
    std::tuple<Kernels...> kernels_{};
};
template <typename... Kernels>
one_of(std::shared_ptr<tuning_table>, Kernels...) -> one_of<Kernels...>;

inline namespace SLUICE_LAUNCH_ABI {

// The plain form: a launch as one command on a stream. The caller keeps the arguments. Costs one look into the table,
// and what the launch of the chosen kernel costs.
template <typename... Kernels, any_launch_range Range, typename... Arguments>
void launch_on(stream on, const one_of<Kernels...>& kernels, const Range& range, const Arguments&... arguments) {
    static_assert(detail::choice_check<detail::type_list<Kernels...>, Arguments...>::passed);
    const detail::argument_shapes<sizeof...(Arguments)> shapes(arguments...);
    const auto names = one_of<Kernels...>::names();
    kernels.with(detail::chosen_position(on, kernels.table().get(), names, shapes.all()),
                 [&](const auto& kernel) { launch_on(on, kernel, range, arguments...); });
}

// A launch of one of several kernels, which launch(one_of, ...) returns.
template <typename Kernels, any_launch_range Range, typename... Arguments>
class choice_operation : public operation_base<choice_operation<Kernels, Range, Arguments...>> {
    using binding = detail::argument_binding<typename detail::first_of_choice<Kernels>::parameters, Arguments...>;

public:
    using output = typename binding::written;

    choice_operation(Kernels kernels, Range range, Arguments... arguments)
        : kernels_(std::move(kernels)), range_(range), arguments_(std::move(arguments)...) {}

    output submit(execution_context& context) && {
        std::apply([&](const Arguments&... each) { launch_on(detail::stream_of(context), kernels_, range_, each...); },
                   arguments_);
        return binding::take_written(std::move(arguments_));
    }
    work_estimate estimate() const { return {.commands = 1}; }

private:
    Kernels kernels_;
    Range range_;
    std::tuple<Arguments...> arguments_;
};

}  // namespace SLUICE_LAUNCH_ABI

namespace detail {
inline namespace SLUICE_LAUNCH_ABI {

// Makes the launch when the arguments are there.
template <typename Kernels, typename Range>
class choice_later {
public:
    choice_later(Kernels kernels, const Range& range) : kernels_(std::move(kernels)), range_(range) {}

    template <typename... Arguments>
    auto operator()(Arguments... arguments) const {
        const auto range = choice_range<Kernels>(range_, arguments...);
        return choice_operation<Kernels, std::remove_const_t<decltype(range)>, Arguments...>(kernels_, range,
                                                                                             std::move(arguments)...);
    }

private:
    Kernels kernels_;
    Range range_;
};

template <typename Range, typename... Kernels, typename... Arguments>
auto choose_after(one_of<Kernels...> kernels, const Range& range, Arguments... arguments) {
    using check = choice_check<type_list<Kernels...>, typename launch_source<Arguments>::type...>;
    if constexpr (check::passed) {
        using first = typename first_of_choice<one_of<Kernels...>>::parameters;
        constexpr bool is_clear =
            any_launch_range<Range> || written_arguments<first, typename launch_source<Arguments>::type...>::count == 1;
        static_assert(is_clear,
                      "launch: the kernels write several arguments; say what they run over: launch(kernels, "
                      "each_of(...), ...)");
        if constexpr (is_clear) {
            return zip(typename launch_source<Arguments>::source(std::move(arguments))...)
                .and_then(choice_later<one_of<Kernels...>, Range>(std::move(kernels), range));
        }
    }
}

}  // namespace SLUICE_LAUNCH_ABI
}  // namespace detail

inline namespace SLUICE_LAUNCH_ABI {

template <typename... Kernels, any_launch_range Range, typename... Arguments>
auto launch(one_of<Kernels...> kernels, const Range& range, Arguments&&... arguments) {
    return detail::choose_after<Range>(std::move(kernels), range,
                                       std::decay_t<Arguments>(std::forward<Arguments>(arguments))...);
}
// Over what the kernels write. Costs one look into the table when it is submitted, and what the launch of the chosen
// kernel costs.
template <typename... Kernels, typename... Arguments>
auto launch(one_of<Kernels...> kernels, const written_range& range, Arguments&&... arguments) {
    return detail::choose_after<written_range>(std::move(kernels), range,
                                               std::decay_t<Arguments>(std::forward<Arguments>(arguments))...);
}
template <typename... Kernels, typename First, typename... Arguments>
requires detail::launch_argument<std::decay_t<First>>
auto launch(one_of<Kernels...> kernels, First&& first, Arguments&&... arguments) {
    return detail::choose_after<written_range>(std::move(kernels), written_range{},
                                               std::decay_t<First>(std::forward<First>(first)),
                                               std::decay_t<Arguments>(std::forward<Arguments>(arguments))...);
}

// Measures each kernel with these arguments on the device, adds the result to the table of `kernels`, and returns it. A
// kernel other than the first is taken as the fastest where it needs less than 0.97 of the first one's time. The
// arguments are those of a launch, on this device, and stay the caller's; what is in the written ones afterwards is
// undefined. Each kernel runs many times: blocks, for some milliseconds a kernel. Other work on the device disturbs the
// measurement. A kernel that is shorter than a launch, some microseconds on a GPU, is measured as long as a launch. In
// the simulator time is virtual, and a measurement says nothing about a device.
//
// Throws errc::invalid_argument where `kernels` has no table; otherwise the errors of the launches. Costs at most some
// fifteen milliseconds for each kernel that takes less than two, and twelve launches of any other.
template <typename... Kernels, any_launch_range Range, typename... Arguments>
tuning_measurement tune(device& on, const one_of<Kernels...>& kernels, const Range& range,
                        const Arguments&... arguments) {
    static_assert(detail::choice_check<detail::type_list<Kernels...>, Arguments...>::passed);
    const detail::argument_shapes<sizeof...(Arguments)> shapes(arguments...);
    const auto names = one_of<Kernels...>::names();
    std::vector<std::function<void(stream)>> runs;
    for (std::size_t i = 0; i < names.size(); ++i) {
        runs.emplace_back([&, i](stream home) {
            kernels.with(i, [&](const auto& kernel) { launch_on(home, kernel, range, arguments...); });
        });
    }
    return detail::measure(on, kernels.table().get(), names, shapes.all(), runs);
}
// The same, over what the kernels write.
template <typename... Kernels, typename First, typename... Arguments>
requires detail::launch_argument<First>
tuning_measurement tune(device& on, const one_of<Kernels...>& kernels, const First& first,
                        const Arguments&... arguments) {
    static_assert(detail::choice_check<detail::type_list<Kernels...>, First, Arguments...>::passed);
    using parameters = typename detail::first_of_choice<one_of<Kernels...>>::parameters;
    static_assert(detail::written_arguments<parameters, First, Arguments...>::count == 1,
                  "tune: the kernels write several arguments; say what they run over: tune(device, kernels, "
                  "each_of(...), ...)");
    const auto range = detail::choice_range<one_of<Kernels...>>(written_range{}, first, arguments...);
    return tune(on, kernels, range, first, arguments...);
}

}  // namespace SLUICE_LAUNCH_ABI
}  // namespace sluice
