// SPDX-License-Identifier: Apache-2.0
// What the files that write elements to places of a tensor share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "nn/operators/movement.hpp"
#include "sluice/base/detail/is_nan.hpp"

namespace sluice::nn::operators {

enum class scatter_reduction : std::uint64_t { replace, add, multiply, least, most };

// Where the updates and their indices are, and where they go: as lines of steps. All steps of a line go to places that
// no other line goes to.
struct scatter_lines {
    index_list indices{};
    strided_view target, update, index;  // of a line, at its begin
    std::size_t lines = 0, steps = 0;
    std::size_t update_step = 0, index_step = 0;  // from one step to the next
    std::size_t length = 0, stride = 0;           // of the places
    // This many lines are neighbours in all three. Of runs: all lines are, and a step has one index for them.
    std::size_t run = 1;
    std::uint64_t is_of_runs = 0;

    // The element of the output, or -1 if there is no such place.
    SLUICE_KERNEL std::int64_t target_of(std::size_t line, std::size_t step) const {
        const std::int64_t place = indices.place_in(static_cast<std::size_t>(index(line)) + step * index_step, length);
        return place < 0 ? -1 : target(line) + place * static_cast<std::int64_t>(stride);
    }
    SLUICE_KERNEL std::size_t update_of(std::size_t line, std::size_t step) const {
        return static_cast<std::size_t>(update(line)) + step * update_step;
    }
};

// An element that is there, and an update of it.
template <typename T>
SLUICE_KERNEL T scattered(scatter_reduction how, T there, T update) {
    // Integers that overflow begin again.
    using wide = std::conditional_t<std::is_integral_v<T>, std::uint64_t, computed<T>>;
    const auto a = static_cast<computed<T>>(there), b = static_cast<computed<T>>(update);
    switch (how) {
        case scatter_reduction::replace: break;
        case scatter_reduction::add:
            return static_cast<T>(static_cast<computed<T>>(static_cast<wide>(a) + static_cast<wide>(b)));
        case scatter_reduction::multiply:
            return static_cast<T>(static_cast<computed<T>>(static_cast<wide>(a) * static_cast<wide>(b)));
        case scatter_reduction::least:
            return static_cast<T>(sluice::detail::is_nan(a) || a < b ? a : b);  // NaN if one is
        case scatter_reduction::most: return static_cast<T>(sluice::detail::is_nan(a) || b < a ? a : b);
    }
    return update;
}

// Carries out all steps on a CPU, where y has the elements before them. False on a GPU.
bool scatter_on_cpu(const node_call& in, const any_tensor& indices, const any_tensor& updates, const scatter_lines& at,
                    scatter_reduction how, const any_tensor& y);

}  // namespace sluice::nn::operators
