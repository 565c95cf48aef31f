// SPDX-License-Identifier: Apache-2.0
#include "serve/growing_memory.hpp"

#include <algorithm>

#include "sluice/serve/refusal.hpp"

namespace sluice::serve {

void growing_memory::begin(const std::shared_ptr<request_budget>& budget) {
    clear();
    if (budget) share_.emplace(budget);
}

// Where there is no room for twice as many, as many as it needs.
void growing_memory::make_room(std::size_t bytes) {
    const std::size_t twice = std::max(bytes, 2 * bytes_.capacity());
    if (!share_ || share_->hold(twice)) return bytes_.reserve(twice);
    if (!share_->hold(bytes)) throw refusal::for_now("the memory for requests is in use");
    bytes_.reserve(bytes);
}

void growing_memory::clear() noexcept {
    bytes_.clear();
    if (bytes_.capacity() > kept_bytes) std::vector<std::byte>().swap(bytes_);
    share_.reset();
}

}  // namespace sluice::serve
