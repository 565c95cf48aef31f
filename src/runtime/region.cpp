// SPDX-License-Identifier: Apache-2.0
#include "sluice/runtime/region.hpp"

#include <vector>

#include "runtime/upload_rows.hpp"
#include "sluice/runtime/copy_region.hpp"
#include "sluice/runtime/transfer_region.hpp"

namespace sluice {
namespace {

// As many indices as there are dimensions, and more when others are not 0.
std::string text_of(const position& at, std::size_t rank) {
    for (std::size_t i = rank; i < at.size(); ++i) {
        if (at[i] != 0) rank = i + 1;
    }
    std::string text = "[";
    for (std::size_t i = 0; i < rank; ++i) text += (i == 0 ? "" : ", ") + std::to_string(at[i]);
    return text + "]";
}

bool is_inside(const shape& whole, const region& where) noexcept {
    if (where.shape.is_none() || where.shape.rank() != whole.rank()) return false;
    for (std::size_t i = 0; i < where.at.size(); ++i) {
        if (i >= whole.rank()) {
            if (where.at[i] != 0) return false;
        } else if (where.at[i] > whole[i] || where.shape[i] > whole[i] - where.at[i]) {
            return false;
        }
    }
    return true;
}

// The bytes from one index of a dimension to the next.
std::size_t stride_of(const shape& whole, std::size_t dimension, std::size_t element_bytes) noexcept {
    std::size_t bytes = element_bytes;
    for (std::size_t i = dimension + 1; i < whole.rank(); ++i) bytes *= whole[i];
    return bytes;
}

}  // namespace

std::string to_string(const region& value) {
    return to_string(value.shape) + " at " + text_of(value.at, value.shape.rank());
}

namespace detail {

void require_region(const shape& whole, const region& where, const error_context& context) {
    if (is_inside(whole, where)) return;
    throw error(errc::shape_mismatch, "the region " + to_string(where) + " is not inside " + to_string(whole), context);
}

host_layout require_layout(std::size_t size, const region& where, const host_layout& layout,
                           const error_context& context) {
    const host_layout made = layout.whole.is_none() ? host_layout{where.shape, layout.at} : layout;
    if (size != made.whole.size()) {
        throw error(errc::shape_mismatch,
                    "host memory of " + std::to_string(size) + " elements does not have shape " + to_string(made.whole),
                    context);
    }
    require_region(made.whole, {made.at, where.shape}, context);
    return made;
}

void require_same_shape(const region& to, const region& from, const error_context& context) {
    if (to.shape == from.shape) return;
    throw error(
        errc::shape_mismatch,
        "a region of shape " + to_string(from.shape) + " cannot be copied to one of shape " + to_string(to.shape),
        context);
}

void require_apart(const region& to, const region& from, const error_context& context) {
    for (std::size_t i = 0; i < to.shape.rank(); ++i) {
        const std::size_t distance = to.at[i] < from.at[i] ? from.at[i] - to.at[i] : to.at[i] - from.at[i];
        if (distance >= to.shape[i]) return;
    }
    throw error(errc::invalid_argument,
                "the regions " + to_string(from) + " and " + to_string(to) +
                    " of one tensor overlap: copy the region to a tensor of its own first",
                context);
}

region_copy::region_copy(const shape& extents, std::size_t element_bytes, const shape& from, const position& from_at,
                         const shape& to, const position& to_at) {
    if (extents.size() == 0) return;
    row_bytes_ = element_bytes;
    std::vector<step> steps;  // the innermost first
    for (std::size_t i = extents.rank(); i-- != 0;) {
        const step next{extents[i], stride_of(from, i, element_bytes), stride_of(to, i, element_bytes)};
        start_.from += from_at[i] * next.from;
        start_.to += to_at[i] * next.to;
        if (next.count == 1) continue;
        if (steps.empty() && next.from == row_bytes_ && next.to == row_bytes_) {
            row_bytes_ *= next.count;
        } else if (!steps.empty() && next.from == steps.back().from * steps.back().count &&
                   next.to == steps.back().to * steps.back().count) {
            steps.back().count *= next.count;
        } else {
            steps.push_back(next);
        }
    }
    // The innermost dimension has no gaps, so at most three are left.
    if (!steps.empty()) rows_ = {steps[0].count, steps[0].from, steps[0].to};
    for (std::size_t i = 1; i < steps.size(); ++i) planes_[planes_.size() - i] = steps[i];
}

void copy_region_bytes(stream on, const command_info& info, storage& to, storage& from, const region_copy& what,
                       copy_direction direction) {
    const bool is_one = &to == &from;
    const std::array accesses{memory_access{&to, access_mode::write}, memory_access{&from, access_mode::read}};
    const std::span<const memory_access> named(accesses.data(), is_one ? 1 : 2);
    what.for_each(to.data(), from.data(), direction,
                  [&](const copy_command& each) { on.copy({info.name, named, info.location}, each); });
}

void upload_region_bytes(stream on, storage& to, const void* from, std::shared_ptr<const void> owner,
                         const region_copy& what, const source_location& location) {
    what.for_each(to.data(), from, copy_direction::host_to_device, [&](copy_command each) {
        each.host_owner = owner;
        upload_rows(on, {"upload", {}, location}, to, each);
    });
}

storage_ref download_region_bytes(stream on, void* to, const std::shared_ptr<const void>& owner, storage& from,
                                  const region_copy& what, const source_location& location) {
    // As for a whole tensor: a storage of our own has the history of the user's memory.
    storage_ref landed = on.allocate_host(0, {"download", {}, location});
    const std::array accesses{memory_access{&from, access_mode::read}, memory_access{landed.get(), access_mode::write}};
    what.for_each(to, from.data(), copy_direction::device_to_host, [&](copy_command each) {
        each.host_owner = owner;
        on.copy({"download", accesses, location}, each);
    });
    return landed;
}

}  // namespace detail
}  // namespace sluice
