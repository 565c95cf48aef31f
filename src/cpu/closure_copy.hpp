// SPDX-License-Identifier: Apache-2.0
// A copy of a trivially copyable closure of any size; small closures need no allocation.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>

namespace sluice::cpu {

class closure_copy {
public:
    closure_copy() = default;
    closure_copy(const void* closure, std::size_t bytes) {
        if (bytes > sizeof(few_))
            many_ = std::make_unique<std::max_align_t[]>((bytes - 1) / sizeof(std::max_align_t) + 1);
        if (bytes != 0) std::memcpy(many_ ? static_cast<void*>(many_.get()) : few_, closure, bytes);
    }

    const void* get() const noexcept { return many_ ? static_cast<const void*>(many_.get()) : few_; }

private:
    alignas(std::max_align_t) std::byte few_[192] = {};  // a move copies all of them
    std::unique_ptr<std::max_align_t[]> many_;
};

}  // namespace sluice::cpu
