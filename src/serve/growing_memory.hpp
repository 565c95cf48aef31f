// SPDX-License-Identifier: Apache-2.0
// growing_memory: memory of a request that grows while the request is read, counted with the memory for requests before
// it grows.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "serve/budget_share.hpp"

namespace sluice::serve {

class growing_memory {
public:
    static constexpr std::size_t kept_bytes = 16 << 10;  // between requests; they do not count

    // Empty from here on, and with `budget` until clear(); without one nothing counts.
    void begin(const std::shared_ptr<request_budget>& budget);
    // More bytes at the end, which are zeros, until the next of them. Throws refusal (unavailable) where the memory for
    // requests is in use.
    std::byte* add(std::size_t bytes) {
        const std::size_t before = bytes_.size();
        if (bytes > bytes_.capacity() - before) make_room(before + bytes);
        bytes_.resize(before + bytes);
        return bytes_.data() + before;
    }
    std::size_t size() const noexcept { return bytes_.size(); }
    std::span<const std::byte> bytes() const noexcept { return bytes_; }
    void clear() noexcept;

private:
    void make_room(std::size_t bytes);

    std::vector<std::byte> bytes_;
    std::optional<budget_share> share_;
};

}  // namespace sluice::serve
