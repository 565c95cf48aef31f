// SPDX-License-Identifier: Apache-2.0
// host_call: runs host code in stream order, with downloaded data as its arguments.
//
//     download(x).and_then([](auto landed) {
//         return host_call([](std::vector<float> values) { return std::accumulate(...); }, std::move(landed));
//     })
//
// The function runs when the stream reaches it: on a thread of the GPU's driver; for a CPU device on one of its workers
// or on a thread that waits for it. Arguments that are pending<T> arrive opened, as T; others unchanged. The result is
// pending again. The function must not call Sluice or CUDA (a wait for the device throws errc::invalid_argument), nor
// lock what another thread holds while it calls them. While it runs, its stream runs nothing else. What it throws
// reaches each waiter and each command that reads the result. Where an argument failed, it does not run.
//
// Data on a device must be downloaded first: tensors cannot be arguments.
//
// It costs one command and a few allocations on the host; its stream also waits for the function.
#pragma once

#include <memory>
#include <optional>
#include <tuple>

#include "sluice/op/detail/single_use.hpp"
#include "sluice/op/operation.hpp"
#include "sluice/runtime/execution_context.hpp"
#include "sluice/runtime/pending.hpp"
#include "sluice/runtime/tensor.hpp"

namespace sluice {

namespace detail {
template <typename T>
inline constexpr bool is_device_data = false;
template <typename T>
inline constexpr bool is_device_data<tensor<T>> = true;
template <typename T>
inline constexpr bool is_device_data<shared<tensor<T>>> = true;
template <typename T>
inline constexpr bool is_device_data<partition<T>> = true;
template <typename T>
inline constexpr bool is_device_data<buffer<T>> = true;
template <typename T>
inline constexpr bool is_device_data<std::vector<T>> = is_device_data<T>;
}  // namespace detail

template <typename Function, typename... Arguments>
class host_call_operation : public operation_base<host_call_operation<Function, Arguments...>> {
    static_assert(!(detail::is_device_data<Arguments> || ...),
                  "host_call: host code cannot reach data on a device; download it first");
    static_assert(std::is_invocable_v<Function, decltype(detail::open(std::declval<Arguments>()))...>,
                  "host_call: the function cannot be called with these arguments, opened");
    using result = std::invoke_result_t<Function, decltype(detail::open(std::declval<Arguments>()))...>;
    static constexpr bool returns = !std::is_void_v<result>;

public:
    using output = std::conditional_t<returns, pending<std::decay_t<result>>, std::tuple<>>;

    host_call_operation(Function f, Arguments... arguments) : f_(std::move(f)), arguments_(std::move(arguments)...) {}

    output submit(execution_context& context) && {
        once_.use("host_call");
        stream on = context.stream();
        // The result has a history like any data, so that its readers on other streams come after the call.
        storage_ref made = on.allocate_host(0, {"host_call"});
        auto state = std::make_shared<call>(std::move(f_), std::move(arguments_));
        std::vector<memory_access> accesses{{made.get(), access_mode::write}};
        command_info info{"host_call"};
        detail::pending_storage::for_each(*state->arguments, [&](storage& each) {
            accesses.push_back({&each, access_mode::read});
            info.spans_devices |= &each.owner() != &on.owner();
        });
        info.accesses = accesses;
        on.host_call(info, {[state] { state->run(); }});
        if constexpr (returns) {
            storage* const memory = made.get();
            auto take = [state = std::move(state), made = std::move(made)] { return std::move(*state->returned); };
            return output::from(std::move(take), memory);
        } else {
            return {};
        }
    }
    work_estimate estimate() const { return {.commands = 1}; }

private:
    struct call {
        call(Function g, std::tuple<Arguments...> with) : f(std::move(g)), arguments(std::move(with)) {}

        void run() {
            auto opened = detail::open(std::move(*arguments));
            arguments.reset();
            if constexpr (returns) {
                returned.emplace(std::apply(std::move(*f), std::move(opened)));
            } else {
                std::apply(std::move(*f), std::move(opened));
            }
            f.reset();
        }

        std::optional<Function> f;
        std::optional<std::tuple<Arguments...>> arguments;
        std::optional<std::conditional_t<returns, std::decay_t<result>, std::tuple<>>> returned;
    };

    Function f_;
    std::tuple<Arguments...> arguments_;
    detail::single_use once_;
};

template <typename Function, typename... Arguments>
auto host_call(Function f, Arguments... arguments) {
    return host_call_operation<Function, Arguments...>(std::move(f), std::move(arguments)...);
}

}  // namespace sluice
