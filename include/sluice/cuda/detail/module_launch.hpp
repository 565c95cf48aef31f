// SPDX-License-Identifier: Apache-2.0
// Matches the arguments of a module's function with its parameters, and checks a launch against the function's limits.
// See kernel_module.hpp.
#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
#include <type_traits>

#include "sluice/base/error.hpp"
#include "sluice/runtime/blocks.hpp"
#include "sluice/runtime/command.hpp"
#include "sluice/runtime/detail/closure.hpp"
#include "sluice/runtime/detail/launch_arguments.hpp"

namespace sluice {

namespace detail {

// --- the function ---------------------------------------------------------------------------------------------

struct function_limits {
    unsigned max_threads = 0;  // of a block
    launch_extent max_block = {};
    launch_extent max_grid = {};
    std::size_t max_shared_bytes = 0;  // dynamic
};

struct checked_function : loaded_function {
    function_limits limits = {};
};

class loaded_module;

struct parameter_list {
    std::span<const std::size_t> sizes;
    std::span<const std::size_t> offsets;  // in the closure
};
// Throws errc::invalid_argument when the module has no such function, errc::shape_mismatch when its parameters have
// other sizes.
std::shared_ptr<const checked_function> find_function(const std::shared_ptr<const loaded_module>& in,
                                                      std::string_view name, const parameter_list& parameters,
                                                      const source_location& location);
// Throws errc::invalid_argument when a launch exceeds a limit. False for a launch without blocks.
bool check_launch(const checked_function& function, const launch_blocks& over, const error_context& context);
unsigned active_blocks(const checked_function& function, unsigned threads, std::size_t shared_bytes);
unsigned suggested_block(const checked_function& function, std::size_t shared_bytes);

// --- parameters -------------------------------------------------------------------------------------------------

// What a parameter `const T*` and a parameter `T*` receive.
template <typename T>
struct read_address {
    const T* data;
};
template <typename T>
struct written_address {
    T* data;
};

template <typename T>
struct bound_argument<read_address<T>, tensor<T>> {
    static constexpr argument_use use = argument_use::read;
    static read_address<T> bind(const tensor<T>& from, const error_context& context) {
        require_held(from, context);
        return {from.device_data()};
    }
    static storage* memory(const tensor<T>& from) { return from.memory(); }
};
template <typename T>
struct bound_argument<written_address<T>, tensor<T>> {
    static constexpr argument_use use = argument_use::written;
    static written_address<T> bind(const tensor<T>& to, const error_context& context) {
        require_held(to, context);
        return {to.device_data()};
    }
    static storage* memory(const tensor<T>& to) { return to.memory(); }
};

template <typename Parameter>
struct module_parameter {
    static_assert(!std::is_reference_v<Parameter>, "a function of a module takes its parameters by value");
    static_assert(std::is_trivially_copyable_v<Parameter>, "parameters are copied to the device byte by byte");
    static_assert(alignof(Parameter) <= alignof(std::max_align_t), "parameters are not over-aligned");
    using type = Parameter;
};
template <typename T>
struct module_parameter<const T*> {
    static_assert(!std::is_void_v<T>, "write the element type: const float*");
    using type = read_address<T>;
};
template <typename T>
struct module_parameter<T*> {
    static_assert(!std::is_void_v<T>, "write the element type: float*");
    using type = written_address<T>;
};

// The parameters one after the other, as in a struct; the bytes between them are 0.
template <typename... Parameters>
class parameter_block {
public:
    static constexpr std::size_t count = sizeof...(Parameters);
    static constexpr std::array<std::size_t, count> sizes{sizeof(Parameters)...};
    static constexpr std::array<std::size_t, count> offsets = [] {
        constexpr std::array<std::size_t, count> alignments{alignof(Parameters)...};
        std::array<std::size_t, count> made{};
        for (std::size_t i = 0, end = 0; i < count; ++i) {
            made[i] = (end + alignments[i] - 1) / alignments[i] * alignments[i];
            end = made[i] + sizes[i];
        }
        return made;
    }();
    static constexpr std::size_t bytes = offsets[count - 1] + sizes[count - 1];
    static_assert(bytes <= 4096, "the parameters of a function take at most 4096 bytes");

    template <std::size_t Position, typename Value>
    void set(Value value) {
        clear_padding(value);
        std::memcpy(data_.data() + offsets[Position], &value, sizeof(value));
    }
    const void* data() const noexcept { return data_.data(); }

private:
    alignas(std::max_align_t) std::array<std::byte, bytes> data_{};
};

template <typename List>
struct parameter_block_of;
template <typename... Parameters>
struct parameter_block_of<type_list<Parameters...>> {
    using type = parameter_block<Parameters...>;
};
template <typename List>
parameter_list parameters_of() {
    using block = typename parameter_block_of<List>::type;
    return {block::sizes, block::offsets};
}

// Reports the first argument that does not fit, with a readable message.
template <std::size_t Position, typename Parameter, typename Argument>
constexpr bool check_module_argument() {
    constexpr bool fits = bound_argument<Parameter, Argument>::use != argument_use::impossible;
    static_assert(fits,
                  "this argument does not fit the function's parameter (see Position, Parameter and Argument): T* and "
                  "disjoint views need an owned tensor<T>, const T* and read-only views a tensor, partition or shared "
                  "tensor of T, anything else a trivially copyable value");
    return fits;
}

template <typename Parameters, typename... Arguments>
struct module_call;
template <typename... Parameters, typename... Arguments>
struct module_call<type_list<Parameters...>, Arguments...> {
    static constexpr bool count_fits = sizeof...(Parameters) == sizeof...(Arguments);
    static_assert(count_fits, "the number of arguments is not the number of the function's parameters");

    template <std::size_t... Positions>
    static constexpr bool check(std::index_sequence<Positions...>) {
        constexpr bool fits = (check_module_argument<Positions, Parameters, Arguments>() && ...);
        constexpr bool writes = ((bound_argument<Parameters, Arguments>::use == argument_use::written) || ...);
        static_assert(!fits || writes, "the function writes nothing: it has no parameter T* and no disjoint view");
        return fits && writes;
    }
    static constexpr bool passed() {
        if constexpr (count_fits) {
            return check(std::index_sequence_for<Arguments...>());
        } else {
            return false;
        }
    }

    using block = parameter_block<Parameters...>;

    static block bind(const error_context& context, const Arguments&... arguments) {
        return bind(std::index_sequence_for<Arguments...>(), context, arguments...);
    }

private:
    template <std::size_t... Positions>
    static block bind(std::index_sequence<Positions...>, const error_context& context, const Arguments&... arguments) {
        block made;
        (made.template set<Positions>(bound_argument<Parameters, Arguments>::bind(arguments, context)), ...);
        return made;
    }
};

}  // namespace detail
}  // namespace sluice
