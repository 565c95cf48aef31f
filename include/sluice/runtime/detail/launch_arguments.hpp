// SPDX-License-Identifier: Apache-2.0
// Matches the arguments of a launch with the kernel's parameters. See launch.hpp.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "sluice/base/source_location.hpp"
#include "sluice/runtime/command.hpp"
#include "sluice/runtime/detail/closure.hpp"
#include "sluice/runtime/tensor.hpp"
#include "sluice/runtime/view.hpp"

namespace sluice::detail {

// --- the kernel's signature ---------------------------------------------------------------------------

template <typename... Ts>
struct type_list {
    static constexpr std::size_t size = sizeof...(Ts);
};

template <typename CallOperator>
struct call_operator_signature {};
template <typename Kernel, typename Index, typename... Parameters>
struct call_operator_signature<void (Kernel::*)(Index, Parameters...) const> {
    using index = std::remove_cvref_t<Index>;
    using parameters = type_list<std::remove_cvref_t<Parameters>...>;
    static constexpr bool takes_references = (std::is_reference_v<Parameters> || ...);
};
template <typename Kernel, typename Index, typename... Parameters>
struct call_operator_signature<void (Kernel::*)(Index, Parameters...) const noexcept>
    : call_operator_signature<void (Kernel::*)(Index, Parameters...) const> {};

// Empty for what is no kernel.
template <typename Kernel>
struct kernel_signature {};
template <typename Kernel>
requires requires { &Kernel::operator(); }
struct kernel_signature<Kernel> : call_operator_signature<decltype(&Kernel::operator())> {};

enum class index_kind : unsigned char { none, one, two, tile, tile_block };
// (Specialized for tile_block, of kernels/tile_launch.hpp.)
template <typename Index>
inline constexpr index_kind index_kind_of = std::is_same_v<Index, index_1d>     ? index_kind::one
                                            : std::is_same_v<Index, index_2d>   ? index_kind::two
                                            : std::is_same_v<Index, tile_index> ? index_kind::tile
                                                                                : index_kind::none;

template <typename Kernel>
concept has_kernel_signature = requires { typename kernel_signature<Kernel>::index; } &&
                               index_kind_of<typename kernel_signature<Kernel>::index> != index_kind::none;

// --- one argument for one parameter ----------------------------------------------------------------------

// Throws errc::shape_mismatch unless the shape is a matrix.
void require_matrix(const shape& given, const error_context& context);

enum class argument_use : unsigned char { impossible, by_value, read, written };

template <typename Parameter, typename Argument>
struct bound_argument {
    static constexpr argument_use use =
        std::is_convertible_v<Argument, Parameter> && std::is_trivially_copyable_v<Parameter>
            ? argument_use::by_value
            : argument_use::impossible;
    static Parameter bind(const Argument& argument, const error_context&) { return argument; }
};

template <typename T>
struct bound_argument<view<const T>, tensor<T>> {
    static constexpr argument_use use = argument_use::read;
    static view<const T> bind(const tensor<T>& from, const error_context& context) {
        require_held(from, context);
        return {from.device_data(), from.size()};
    }
    static storage* memory(const tensor<T>& from) { return from.memory(); }
};
template <typename T>
struct bound_argument<matrix_view<const T>, tensor<T>> {
    static constexpr argument_use use = argument_use::read;
    static matrix_view<const T> bind(const tensor<T>& from, const error_context& context) {
        require_held(from, context);
        require_matrix(from.shape(), context);
        return {from.device_data(), from.rows(), from.columns()};
    }
    static storage* memory(const tensor<T>& from) { return from.memory(); }
};
template <typename T>
struct bound_argument<disjoint_view<T>, tensor<T>> {
    static constexpr argument_use use = argument_use::written;
    static disjoint_view<T> bind(const tensor<T>& to, const error_context& context) {
        require_held(to, context);
        return {to.device_data(), to.size()};
    }
    static storage* memory(const tensor<T>& to) { return to.memory(); }
};
template <typename T>
struct bound_argument<disjoint_matrix<T>, tensor<T>> {
    static constexpr argument_use use = argument_use::written;
    static disjoint_matrix<T> bind(const tensor<T>& to, const error_context& context) {
        require_held(to, context);
        require_matrix(to.shape(), context);
        return {to.device_data(), to.rows(), to.columns()};
    }
    static storage* memory(const tensor<T>& to) { return to.memory(); }
};
template <typename T>
struct bound_argument<disjoint_tiles<T>, partition<T>> {
    static constexpr argument_use use = argument_use::written;
    static disjoint_tiles<T> bind(const partition<T>& to, const error_context& context) {
        require_held(to.whole(), context);
        return {to.whole().device_data(), to.whole().rows(), to.whole().columns(), to.tile_shape().rows(),
                to.tile_shape().columns()};
    }
    static storage* memory(const partition<T>& to) { return to.whole().memory(); }
};

// Where a tensor may be read, a partition or a shared tensor may be read too. A launch never writes these through such
// a parameter.
template <typename Parameter, typename Tensor>
inline constexpr argument_use use_if_read =
    bound_argument<Parameter, Tensor>::use == argument_use::read ? argument_use::read : argument_use::impossible;

template <typename Parameter, typename T>
requires(use_if_read<Parameter, tensor<T>> == argument_use::read)
struct bound_argument<Parameter, partition<T>> {
    static constexpr argument_use use = argument_use::read;
    static Parameter bind(const partition<T>& from, const error_context& context) {
        return bound_argument<Parameter, tensor<T>>::bind(from.whole(), context);
    }
    static storage* memory(const partition<T>& from) { return from.whole().memory(); }
};
template <typename Parameter, typename Shared>
requires(use_if_read<Parameter, Shared> == argument_use::read)
struct bound_argument<Parameter, shared<Shared>> {
    static constexpr argument_use use = argument_use::read;
    static Parameter bind(const shared<Shared>& from, const error_context& context) {
        return bound_argument<Parameter, Shared>::bind(*from, context);
    }
    static storage* memory(const shared<Shared>& from) { return bound_argument<Parameter, Shared>::memory(*from); }
};

// --- all arguments ------------------------------------------------------------------------------------------

// Reports the first argument that does not fit, with a readable message.
template <std::size_t Position, typename Parameter, typename Argument>
constexpr bool check_argument() {
    constexpr bool fits = bound_argument<Parameter, Argument>::use != argument_use::impossible;
    static_assert(fits,
                  "launch: this argument does not fit the kernel's parameter (see Position, Parameter and Argument): a "
                  "disjoint view needs an owned tensor or partition of the same element type, a read-only view needs a "
                  "tensor, partition or shared tensor of it, anything else a trivially copyable value");
    return fits;
}

template <typename Parameters, typename... Arguments>
struct checked_arguments;
template <typename... Parameters, typename... Arguments>
struct checked_arguments<type_list<Parameters...>, Arguments...> {
    template <std::size_t... Positions>
    static constexpr bool check(std::index_sequence<Positions...>) {
        return (check_argument<Positions, Parameters, Arguments>() && ...);
    }
    static constexpr bool passed = check(std::index_sequence_for<Arguments...>());
    static constexpr bool writes = ((bound_argument<Parameters, Arguments>::use == argument_use::written) || ...);
};

template <typename Kernel, typename... Arguments>
struct argument_check {
    using parameters = typename kernel_signature<Kernel>::parameters;
    static constexpr bool count_fits = parameters::size == sizeof...(Arguments);
    static_assert(count_fits,
                  "launch: the number of arguments is not the number of the kernel's parameters after its index");

    static constexpr bool check() {
        if constexpr (count_fits) {
            using checked = checked_arguments<parameters, Arguments...>;
            static_assert(!checked::passed || checked::writes,
                          "launch: the kernel writes nothing: it has no disjoint parameter");
            return checked::passed && checked::writes;
        } else {
            return false;
        }
    }
    static constexpr bool passed = check();
};

// The kernel's argument values, as one trivially copyable object.
template <typename... Ts>
struct kernel_values {
    template <typename Function, typename... Before>
    SLUICE_KERNEL void apply(const Function& f, const Before&... before) const {
        f(before...);
    }
};
template <typename First, typename... Rest>
struct kernel_values<First, Rest...> {
    First first;
    kernel_values<Rest...> rest;

    template <typename Function, typename... Before>
    SLUICE_KERNEL void apply(const Function& f, const Before&... before) const {
        rest.apply(f, before..., first);
    }
};
template <typename First, typename... Rest>
inline constexpr bool can_clear_padding<kernel_values<First, Rest...>> =
    can_clear_padding<First> && can_clear_padding<kernel_values<Rest...>>;

inline kernel_values<> make_kernel_values() { return {}; }
template <typename First, typename... Rest>
kernel_values<First, Rest...> make_kernel_values(First first, Rest... rest) {
    return {first, make_kernel_values(rest...)};
}

template <typename... Written>
struct written_output {
    using type = std::tuple<Written...>;
    static type make(std::tuple<Written...> written) { return written; }
};
template <typename Only>
struct written_output<Only> {
    using type = Only;
    static type make(std::tuple<Only> written) { return std::get<0>(std::move(written)); }
};
template <typename Tuple>
struct written_output_of;
template <typename... Written>
struct written_output_of<std::tuple<Written...>> : written_output<Written...> {};

template <typename Parameters, typename... Arguments>
struct argument_binding;
template <typename... Parameters, typename... Arguments>
struct argument_binding<type_list<Parameters...>, Arguments...> {
    template <typename Parameter, typename Argument>
    static constexpr argument_use use_of = bound_argument<Parameter, Argument>::use;
    // A graph that the kernel launches.
    template <typename Parameter, typename Argument>
    static constexpr bool is_launched = requires { bound_argument<Parameter, Argument>::launched_memory; };

    // The number of storages that an argument names.
    template <typename Parameter, typename Argument>
    static constexpr std::size_t memory_count() {
        if constexpr (is_launched<Parameter, Argument>) {
            return bound_argument<Parameter, Argument>::launched_memory;
        } else {
            return use_of<Parameter, Argument> >= argument_use::read ? 1 : 0;
        }
    }
    static constexpr std::size_t access_count = (std::size_t{0} + ... + memory_count<Parameters, Arguments>());
    static constexpr std::size_t launched_count = (std::size_t{0} + ... + (is_launched<Parameters, Arguments> ? 1 : 0));

    static auto bind(const error_context& context, const Arguments&... arguments) {
        return make_kernel_values(bound_argument<Parameters, Arguments>::bind(arguments, context)...);
    }

    static std::array<memory_access, access_count> accesses(const Arguments&... arguments) {
        std::array<memory_access, access_count> list{};
        std::size_t next = 0;
        (add_access<Parameters>(arguments, list, next), ...);
        return list;
    }

    static std::array<launched_graph, launched_count> launched(const Arguments&... arguments) {
        std::array<launched_graph, launched_count> list{};
        std::size_t next = 0;
        (add_launched<Parameters>(arguments, list, next), ...);
        return list;
    }

    using written_tuple =
        decltype(std::tuple_cat(std::declval<std::conditional_t<use_of<Parameters, Arguments> == argument_use::written,
                                                                std::tuple<Arguments>, std::tuple<>>>()...));
    using written = typename written_output_of<written_tuple>::type;

    static written take_written(std::tuple<Arguments...>&& arguments) {
        return std::apply(
            [](Arguments&... each) {
                return written_output_of<written_tuple>::make(std::tuple_cat(keep_written<Parameters>(each)...));
            },
            arguments);
    }

private:
    template <typename Parameter, typename Argument, std::size_t Count>
    static void add_access(const Argument& argument, std::array<memory_access, Count>& list, std::size_t& next) {
        constexpr argument_use use = use_of<Parameter, Argument>;
        using bound = bound_argument<Parameter, Argument>;
        if constexpr (is_launched<Parameter, Argument>) {
            for (storage* const each : bound::launched(argument).memory) list[next++] = {each, access_mode::write};
        } else if constexpr (requires { bound::mode; }) {
            list[next++] = {bound::memory(argument), bound::mode};
        } else if constexpr (use >= argument_use::read) {
            list[next++] = {bound::memory(argument),
                            use == argument_use::written ? access_mode::write : access_mode::read};
        }
    }

    template <typename Parameter, typename Argument, std::size_t Count>
    static void add_launched([[maybe_unused]] const Argument& argument, std::array<launched_graph, Count>& list,
                             std::size_t& next) {
        if constexpr (is_launched<Parameter, Argument>)
            list[next++] = bound_argument<Parameter, Argument>::launched(argument);
        static_cast<void>(list);
        static_cast<void>(next);
    }

    template <typename Parameter, typename Argument>
    static auto keep_written([[maybe_unused]] Argument& argument) {
        if constexpr (use_of<Parameter, Argument> == argument_use::written) {
            return std::tuple<Argument>(std::move(argument));
        } else {
            return std::tuple<>();
        }
    }
};

}  // namespace sluice::detail
