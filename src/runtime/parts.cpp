// SPDX-License-Identifier: Apache-2.0
#include "sluice/runtime/parts.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <string>

namespace sluice::detail {
namespace {

[[noreturn]] void refuse(const char* what, const std::string& why) { throw error(errc::shape_mismatch, why, {what}); }

std::string alignment_of(std::size_t one) {
    return "a part begins at a multiple of " + std::to_string(part_alignment) + " bytes, and one index of the first " +
           "dimension has " + std::to_string(one);
}

// The least length, other than 0, after which the next part is aligned.
std::size_t step_of(std::size_t one) { return one == 0 ? 1 : part_alignment / std::gcd(part_alignment, one); }

void require_dimension(const char* what, const shape& whole) {
    if (whole.rank() == 0) refuse(what, "a tensor of one element has no parts");
}

}  // namespace

std::size_t bytes_of_one(const shape& whole, std::size_t element_bytes) noexcept {
    std::size_t bytes = element_bytes;
    for (std::size_t i = 1; i < whole.rank(); ++i) bytes *= whole[i];
    return bytes;
}

shape with_length(const shape& whole, std::size_t length) {
    std::array<std::size_t, shape::max_rank> extents{};
    for (std::size_t i = 0; i < whole.rank(); ++i) extents[i] = i == 0 ? length : whole[i];
    return shape(std::span<const std::size_t>(extents.data(), whole.rank()));
}

std::vector<std::size_t> equal_parts(const shape& whole, std::size_t element_bytes, std::size_t count) {
    require_dimension("split", whole);
    const std::size_t one = bytes_of_one(whole, element_bytes);
    const std::size_t step = step_of(one);
    const std::size_t length = whole[0];
    const std::size_t steps = (length + step - 1) / step;  // the last one may be shorter
    if (count == 0 || (count > steps && count != 1)) {
        refuse("split", to_string(whole) + " has no " + std::to_string(count) + " parts: " + alignment_of(one));
    }
    std::vector<std::size_t> lengths(count);
    std::size_t taken = 0;
    for (std::size_t i = 0; i < count; ++i) {
        // As even as possible in steps: the first parts get one step more.
        const std::size_t own = (steps / count + (i < steps % count ? 1 : 0)) * step;
        lengths[i] = std::min(own, length - taken);
        taken += lengths[i];
    }
    return lengths;
}

void require_parts(const shape& whole, std::size_t element_bytes, std::span<const std::size_t> lengths) {
    require_dimension("split", whole);
    const std::size_t one = bytes_of_one(whole, element_bytes);
    std::size_t sum = 0;
    for (const std::size_t length : lengths) {
        if (sum % step_of(one) != 0)
            refuse("split", "a part cannot begin at " + std::to_string(sum) + ": " + alignment_of(one));
        if (length > whole[0] - sum)
            refuse("split", "the parts are longer than the first dimension of " + to_string(whole));
        sum += length;
    }
    if (sum != whole[0])
        refuse("split", "the parts have " + std::to_string(sum) + " together, and the first dimension of " +
                            to_string(whole) + " has " + std::to_string(whole[0]));
}

void require_slice(const shape& whole, std::size_t element_bytes, std::size_t first, std::size_t length) {
    require_dimension("slice", whole);
    if (first > whole[0] || length > whole[0] - first) {
        refuse("slice", std::to_string(length) + " from " + std::to_string(first) +
                            " are not in the first dimension of " + to_string(whole));
    }
    const std::size_t one = bytes_of_one(whole, element_bytes);
    if (first % step_of(one) != 0)
        refuse("slice", "a part cannot begin at " + std::to_string(first) + ": " + alignment_of(one));
}

shape require_neighbours(std::span<const part_view> parts) {
    const auto refuse_argument = [](const char* why) { throw error(errc::invalid_argument, why, {"join"}); };
    if (parts.empty()) refuse_argument("there are no parts to join");
    std::size_t length = 0;
    const std::byte* next = nullptr;
    for (const part_view& each : parts) {
        if (each.memory == nullptr) refuse_moved_tensor({"join"});
        const part_view& first = parts.front();
        if (each.memory->whole() == nullptr || each.memory->whole() != first.memory->whole())
            refuse_argument("these tensors are not parts of one tensor");
        const auto* const begin = static_cast<const std::byte*>(each.memory->data());
        if (next != nullptr && begin != next) refuse_argument("the parts do not follow each other in this order");
        if (each.shape.rank() == 0 || with_length(each.shape, 0) != with_length(first.shape, 0))
            throw error(
                errc::shape_mismatch,
                "a part of shape " + to_string(each.shape) + " does not fit to one of " + to_string(first.shape),
                {"join"});
        length += each.shape[0];
        next = begin + each.bytes;
    }
    return with_length(parts.front().shape, length);
}

}  // namespace sluice::detail
