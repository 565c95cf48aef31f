// SPDX-License-Identifier: Apache-2.0
// hatch_memory: the memory that the front and one worker share, with its hatches. It belongs to no file system, and its
// length is sealed: neither side can make it shorter under the other.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "serve/workers/hatch.hpp"
#include "sluice/io/file_descriptor.hpp"

namespace sluice::serve {

struct hatch_unmapper {
    std::size_t bytes = 0;
    void operator()(std::byte* mapped) const noexcept;
};

class hatch_memory {
public:
    // New memory, all zero. Pages that are never used take none. Throws error (errc::io_failed).
    hatch_memory(std::size_t hatches, std::size_t hatch_bytes);
    // The same in the other process. Throws error for a descriptor of something else.
    hatch_memory(io::file_descriptor memory, std::size_t hatches, std::size_t hatch_bytes);
    hatch_memory(const hatch_memory&) = delete;  // it owns a mapping
    hatch_memory& operator=(const hatch_memory&) = delete;
    ~hatch_memory() = default;

    int descriptor() const noexcept { return memory_.get(); }
    void close_descriptor() noexcept { memory_ = io::file_descriptor(); }  // the mapping stays

    std::size_t hatches() const noexcept { return hatches_; }
    hatch_words& words(std::size_t hatch) const noexcept;
    std::span<std::byte> area(std::size_t hatch) const noexcept;

private:
    void map();
    std::size_t stride() const noexcept;

    io::file_descriptor memory_;
    const std::size_t hatches_;
    const std::size_t hatch_bytes_;
    std::unique_ptr<std::byte, hatch_unmapper> mapped_;
};

}  // namespace sluice::serve
