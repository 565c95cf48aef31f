// SPDX-License-Identifier: Apache-2.0
// What one_of.hpp needs to know of its kernels and arguments, and the parts of it that are no templates.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <span>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "sluice/kernels/tile_launch.hpp"
#include "sluice/kernels/tuning_table.hpp"
#include "sluice/runtime/batch_partition.hpp"
#include "sluice/runtime/launch.hpp"
#include "sluice/runtime/launch_operations.hpp"

namespace sluice {
template <typename... Kernels>
class one_of;
}

namespace sluice::detail {

// The position of the kernel that the table has for these shapes on the stream's device; 0 where it has none, and for a
// null table.
std::size_t chosen_position(stream on, const tuning_table* table, std::span<const std::string_view> kernels,
                            std::span<const shape> shapes);

// Measures each of the functions, which launch one kernel each, and adds the result to the table.
tuning_measurement measure(device& on, tuning_table* table, std::span<const std::string_view> kernels,
                           std::span<const shape> shapes, std::span<const std::function<void(stream)>> runs);

// --- the arguments -------------------------------------------------------------------------------------------

template <typename Argument>
inline constexpr bool is_in_tiles = false;
template <typename T>
inline constexpr bool is_in_tiles<partition<T>> = true;
template <typename T>
inline constexpr bool is_in_tiles<batch_partition<T>> = true;

// The shapes of the tensors among the arguments, in order.
template <std::size_t Most>
class argument_shapes {
public:
    template <typename... Arguments>
    explicit argument_shapes(const Arguments&... arguments) {
        (add(arguments), ...);
    }
    std::span<const shape> all() const noexcept { return std::span(shapes_).first(count_); }

private:
    template <typename Argument>
    void add(const Argument&) {}
    template <typename T>
    void add(const tensor<T>& x) {
        shapes_[count_++] = x.shape();
    }
    template <typename T>
    void add(const shared<tensor<T>>& x) {
        shapes_[count_++] = x->shape();
    }
    template <typename T>
    void add(const partition<T>& x) {
        add(x.whole());
    }
    template <typename T>
    void add(const batch_partition<T>& x) {
        add(x.whole());
    }

    std::array<shape, Most> shapes_{};
    std::size_t count_ = 0;
};

// --- the kernels ---------------------------------------------------------------------------------------------

template <typename Parameters, typename... Arguments>
struct argument_uses;
template <typename... Parameters, typename... Arguments>
struct argument_uses<type_list<Parameters...>, Arguments...> {
    static constexpr std::array<bool, sizeof...(Arguments)> writes = {
        (bound_argument<Parameters, Arguments>::use == argument_use::written)...};

    // Whether kernels with these parameters write the same arguments.
    template <typename... Others>
    static constexpr bool are_those_of(type_list<Others...>) {
        return writes == std::array<bool, sizeof...(Arguments)>{
                             (bound_argument<Others, Arguments>::use == argument_use::written)...};
    }
    // Whether one is written in tiles.
    static constexpr bool write_tiles() {
        constexpr bool tiled[] = {is_in_tiles<Arguments>...};
        for (std::size_t i = 0; i < sizeof...(Arguments); ++i) {
            if (writes[i] && tiled[i]) return true;
        }
        return false;
    }
};

template <typename Kernels>
struct first_of_choice;
template <typename First, typename... Rest>
struct first_of_choice<one_of<First, Rest...>> {
    using parameters = typename kernel_signature<First>::parameters;
};

// Reports the first kernel that does not fit, with a readable message.
template <typename Kernel, typename First, typename... Arguments>
constexpr bool check_choice() {
    static_assert(has_kernel_signature<Kernel>,
                  "one_of: a kernel is a class with one `void operator()(index, parameters...) const`");
    if constexpr (has_kernel_signature<Kernel>) {
        if constexpr (argument_check<Kernel, Arguments...>::passed) {
            using uses = argument_uses<typename kernel_signature<First>::parameters, Arguments...>;
            constexpr bool same = uses::are_those_of(typename kernel_signature<Kernel>::parameters{});
            static_assert(same, "one_of: all kernels write the same arguments");
            constexpr bool is_free = !tile_kernel<Kernel> || !uses::write_tiles();
            static_assert(is_free,
                          "one_of: what tile kernels write is a tensor; a partition has the tiles of one of them");
            return same && is_free;
        }
    }
    return false;
}

template <typename Kernels, typename... Arguments>
struct choice_check;
template <typename First, typename... Rest, typename... Arguments>
struct choice_check<type_list<First, Rest...>, Arguments...> {
    static constexpr bool passed =
        (check_choice<First, First, Arguments...>() && ... && check_choice<Rest, First, Arguments...>());
};

// The range as given, or over what the kernels write.
template <typename Kernels, typename Range, typename... Arguments>
auto choice_range(const Range& range, const Arguments&... arguments) {
    if constexpr (any_launch_range<Range>) {
        return range;
    } else {
        using parameters = typename first_of_choice<Kernels>::parameters;
        constexpr std::size_t at = written_arguments<parameters, Arguments...>::position();
        return each_of(std::get<at>(std::tie(arguments...)), range.location);
    }
}

}  // namespace sluice::detail
