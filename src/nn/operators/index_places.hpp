// SPDX-License-Identifier: Apache-2.0
// Loops over a list of indices on a CPU: what an index is, in 32 or 64 bits, is asked once for all of them.
//
//     with_places(indices, length, [&](const auto& place_of) { use(place_of(i)); });   the place, or -1
#pragma once

#include <cstddef>
#include <cstdint>

#include "nn/operators/movement.hpp"

namespace sluice::nn::operators {

template <typename Index>
struct places_of {
    const Index* at;
    std::int64_t length;

    // As index_list::place_in.
    std::int64_t operator()(std::size_t i) const {
        auto place = static_cast<std::int64_t>(at[i]);
        place += place < 0 ? length : 0;
        return static_cast<std::uint64_t>(place) < static_cast<std::uint64_t>(length) ? place : -1;
    }
};

template <typename Function>
void with_places(const index_list& indices, std::size_t length, const Function& function) {
    const auto places = static_cast<std::int64_t>(length);
    if (indices.is_wide != 0) {
        function(places_of<std::int64_t>{static_cast<const std::int64_t*>(indices.at), places});
    } else {
        function(places_of<std::int32_t>{static_cast<const std::int32_t*>(indices.at), places});
    }
}

}  // namespace sluice::nn::operators
