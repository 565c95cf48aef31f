// SPDX-License-Identifier: Apache-2.0
// What the files of movement.cu's family share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "nn/operators/node_call.hpp"
#include "nn/operators/table.hpp"
#include "sluice/base/kernel.hpp"

namespace sluice::nn::operators {

// Which element of a tensor an index means: each dimension of the index has a stride, which is negative where it runs
// backwards and 0 where the tensor is repeated.
struct strided_view {
    static constexpr std::size_t max_rank = 12;

    std::size_t rank = 0, count = 1;
    std::size_t length[max_rank] = {};
    std::int64_t stride[max_rank] = {};
    std::int64_t begin = 0;

    template <typename Index>
    SLUICE_KERNEL std::int64_t place_of(Index i) const {
        std::int64_t at = begin;
        for (std::size_t d = rank; d-- > 1;) {
            const auto here = static_cast<Index>(length[d]);
            const Index rest = i / here;
            at += static_cast<std::int64_t>(i - rest * here) * stride[d];
            i = rest;
        }
        return rank == 0 ? at : at + static_cast<std::int64_t>(i) * stride[0];
    }
    // Divisions of 32 bits are much faster on a GPU.
    SLUICE_KERNEL std::int64_t operator()(std::size_t i) const {
        return count <= 0xffff'ffffu ? place_of(static_cast<std::uint32_t>(i)) : place_of(i);
    }
};

// The view with these lengths and strides. Neighbouring dimensions become one where that is possible; refuses what has
// too many then.
strided_view view_of(const node_call& in, const lengths& shape, const integers& strides, std::int64_t begin = 0);
// The strides of a row-major tensor.
integers signed_strides_of(const lengths& shape);

// The output is x seen so, in the shape `as`. It is x itself if these are its elements in their order.
void give_view(node_call& in, std::size_t output, const any_tensor& x, const lengths& shape, const integers& strides,
               std::int64_t begin, const lengths& as);
inline void give_view(node_call& in, std::size_t output, const any_tensor& x, const lengths& shape,
                      const integers& strides, std::int64_t begin = 0) {
    give_view(in, output, x, shape, strides, begin, shape);
}

// An input that is a list of lengths, which are known on the host.
lengths lengths_of_input(const node_call& in, std::size_t input);
// The bits of a number as an element of this type.
std::uint64_t bits_of_number(io::dtype type, double number);

// A tensor of i32 or i64 whose numbers are places of another tensor, counted from the end if negative.
struct index_list {
    const void* at;
    std::uint64_t is_wide;

    SLUICE_KERNEL std::int64_t operator[](std::size_t i) const {
        return is_wide != 0 ? static_cast<const std::int64_t*>(at)[i] : static_cast<const std::int32_t*>(at)[i];
    }
    // Below the length, or -1 if there is no such place.
    SLUICE_KERNEL std::int64_t place_in(std::size_t i, std::size_t length) const {
        const auto all_places = static_cast<std::int64_t>(length);
        std::int64_t place = (*this)[i];
        if (place < 0) place += all_places;
        return place >= 0 && place < all_places ? place : -1;
    }
};
// Refuses other types.
index_list index_list_of(const node_call& in, const any_tensor& indices);
// Indices (input 1) of places that are not there are refused, as number_checks.hpp says.
void require_places(const node_call& in, std::size_t length, const any_tensor& y);

// The tuples that are the last dimension of the indices (input 1), each as one number: the place in the tensor's first
// dimensions when they are one, after `batches` dimensions that the indices have too. The number of places stands for a
// tuple that is none. Such tuples are refused, as number_checks.hpp says.
any_tensor places_of_tuples(const node_call& in, const lengths& shape, std::size_t batches, const any_tensor& y);

// The operators of the family's other files.
const std::vector<definition>& filling();
const std::vector<definition>& indexing();
const std::vector<definition>& scattering();
const std::vector<definition>& selection();

}  // namespace sluice::nn::operators
