// SPDX-License-Identifier: Apache-2.0
#include "sluice/runtime/memory_resource.hpp"

#include <cstdint>
#include <utility>

#include "sluice/base/error.hpp"

namespace sluice::detail {
namespace {

constexpr std::size_t pool_alignment = 256;

}  // namespace

void* lent_blocks::acquire(std::size_t bytes, std::size_t alignment) {
    const std::size_t more = alignment > pool_alignment ? alignment - pool_alignment : 0;
    const command_info info{"allocate"};
    if (bytes > SIZE_MAX - more) throw out_of_memory(bytes, 0, {info.name, pool_.owner().name()}, SIZE_MAX - more);
    storage_ref block = pool_.allocate(bytes + more, nullptr, info);
    const auto begin = reinterpret_cast<std::uintptr_t>(block->data());
    const std::uintptr_t past = begin % alignment;
    void* const data = static_cast<std::byte*>(block->data()) + (past == 0 ? 0 : alignment - past);
    const std::lock_guard lock(mutex_);
    blocks_.emplace(data, std::move(block));
    return data;
}

storage_ref lent_blocks::release(void* data) {
    const std::lock_guard lock(mutex_);
    const auto found = blocks_.find(data);
    if (found == blocks_.end()) {
        throw error(errc::invalid_argument, "this address is not of memory of this resource, or was deallocated before",
                    {"deallocate", pool_.owner().name()});
    }
    storage_ref block = std::move(found->second);
    blocks_.erase(found);
    return block;
}

}  // namespace sluice::detail
