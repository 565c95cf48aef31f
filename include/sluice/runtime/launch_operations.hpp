// SPDX-License-Identifier: Apache-2.0
// launch with operations as arguments: they are submitted first, and their outputs take their places.
//
//     launch(scale{}, upload(x), 2.f)                      // over every element of what scale writes
//     launch(axpy{}, each_written(), 2.f, upload(x), upload(y)).and_then(download)
//     launch(axpy{}, each_of(shape{1024}), 2.f, upload(x), std::move(y))
//
// The operations are the parts of a zip (zip.hpp): they are independent, and those with enough work run on streams of
// their own. Each has one output; of one with several, take first(op), last(op), or continue it with and_then. All
// other arguments, the checks and the output are those of launch.hpp.
//
// Without a range, and with each_written(), the launch runs over every element of the argument that the kernel writes,
// or over every tile where it writes tiles. There must be one such argument; a kernel that writes several needs a
// range. each_written() remembers the user's source line, which errors and traces then name; without any range they
// name the kernel only.
#pragma once

#include <concepts>
#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

#include "sluice/op/value.hpp"
#include "sluice/op/zip.hpp"
#include "sluice/runtime/launch.hpp"

namespace sluice {

struct launch_blocks;  // of another launch: block_kernel.hpp

// The range of a launch that runs over what its kernel writes.
struct written_range {
    source_location location;  // the line that an error names
};
// See written_range. Costs O(1).
inline written_range each_written(source_location location = source_location::current()) { return {location}; }

namespace detail {
// What an argument is after the submission, and the operation that gives it.
template <typename Argument>
struct launch_source {
    using type = Argument;
    using source = value_operation<Argument>;
};
template <operation Argument>
struct launch_source<Argument> {
    using type = output_of<Argument>;
    using source = Argument;
    static_assert(!is_tuple<type>,
                  "launch: an operation among the arguments has one output; of several take first(op) or last(op)");
};

template <typename Parameters, typename... Arguments>
struct written_arguments;
template <typename... Parameters, typename... Arguments>
struct written_arguments<type_list<Parameters...>, Arguments...> {
    static constexpr std::size_t count =
        (std::size_t{0} + ... + (bound_argument<Parameters, Arguments>::use == argument_use::written));
    static constexpr std::size_t position() {
        constexpr bool is_written[] = {(bound_argument<Parameters, Arguments>::use == argument_use::written)...};
        std::size_t at = 0;
        while (!is_written[at]) ++at;
        return at;
    }
};

inline namespace SLUICE_LAUNCH_ABI {

// Makes the launch when the arguments are there.
template <typename Kernel, typename Range>
class launch_later {
public:
    launch_later(Kernel kernel, const Range& range) : kernel_(std::move(kernel)), range_(range) {}

    template <typename... Arguments>
    auto operator()(Arguments... arguments) const {
        const auto range = range_over(arguments...);
        return launch_operation<Kernel, std::remove_const_t<decltype(range)>, Arguments...>(kernel_, range,
                                                                                            std::move(arguments)...);
    }

private:
    template <typename... Arguments>
    auto range_over(const Arguments&... arguments) const {
        if constexpr (any_launch_range<Range>) {
            return range_;
        } else {
            using parameters = typename kernel_signature<Kernel>::parameters;
            constexpr std::size_t at = written_arguments<parameters, Arguments...>::position();
            return each_of(std::get<at>(std::tie(arguments...)), range_.location);
        }
    }

    Kernel kernel_;
    Range range_;
};

template <typename Kernel, typename Range, typename... Arguments>
auto launch_after(Kernel kernel, const Range& range, Arguments... arguments) {
    static_assert(std::is_trivially_copyable_v<Kernel>, "launch: a kernel object is copied to the device byte by byte");
    static_assert(has_kernel_signature<Kernel>,
                  "launch: a kernel is a class with one `void operator()(index, parameters...) const`");
    if constexpr (has_kernel_signature<Kernel>) {
        using parameters = typename kernel_signature<Kernel>::parameters;
        using check = argument_check<Kernel, typename launch_source<Arguments>::type...>;
        if constexpr (check::passed) {
            constexpr bool is_clear =
                any_launch_range<Range> ||
                written_arguments<parameters, typename launch_source<Arguments>::type...>::count == 1;
            static_assert(is_clear,
                          "launch: the kernel writes several arguments; say what it runs over: launch(kernel, "
                          "each_of(...), ...)");
            if constexpr (is_clear) {
                return zip(typename launch_source<Arguments>::source(std::move(arguments))...)
                    .and_then(launch_later<Kernel, Range>(std::move(kernel), range));
            }
        }
    }
}

template <typename T>
concept launch_argument = !any_launch_range<T> && !std::same_as<T, written_range> && !std::same_as<T, launch_blocks>;

}  // namespace SLUICE_LAUNCH_ABI
}  // namespace detail

inline namespace SLUICE_LAUNCH_ABI {

// With a range, where an argument is an operation. Submitting it costs what zip costs for the operations, and one
// command.
template <typename Kernel, any_launch_range Range, typename... Arguments>
requires(operation<std::decay_t<Arguments>> || ...)
auto launch(Kernel kernel, const Range& range, Arguments&&... arguments) {
    return detail::launch_after<Kernel, Range, std::decay_t<Arguments>...>(std::move(kernel), range,
                                                                           std::forward<Arguments>(arguments)...);
}

// Over what the kernel writes. Submitting it costs what zip costs for the operations, and one command.
template <typename Kernel, typename... Arguments>
auto launch(Kernel kernel, const written_range& range, Arguments&&... arguments) {
    return detail::launch_after<Kernel, written_range, std::decay_t<Arguments>...>(
        std::move(kernel), range, std::forward<Arguments>(arguments)...);
}
template <typename Kernel, typename First, typename... Arguments>
requires detail::launch_argument<std::decay_t<First>>
auto launch(Kernel kernel, First&& first, Arguments&&... arguments) {
    return detail::launch_after<Kernel, written_range, std::decay_t<First>, std::decay_t<Arguments>...>(
        std::move(kernel), written_range{}, std::forward<First>(first), std::forward<Arguments>(arguments)...);
}

}  // namespace SLUICE_LAUNCH_ABI

}  // namespace sluice
