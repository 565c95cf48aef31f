// SPDX-License-Identifier: Apache-2.0
#include "sluice/serve/shared_region.hpp"

#include <algorithm>
#include <utility>

#include "serve/region_checks.hpp"
#include "sluice/base/printable.hpp"
#include "sluice/serve/refusal.hpp"

namespace sluice::serve {
namespace {

constexpr std::size_t longest_region_name = 128;

// As those of models, so that paths need no decoding.
bool is_region_name(std::string_view name) noexcept {
    const auto is_right = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
               c == '-';
    };
    return !name.empty() && name.size() <= longest_region_name && name.front() != '.' &&
           std::ranges::all_of(name, is_right);
}

}  // namespace

void refuse_region(const std::string& why) { throw refusal(refusal_kind::bad_request, why); }

std::string region_words(std::string_view name) { return "the shared memory region " + in_quotes(name); }

shared_region::shared_region(region_kind kind, std::string name, std::uint64_t bytes)
    : kind_(kind), name_(std::move(name)), bytes_(bytes) {
    if (!is_region_name(name_)) {
        refuse_region(in_quotes(name_) +
                      " is no name of a region; accepted are at most 128 letters, digits, '.', '_' and '-', the first "
                      "no '.'");
    }
    if (bytes_ == 0) refuse_region(region_words(name_) + " has no bytes; 'byte_size' must be at least 1");
}

void shared_region::require_part(std::uint64_t offset, std::uint64_t bytes) const {
    if (is_inside(offset, bytes, bytes_)) return;
    refuse_region(std::to_string(bytes) + " bytes from " + std::to_string(offset) + " on are not in " +
                  region_words(name_) + ", which has " + std::to_string(bytes_));
}

void shared_region::read(std::uint64_t offset, std::span<std::byte> to) const {
    require_part(offset, to.size());
    if (!to.empty()) read_part(offset, to);
}

void shared_region::write(std::uint64_t offset, std::span<const std::byte> from) const {
    require_part(offset, from.size());
    if (!from.empty()) write_part(offset, from);
}

cuda_region::cuda_region(std::string name, const gpu_memory_opener& opener, std::int64_t device_id,
                         const gpu_memory_handle& handle, std::uint64_t bytes)
    : shared_region(region_kind::cuda, std::move(name), bytes),
      device_id_(device_id),
      memory_(opener.open(device_id, handle, bytes)) {}

}  // namespace sluice::serve
