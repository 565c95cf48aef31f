// SPDX-License-Identifier: Apache-2.0
#include "serve/growing_memory.hpp"

#include <algorithm>

#include "sluice/serve/refusal.hpp"

namespace sluice::serve {

void growing_memory::begin(const std::shared_ptr<request_budget>& budget) {
    clear();
    if (budget) share_.emplace(budget);
}

// Twice as many, or as large a part of that as there is room for: each time all of them are copied.
void growing_memory::make_room(std::size_t bytes) {
    const std::size_t before = bytes_.capacity();
    std::size_t after = std::max(bytes, 2 * before);
    while (share_ && !share_->hold(after)) {
        if (after == bytes) throw refusal::for_now("the memory for requests is in use");
        after = std::max(bytes, before + (after - before) / 2);
    }
    bytes_.reserve(after);
}

void growing_memory::clear() noexcept {
    bytes_.clear();
    if (bytes_.capacity() > kept_bytes) std::vector<std::byte>().swap(bytes_);
    share_.reset();
}

}  // namespace sluice::serve
