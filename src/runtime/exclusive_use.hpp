// SPDX-License-Identifier: Apache-2.0
// exclusive_use: locks memory that several threads may write, at a moment when no command uses it. While it exists, no
// other thread can submit a command that names the memory.
#pragma once

#include <mutex>
#include <span>

#include "sluice/runtime/detail/access_lock.hpp"
#include "sluice/runtime/storage.hpp"

namespace sluice::detail {

class exclusive_use {
public:
    // Blocks until no command uses the memory; access_mode::read: until no command writes it. All of it shares one
    // access_lock, and there is at least one. Throws when the device has faulted, or when this thread may not wait.
    exclusive_use(std::span<storage* const> memory, access_mode mode);

private:
    std::unique_lock<access_lock> lock_;
};

}  // namespace sluice::detail
