// SPDX-License-Identifier: Apache-2.0
// region: a rectangle of a matrix, or a box of a tensor of up to four dimensions.
//
//     region{.at = {2, 8}, .shape = {4, 16}}            // rows 2 to 5, columns 8 to 23
//     region{.at = {0, 2, 8}, .shape = {3, 4, 16}}      // the same rectangle of the planes 0 to 2
//
// A region says what an operation copies: transfer_region.hpp moves regions between host and device, copy_region.hpp
// copies them on the device. It is no part of the tensor as those of parts.hpp are: it has no history of its own, so
// commands on two regions of one tensor run one after the other.
#pragma once

#include <array>
#include <cstddef>
#include <string>

#include "sluice/base/error.hpp"
#include "sluice/runtime/command.hpp"
#include "sluice/runtime/shape.hpp"

namespace sluice {

using position = std::array<std::size_t, shape::max_rank>;  // one index for each dimension, then zeros

struct region {
    position at = {};     // its first element
    sluice::shape shape;  // as many dimensions as the tensor has
};

// Where a region is in host memory: the memory holds a row-major tensor of shape `whole`, and the region begins there
// at `at`.
//
//     host_layout{.whole = {480, 640}, .at = {100, 200}}
//
// Its default: the memory holds the elements of the region and nothing else.
struct host_layout {
    sluice::shape whole = sluice::shape::none();  // none(): that of the region
    position at = {};                             // of the region in the memory
};

// "[4, 16] at [2, 8]". Costs O(dimensions).
std::string to_string(const region& value);

namespace detail {

// Throws errc::shape_mismatch unless the region is inside a tensor of this shape.
void require_region(const shape& whole, const region& where, const error_context& context);
// The layout, with its default replaced. Throws errc::shape_mismatch unless the memory has as many elements as the
// layout says, and the region is inside.
host_layout require_layout(std::size_t size, const region& where, const host_layout& layout,
                           const error_context& context);
// Throws errc::shape_mismatch unless both regions have the same shape.
void require_same_shape(const region& to, const region& from, const error_context& context);
// Throws errc::invalid_argument when two regions of one tensor, of the same shape, have elements in common.
void require_apart(const region& to, const region& from, const error_context& context);

// The copy of a region from one row-major tensor to another: one command or, for a box, one for each plane. Dimensions
// that lie without gaps on both sides become one.
class region_copy {
public:
    region_copy(const shape& extents, std::size_t element_bytes, const shape& from, const position& from_at,
                const shape& to, const position& to_at);

    std::size_t commands() const noexcept { return row_bytes_ == 0 ? 0 : planes_[0].count * planes_[1].count; }
    std::size_t bytes() const noexcept { return commands() * row_bytes_ * rows_.count; }

    // Calls f(copy_command) for each command, between memory that begins at these addresses.
    template <typename Function>
    void for_each(void* to, const void* from, copy_direction direction, Function&& f) const {
        for (std::size_t i = 0; i < commands(); ++i) {
            const std::size_t outer = i / planes_[1].count, inner = i % planes_[1].count;
            auto* const to_here =
                static_cast<std::byte*>(to) + start_.to + outer * planes_[0].to + inner * planes_[1].to;
            const auto* const from_here =
                static_cast<const std::byte*>(from) + start_.from + outer * planes_[0].from + inner * planes_[1].from;
            f(copy_command{to_here, from_here, row_bytes_, direction, {}, nullptr, rows_});
        }
    }

private:
    struct step {
        std::size_t count = 1;
        std::size_t from = 0;  // in bytes
        std::size_t to = 0;
    };

    std::size_t row_bytes_ = 0;
    copied_rows rows_;
    std::array<step, 2> planes_;
    step start_;
};

}  // namespace detail
}  // namespace sluice
