// SPDX-License-Identifier: Apache-2.0
// kept_memory: memory of others that commands of a faulted device may still use. It is released when the runtime's
// devices are closed. Until then it keeps the runtime alive, as all memory in use does.
//
// Thread safety: all members may be called on any thread.
#pragma once

#include <mutex>

namespace sluice::detail {

class foreign_storage;

class kept_memory {
public:
    kept_memory() = default;
    kept_memory(const kept_memory&) = delete;  // it owns what is in its list
    kept_memory& operator=(const kept_memory&) = delete;

    // Takes it over. False, and nothing is done, after close().
    bool add(foreign_storage& lost) noexcept;
    // No command runs any more: releases everything.
    void close() noexcept;

private:
    std::mutex mutex_;
    bool is_closed_ = false;
    foreign_storage* first_ = nullptr;
};

}  // namespace sluice::detail
