// SPDX-License-Identifier: Apache-2.0
// An arena: memory that is released all at once and then reused.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

namespace sluice::sim::detail {

class arena {
public:
    // Uninitialised memory, aligned for any type; valid until clear().
    void* allocate(std::size_t bytes) {
        bytes = (bytes + alignof(std::max_align_t) - 1) / alignof(std::max_align_t) * alignof(std::max_align_t);
        while (current_ < chunks_.size() && used_ + bytes > chunks_[current_].bytes) {
            ++current_;
            used_ = 0;
        }
        if (current_ == chunks_.size()) {
            const std::size_t size = std::max(bytes, chunk_bytes);
            chunks_.push_back(
                {std::make_unique_for_overwrite<std::max_align_t[]>(size / sizeof(std::max_align_t) + 1), size});
            used_ = 0;
        }
        void* const place = reinterpret_cast<std::byte*>(chunks_[current_].memory.get()) + used_;
        used_ += bytes;
        return place;
    }
    const void* copy(const void* from, std::size_t bytes) {
        void* const to = allocate(bytes);
        if (bytes != 0) std::memcpy(to, from, bytes);
        return to;
    }
    std::string_view copy(std::string_view text) {
        return {static_cast<const char*>(copy(text.data(), text.size())), text.size()};
    }
    void clear() noexcept { current_ = used_ = 0; }

private:
    static constexpr std::size_t chunk_bytes = std::size_t{64} << 10;
    struct chunk {
        std::unique_ptr<std::max_align_t[]> memory;
        std::size_t bytes;
    };

    std::vector<chunk> chunks_;
    std::size_t current_ = 0;
    std::size_t used_ = 0;  // bytes of the current chunk
};

}  // namespace sluice::sim::detail
