// SPDX-License-Identifier: Apache-2.0
// foreign_storage: a storage over memory that others allocated. When the last reference is dropped, it waits for its
// last uses without a thread, and then releases the memory's owner on the runtime's completion thread.
//
// Thread safety: as for storage; end() is called once.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "sluice/async/executor.hpp"
#include "sluice/runtime/detail/completion_waiter.hpp"
#include "sluice/runtime/storage.hpp"

namespace sluice::detail {

class foreign_storage final : public storage, private work_item, private completion_waiter {
public:
    foreign_storage(memory_pool& pool, void* data, std::size_t bytes, std::shared_ptr<const void> lender);

    // The address by which the pool's memory source knows it.
    void* known_as() const noexcept { return known_as_; }
    void be_known_as(void* address) noexcept { known_as_ = address; }

    // The last reference was dropped. The thread may hold locks of the runtime, so this only posts a work item.
    void end() noexcept;

private:
    friend class kept_memory;

    void post() noexcept;
    void step() noexcept;
    void finish() noexcept;

    const std::shared_ptr<const void> lender_;  // the memory's owner
    void* known_as_ = nullptr;
    foreign_storage* next_kept_ = nullptr;  // link of kept_memory
};

}  // namespace sluice::detail
