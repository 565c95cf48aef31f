// SPDX-License-Identifier: Apache-2.0
// Tensors of a network as arguments of a kernel, at the place of an operator_call.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>

#include "sluice/base/kernel.hpp"
#include "sluice/io/dtype.hpp"
#include "sluice/runtime/launch.hpp"

namespace sluice::nn::detail {

// Where a launch runs: on the stream, if there is one; else on the host at once, or nowhere.
struct launch_place {
    std::optional<stream> on = {};
    bool is_on_host = false;
};

// The last dimension has the columns, all others have the rows. `data` is null nowhere.
struct placed_tensor {
    void* data;
    storage* memory;
    io::dtype type;
    std::size_t rows, columns;
};
struct placed_new_tensor : placed_tensor {};
struct placed_tiles {
    placed_new_tensor whole;
    std::size_t rows, columns;  // of a tile
};

// Throws errc::unsupported unless these are the elements; bytes are also bool.
void require_elements(io::dtype given, io::dtype expected, const error_context& context);
template <typename T>
T* elements_of(const placed_tensor& from, const error_context& context) {
    static_assert(!std::is_same_v<T, bool>, "launch: elements of bool are std::uint8_t in a kernel");
    require_elements(from.type, io::dtype_of<T>, context);
    return static_cast<T*>(from.data);
}

// Submits the command. A storage that is read and written is named once.
void submit_launch(stream on, std::string_view name, std::span<const memory_access> accesses,
                   const source_location& location, launch_command& command);

}  // namespace sluice::nn::detail

namespace sluice::detail {

template <typename T>
struct bound_argument<view<const T>, nn::detail::placed_tensor> {
    static constexpr argument_use use = argument_use::read;
    static view<const T> bind(const nn::detail::placed_tensor& from, const error_context& context) {
        return {nn::detail::elements_of<T>(from, context), from.rows * from.columns};
    }
    static storage* memory(const nn::detail::placed_tensor& from) { return from.memory; }
};
template <typename T>
struct bound_argument<matrix_view<const T>, nn::detail::placed_tensor> {
    static constexpr argument_use use = argument_use::read;
    static matrix_view<const T> bind(const nn::detail::placed_tensor& from, const error_context& context) {
        return {nn::detail::elements_of<T>(from, context), from.rows, from.columns};
    }
    static storage* memory(const nn::detail::placed_tensor& from) { return from.memory; }
};
template <typename T>
struct bound_argument<view<const T>, nn::detail::placed_new_tensor>
    : bound_argument<view<const T>, nn::detail::placed_tensor> {};
template <typename T>
struct bound_argument<matrix_view<const T>, nn::detail::placed_new_tensor>
    : bound_argument<matrix_view<const T>, nn::detail::placed_tensor> {};

template <typename T>
struct bound_argument<disjoint_view<T>, nn::detail::placed_new_tensor> {
    static constexpr argument_use use = argument_use::written;
    static disjoint_view<T> bind(const nn::detail::placed_new_tensor& to, const error_context& context) {
        return {nn::detail::elements_of<T>(to, context), to.rows * to.columns};
    }
    static storage* memory(const nn::detail::placed_new_tensor& to) { return to.memory; }
};
template <typename T>
struct bound_argument<disjoint_matrix<T>, nn::detail::placed_new_tensor> {
    static constexpr argument_use use = argument_use::written;
    static disjoint_matrix<T> bind(const nn::detail::placed_new_tensor& to, const error_context& context) {
        return {nn::detail::elements_of<T>(to, context), to.rows, to.columns};
    }
    static storage* memory(const nn::detail::placed_new_tensor& to) { return to.memory; }
};
template <typename T>
struct bound_argument<disjoint_tiles<T>, nn::detail::placed_tiles> {
    static constexpr argument_use use = argument_use::written;
    static disjoint_tiles<T> bind(const nn::detail::placed_tiles& to, const error_context& context) {
        return {nn::detail::elements_of<T>(to.whole, context), to.whole.rows, to.whole.columns, to.rows, to.columns};
    }
    static storage* memory(const nn::detail::placed_tiles& to) { return to.whole.memory; }
};

}  // namespace sluice::detail

namespace sluice::nn::detail {
inline namespace SLUICE_LAUNCH_ABI {

// A part of the name of each launching function: see SLUICE_LAUNCH_ABI.
struct launch_abi {};

template <typename Kernel, any_launch_range Range, typename... Arguments>
void launch_placed(const launch_place& where, const Kernel& kernel, const Range& range, const Arguments&... arguments) {
    if constexpr (sluice::detail::argument_check<Kernel, Arguments...>::passed) {
        using signature = sluice::detail::kernel_signature<Kernel>;
        using binding = sluice::detail::argument_binding<typename signature::parameters, Arguments...>;
        constexpr std::string_view name = sluice::detail::type_name<Kernel>();
        const error_context context{name, {}, range.location};
        const auto size =
            sluice::detail::launch_size(range, sluice::detail::index_kind_of<typename signature::index>, context);
        const auto values = binding::bind(context, arguments...);
        if (size.rows == 0 || size.columns == 0 || (!where.on && !where.is_on_host)) return;
        using body =
            sluice::detail::launch_body<Kernel, typename signature::index, decltype(values), Range::starts_early>;
        typename body::closure closure{size.columns, size.rows, values, kernel};
        if (where.is_on_host) return body::run_on_host(&closure);
        const auto accesses = binding::accesses(arguments...);
        launch_command command = body::command(closure);
        sluice::detail::add_notice(*where.on, name, closure, command);
        submit_launch(*where.on, name, accesses, range.location, command);
    }
}

}  // namespace SLUICE_LAUNCH_ABI
}  // namespace sluice::nn::detail
