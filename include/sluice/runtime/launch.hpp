// SPDX-License-Identifier: Apache-2.0
// launch: runs a kernel over a tensor's elements or a partition's tiles.
//
//     launch(sgemm_naive{}, each_of(c), 1.f, std::move(a), b, 0.f, std::move(c))
//
// The kernel's signature says how each argument is used. The compiler checks each argument against it:
//     parameter                         argument                                            use
//     view<const T>, matrix_view<...>   tensor<T>, partition<T>, shared_tensor<T>           read
//     disjoint_view<T>, _matrix<T>      tensor<T>                                           written
//     disjoint_tiles<T>                 partition<T>                                        written
//     anything trivially copyable       a value that converts to it                         passed by value
// The operation owns its arguments. The arguments that the kernel wrote are its output (one argument as itself, several
// as separate outputs, in order). Those that it only read are released after the launch, in stream order. Operations
// as arguments: launch_operations.hpp.
//
// Errors: errc::shape_mismatch when the argument of a matrix parameter is not a matrix, or when an index_2d kernel runs
// over something else than a matrix. errc::unsupported on a GPU when nvcc did not compile the launch. Both are thrown
// before anything is submitted. A launch over no elements submits nothing.
#pragma once

#include <concepts>
#include <string_view>

#include "sluice/base/source_location.hpp"
#include "sluice/op/operation.hpp"
#include "sluice/runtime/detail/launch_arguments.hpp"
#include "sluice/runtime/detail/launch_body.hpp"
#include "sluice/runtime/stream.hpp"
#include "sluice/runtime/tensor.hpp"

namespace sluice {

struct early_launch_range;

// What a launch runs over, and the source line that requested it.
struct launch_range {
    shape over;                                  // of the elements; or the number of tiles down and across
    bool is_tiles = false;                       // the indices are tiles, not elements
    source_location location;                    // the line that an error names
    static constexpr bool starts_early = false;  // see early_start()

    // Programmatic dependent launch: the kernel may start while the kernel before it still runs, and calls
    // dependency_wait() before it touches anything that the earlier one reads or writes. Useful between short kernels.
    // Costs O(1).
    early_launch_range early_start() const;
};
// The range of a launch that may start early: launch_range::early_start makes it.
struct early_launch_range : launch_range {
    static constexpr bool starts_early = true;  // see early_start()
};
inline early_launch_range launch_range::early_start() const { return {*this}; }

template <typename T>
concept any_launch_range = std::derived_from<T, launch_range>;  // what each_of, each_tile_of and the like return

// Every element of a tensor: one by one for index_1d kernels, as a matrix for index_2d kernels. Costs O(1).
template <typename T>
launch_range each_of(const tensor<T>& elements, source_location location = source_location::current()) {
    return {elements.shape(), false, location};
}
template <typename T>
launch_range each_of(const shared<T>& elements, source_location location = source_location::current()) {
    return {elements->shape(), false, location};
}
// Every tile of a partition, for tile_index kernels. Costs O(1).
template <typename T>
launch_range each_of(const partition<T>& tiles, source_location location = source_location::current()) {
    return {shape{tiles.tile_rows(), tiles.tile_columns()}, true, location};
}
// Every element of a shape. Costs O(1).
inline launch_range each_of(const shape& elements, source_location location = source_location::current()) {
    return {elements, false, location};
}

namespace detail {
// Defined in the runtime, so that files of kernels need not read the headers of contexts.
stream stream_of(execution_context& context) noexcept;

// The unqualified name of a type, for messages and traces: "sgemm_naive".
template <typename T>
constexpr std::string_view type_name() {
    std::string_view name = __PRETTY_FUNCTION__;
    const auto first = name.find("T = ") + 4;
    name = name.substr(first, name.find_first_of(";]", first) - first);
    const auto qualified = name.rfind("::", name.find('<'));
    return qualified == std::string_view::npos ? name : name.substr(qualified + 2);
}

// The rows and columns to run. Throws unless the range fits the kernel's index.
struct rows_and_columns {
    std::size_t rows;
    std::size_t columns;
};
rows_and_columns launch_size(const launch_range& range, index_kind kind, const error_context& context);
}  // namespace detail

inline namespace SLUICE_LAUNCH_ABI {

// The plain form: a launch as one command on a stream. The caller keeps the arguments. What the kernel writes must not
// be shared.
template <typename Kernel, any_launch_range Range, typename... Arguments>
void launch_on(stream on, const Kernel& kernel, const Range& range, const Arguments&... arguments) {
    static_assert(detail::argument_check<Kernel, Arguments...>::passed);
    using signature = detail::kernel_signature<Kernel>;
    using binding = detail::argument_binding<typename signature::parameters, Arguments...>;
    constexpr std::string_view name = detail::type_name<Kernel>();
    const error_context context{name, detail::device_name(on), range.location};
    const auto size = detail::launch_size(range, detail::index_kind_of<typename signature::index>, context);
    const auto values = binding::bind(context, arguments...);
    const auto accesses = binding::accesses(arguments...);
    if (size.rows == 0 || size.columns == 0) return;
    using body = detail::launch_body<Kernel, typename signature::index, decltype(values), Range::starts_early>;
    typename body::closure closure{size.columns, size.rows, values, kernel};
    const command_info info = {name, accesses, range.location};  // a named variable: nvcc 13 misreads it otherwise
    launch_command command = body::command(closure);
    detail::add_notice(on, name, closure, command);
    const auto launched = binding::launched(arguments...);
    command.launches = launched;
    on.launch(info, command);
}

template <typename Kernel, any_launch_range Range, typename... Arguments>
class launch_operation : public operation_base<launch_operation<Kernel, Range, Arguments...>> {
    using signature = detail::kernel_signature<Kernel>;
    using binding = detail::argument_binding<typename signature::parameters, Arguments...>;

public:
    using output = typename binding::written;

    launch_operation(Kernel kernel, Range range, Arguments... arguments)
        : kernel_(std::move(kernel)), range_(range), arguments_(std::move(arguments)...) {}

    output submit(execution_context& context) && {
        std::apply([&](const Arguments&... each) { launch_on(detail::stream_of(context), kernel_, range_, each...); },
                   arguments_);
        return binding::take_written(std::move(arguments_));
    }
    work_estimate estimate() const { return {.commands = 1}; }

private:
    Kernel kernel_;
    Range range_;
    std::tuple<Arguments...> arguments_;
};

// A kernel over a range, as an operation; see the top of this file. Costs one command and O(arguments) on the host; the
// kernel object and the views of its arguments are copied into the command.
template <typename Kernel, any_launch_range Range, typename... Arguments>
auto launch(Kernel kernel, const Range& range, Arguments&&... arguments) {
    static_assert(std::is_trivially_copyable_v<Kernel>, "launch: a kernel object is copied to the device byte by byte");
    static_assert(detail::has_kernel_signature<Kernel>,
                  "launch: a kernel is a class with one `void operator()(index, parameters...) const`");
    if constexpr (detail::has_kernel_signature<Kernel>) {
        using check = detail::argument_check<Kernel, std::decay_t<Arguments>...>;
        if constexpr (check::passed) {
            return launch_operation<Kernel, Range, std::decay_t<Arguments>...>(std::move(kernel), range,
                                                                               std::forward<Arguments>(arguments)...);
        }
    }
}

}  // namespace SLUICE_LAUNCH_ABI

}  // namespace sluice
