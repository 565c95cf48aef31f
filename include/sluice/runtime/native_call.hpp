// SPDX-License-Identifier: Apache-2.0
// native_call: runs code that enqueues on a stream of the backend and does not know Sluice, as one command.
//
//     native_call([](const native_stream& on, float* x, std::size_t size) {
//         scale_kernel<<<(size + 255) / 256, 256, 0, static_cast<cudaStream_t>(on.handle)>>>(x, size);
//     }, std::move(x), x_size)
//
// The function receives the native stream and one value for each argument:
//   - for a tensor<T> the device address T*; the function may write it, and the tensor is an output (as for a launch);
//   - for a shared_tensor<T> the device address const T*, which the function only reads;
//   - anything else unchanged.
// The function and the arguments of the last kind must be trivially copyable. It accesses no other device memory.
//
// On a GPU it runs on the submitting thread and must only enqueue. In a compiled graph it is captured at its place: it
// may fork to streams of its own through events, and must join them. On a CPU device it runs in stream order, on a
// worker thread or on a thread that waits for it, and on.handle is null.
//
// It costs one command, one call of the function, and the list of the memory that the arguments name.
//
// Errors: submit throws an exception of the function on a GPU; on a CPU the waiter receives it.
#pragma once

#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "sluice/op/operation.hpp"
#include "sluice/runtime/detail/closure.hpp"
#include "sluice/runtime/detail/launch_arguments.hpp"
#include "sluice/runtime/execution_context.hpp"
#include "sluice/runtime/tensor.hpp"

namespace sluice {

namespace detail {
// How native_call passes an argument: the value that the function receives, and what becomes an output.
template <typename T>
struct native_argument {
    static_assert(std::is_trivially_copyable_v<T>,
                  "native_call: an argument is a tensor, a shared tensor or something trivially copyable");
    using passed = T;
    using kept = std::tuple<>;
    static passed pass(const T& value) { return value; }
    static void name(const T&, std::vector<memory_access>&) {}
    static kept keep(T&) { return {}; }
};
template <typename T>
struct native_argument<tensor<T>> {
    using passed = T*;
    using kept = std::tuple<tensor<T>>;
    static passed pass(const tensor<T>& value) { return value.device_data(); }
    static void name(const tensor<T>& value, std::vector<memory_access>& all) {
        all.push_back({value.memory(), access_mode::write});
    }
    static kept keep(tensor<T>& value) { return kept(std::move(value)); }
};
template <typename T>
struct native_argument<shared<tensor<T>>> {
    using passed = const T*;
    using kept = std::tuple<>;
    static passed pass(const shared<tensor<T>>& value) { return value->device_data(); }
    static void name(const shared<tensor<T>>& value, std::vector<memory_access>& all) {
        all.push_back({value->memory(), access_mode::read});
    }
    static kept keep(shared<tensor<T>>&) { return {}; }
};

// Calls a host function with the values. (kernel_values::apply is for the device too, so nvcc warns of functions that
// are not.)
template <typename Function, typename... Before>
void call_on_host(const kernel_values<>&, const Function& f, const Before&... before) {
    f(before...);
}
template <typename First, typename... Rest, typename Function, typename... Before>
void call_on_host(const kernel_values<First, Rest...>& values, const Function& f, const Before&... before) {
    call_on_host(values.rest, f, before..., values.first);
}

template <typename Function, typename Values>
struct native_closure {
    Function f;
    Values all;

    static void call(const native_stream& on, const void* erased) {
        const auto& it = *static_cast<const native_closure*>(erased);
        call_on_host(it.all, it.f, on);
    }
};
template <typename Function, typename Values>
inline constexpr bool can_clear_padding<native_closure<Function, Values>> =
    can_clear_padding<Function> && can_clear_padding<Values>;
}  // namespace detail

template <typename Function, typename... Arguments>
class native_call_operation : public operation_base<native_call_operation<Function, Arguments...>> {
    static_assert(std::is_trivially_copyable_v<Function>, "native_call: the function is copied byte by byte");
    static_assert(std::is_invocable_v<const Function&, const native_stream&,
                                      const typename detail::native_argument<Arguments>::passed&...>,
                  "native_call: the function cannot be called with the native stream and these arguments");
    using closure =
        detail::native_closure<Function, detail::kernel_values<typename detail::native_argument<Arguments>::passed...>>;
    using written_tuple =
        decltype(std::tuple_cat(std::declval<typename detail::native_argument<Arguments>::kept>()...));

public:
    using output = typename detail::written_output_of<written_tuple>::type;

    explicit native_call_operation(Function f, Arguments... arguments) : f_(f), arguments_(std::move(arguments)...) {}

    output submit(execution_context& context) && {
        std::vector<memory_access> accesses;
        closure made = std::apply(
            [&](const Arguments&... each) {
                (detail::native_argument<Arguments>::name(each, accesses), ...);
                return closure{f_, detail::make_kernel_values(detail::native_argument<Arguments>::pass(each)...)};
            },
            arguments_);
        const command_info info = {"native_call", accesses};
        context.stream().library_call(info, detail::library_call_with(&closure::call, made));
        return std::apply(
            [](Arguments&... each) {
                return detail::written_output_of<written_tuple>::make(
                    std::tuple_cat(detail::native_argument<Arguments>::keep(each)...));
            },
            arguments_);
    }
    work_estimate estimate() const { return {.commands = 1}; }

private:
    Function f_;
    std::tuple<Arguments...> arguments_;
};

template <typename Function, typename... Arguments>
auto native_call(Function f, Arguments... arguments) {
    return native_call_operation<Function, Arguments...>(f, std::move(arguments)...);
}

}  // namespace sluice
