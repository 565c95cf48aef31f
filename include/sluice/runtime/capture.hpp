// capture: code that enqueues on a stream of the backend and knows nothing of Sluice, as one command.
//
//     capture([](const native_stream& on, float* x, std::size_t size) {
//         scale_kernel<<<(size + 255) / 256, 256, 0, static_cast<cudaStream_t>(on.handle)>>>(x, size);
//     }, std::move(x), x_size)
//
// The function is called with the native stream and, for each argument: the device address, T* for a tensor<T>, which
// it may write and which comes back as output (as a launch's), const T* for a shared_tensor<T>, which it reads;
// anything else, which must be trivially copyable, as it is. So must the function be. It touches no memory but that.
//
// On a GPU it runs on the submitting thread, and must only enqueue; in a compiled graph it is captured at its place: it
// may fork to streams of its own by events, and must join them. On a CPU device it runs on a worker thread, in stream
// order, and on.handle is null.
//
// Errors: an exception of the function leaves submit on a GPU, and reaches the waiter on a CPU.
#pragma once

#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "sluice/op/operation.hpp"
#include "sluice/runtime/execution_context.hpp"
#include "sluice/runtime/launch_arguments.hpp"
#include "sluice/runtime/tensor.hpp"

namespace sluice {

namespace detail {
// What an argument of captured code is to it.
template <typename T>
struct captured_argument {
    static_assert(std::is_trivially_copyable_v<T>,
                  "capture: an argument is a tensor, a shared tensor or something trivially copyable");
    using passed = T;
    using kept = std::tuple<>;
    static passed pass(const T& value) { return value; }
    static void name(const T&, std::vector<memory_access>&) {}
    static kept keep(T&) { return {}; }
};
template <typename T>
struct captured_argument<tensor<T>> {
    using passed = T*;
    using kept = std::tuple<tensor<T>>;
    static passed pass(const tensor<T>& value) { return value.device_data(); }
    static void name(const tensor<T>& value, std::vector<memory_access>& all) {
        all.push_back({value.memory(), access_mode::write});
    }
    static kept keep(tensor<T>& value) { return kept(std::move(value)); }
};
template <typename T>
struct captured_argument<shared<tensor<T>>> {
    using passed = const T*;
    using kept = std::tuple<>;
    static passed pass(const shared<tensor<T>>& value) { return value->device_data(); }
    static void name(const shared<tensor<T>>& value, std::vector<memory_access>& all) {
        all.push_back({value->memory(), access_mode::read});
    }
    static kept keep(shared<tensor<T>>&) { return {}; }
};
}  // namespace detail

template <typename Function, typename... Arguments>
class capture_operation : public operation_base<capture_operation<Function, Arguments...>> {
    static_assert(std::is_trivially_copyable_v<Function>, "capture: the function is copied byte by byte");
    static_assert(std::is_invocable_v<const Function&, const native_stream&,
                                      const typename detail::captured_argument<Arguments>::passed&...>,
                  "capture: the function cannot be called with the native stream and these arguments");
    using values = detail::kernel_values<typename detail::captured_argument<Arguments>::passed...>;
    struct closure {
        Function f;
        values all;

        static void call(const native_stream& on, const void* erased) {
            const auto& it = *static_cast<const closure*>(erased);
            it.all.apply([&](const auto&... each) { it.f(on, each...); });
        }
    };
    using written_tuple =
        decltype(std::tuple_cat(std::declval<typename detail::captured_argument<Arguments>::kept>()...));

public:
    using output = typename detail::written_output_of<written_tuple>::type;

    explicit capture_operation(Function f, Arguments... arguments) : f_(f), arguments_(std::move(arguments)...) {}

    output submit(execution_context& context) && {
        std::vector<memory_access> accesses;
        const closure made = std::apply(
            [&](const Arguments&... each) {
                (detail::captured_argument<Arguments>::name(each, accesses), ...);
                return closure{f_, detail::make_kernel_values(detail::captured_argument<Arguments>::pass(each)...)};
            },
            arguments_);
        const command_info info = {"capture", accesses};
        context.stream().library_call(info, {&closure::call, &made, sizeof(made)});
        return std::apply(
            [](Arguments&... each) {
                return detail::written_output_of<written_tuple>::make(
                    std::tuple_cat(detail::captured_argument<Arguments>::keep(each)...));
            },
            arguments_);
    }
    work_estimate estimate() const { return {.commands = 1}; }

private:
    Function f_;
    std::tuple<Arguments...> arguments_;
};

template <typename Function, typename... Arguments>
auto capture(Function f, Arguments... arguments) {
    return capture_operation<Function, Arguments...>(f, std::move(arguments)...);
}

}  // namespace sluice
