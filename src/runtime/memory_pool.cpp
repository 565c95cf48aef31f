#include "sluice/runtime/memory_pool.hpp"

#include <algorithm>
#include <bit>
#include <new>

#include "sluice/runtime/command_queue.hpp"
#include "sluice/runtime/device.hpp"
#include "sluice/runtime/error.hpp"

namespace sluice {
namespace {

constexpr std::size_t smallest_block_bytes = 512;
// How far a free list is searched for a block that can be had without waiting.
constexpr int search_depth = 32;

// False when the device has faulted: then it may still touch the block, which must never be reused.
bool await_uses(const storage& block) noexcept {
    try {
        block.await_all_uses();
        return true;
    } catch (...) {
        return false;
    }
}

// By the user's name for it, where there is one.
error_context context_of(const command_info& info, const device& of) {
    return {info.operation.empty() ? info.name : info.operation, of.name(), info.where};
}

}  // namespace

std::size_t memory_pool::class_of(std::size_t bytes) {
    bytes = std::max(bytes, smallest_block_bytes);
    // bytes - 1 lies in [2^power, 2^(power + 1)); the steps divide that range evenly, upper ends included.
    const auto power = static_cast<std::size_t>(std::bit_width(bytes - 1)) - 1;
    const std::size_t step = (bytes - 1 - (std::size_t{1} << power)) / ((std::size_t{1} << power) / steps);
    return power * steps + step;
}

std::size_t memory_pool::bytes_of_class(std::size_t index) {
    const std::size_t base = std::size_t{1} << (index / steps);
    return base + (index % steps + 1) * (base / steps);
}

storage_ref memory_pool::allocate(std::size_t bytes, const command_queue* user, const command_info& info) {
    owner_.throw_if_refusing();
    if (bytes > std::size_t{1} << 60) throw out_of_memory(bytes, source_.info().free_bytes, context_of(info, owner_));
    const std::size_t index = class_of(bytes);
    storage* block = nullptr;
    bool is_first = false;
    {
        const std::lock_guard lock(guard_);
        ++usage_.allocations;
        block = take_ready(index, user);
        if (block == nullptr && free_[index] != nullptr) {
            poll_users(index);
            block = take_ready(index, user);
        }
        if (block != nullptr) is_first = count_lent(*block);
    }
    if (block == nullptr) {
        block = make(bytes, bytes_of_class(index), info);
        const std::lock_guard lock(guard_);
        is_first = count_lent(*block);
    }
    if (is_first) owner_.retain_runtime();
    source_.lent(block->data(), bytes, user == nullptr);
    return storage_ref(block);
}

bool memory_pool::count_lent(const storage& block) noexcept {
    usage_.in_use_bytes += block.capacity_bytes();
    return blocks_in_use_++ == 0;
}

// A block in a free list is the pool's alone: its own guard is not needed.
bool memory_pool::is_ready_for(const storage& block, const command_queue* user) {
    bool ready = true;
    block.history_.for_each_last_use([&](const stream_point& use) {
        ready = ready && (use.where == user || use.where->passed() >= use.where->reached(use.upto));
    });
    return ready;
}

storage* memory_pool::take_ready(std::size_t index, const command_queue* user) {
    storage** link = &free_[index];
    for (int depth = 0; *link != nullptr && depth < search_depth; ++depth) {
        storage* const block = *link;
        if (is_ready_for(*block, user)) {
            *link = std::exchange(block->next_free_, nullptr);
            usage_.cached_bytes -= block->capacity_bytes();
            return block;
        }
        link = &block->next_free_;
    }
    return nullptr;
}

void memory_pool::poll_users(std::size_t index) {
    int depth = 0;
    for (const storage* block = free_[index]; block != nullptr && depth < search_depth;
         block = block->next_free_, ++depth) {
        block->for_each_last_use([](const stream_point& use) {
            if (use.where->passed() < use.upto) use.where->interpreter().poll();
        });
    }
}

storage* memory_pool::make(std::size_t asked_bytes, std::size_t bytes, const command_info& info) {
    void* data = source_.allocate(bytes);
    if (data == nullptr) {
        // Short of memory: what is cached goes back first. Others may take it, so try a few times.
        const std::lock_guard alone(shortage_mutex_);
        data = source_.allocate(bytes);
        for (int attempt = 0; data == nullptr && attempt < 3 && trim() != 0; ++attempt) data = source_.allocate(bytes);
    }
    {
        const std::lock_guard lock(guard_);
        ++usage_.source_calls;
    }
    if (data == nullptr) {
        owner_.throw_if_refusing();  // its memory may be short because it has faulted: that is the first cause
        throw out_of_memory(asked_bytes, source_.info().free_bytes, context_of(info, owner_));
    }
    auto* const block = new (std::nothrow) storage(*this, data, bytes);
    if (block == nullptr) {
        source_.free(data, bytes);
        throw std::bad_alloc();
    }
    return block;
}

void memory_pool::give_back(storage* block) noexcept {
    // Nobody else knows the block now, so its own guard is not needed. Its next owner's contents are others.
    block->outcome_ = {};
    block->holds_data_ = true;
    source_.returned(block->data());
    bool was_last = false;
    {
        const std::lock_guard lock(guard_);
        storage*& list = free_[class_of(block->capacity_bytes())];
        block->next_free_ = std::exchange(list, block);
        usage_.in_use_bytes -= block->capacity_bytes();
        usage_.cached_bytes += block->capacity_bytes();
        was_last = --blocks_in_use_ == 0;
    }
    if (was_last) owner_.release_runtime();  // last: it may destroy the pool
}

std::size_t memory_pool::trim() {
    std::array<storage*, class_count> taken{};
    {
        const std::lock_guard lock(guard_);
        std::swap(taken, free_);
        usage_.cached_bytes = 0;
    }
    std::size_t returned = 0;
    for (storage* block : taken) {
        while (block != nullptr) {
            storage* const next = block->next_free_;
            if (await_uses(*block)) {
                source_.free(block->data(), block->capacity_bytes());
                returned += block->capacity_bytes();
                delete block;
            } else {
                // Kept, unreachable for allocation by the device's refusal, until the pool is destroyed.
                block->next_free_ = nullptr;
                const std::lock_guard lock(guard_);
                storage*& list = free_[class_of(block->capacity_bytes())];
                block->next_free_ = std::exchange(list, block);
                usage_.cached_bytes += block->capacity_bytes();
            }
            block = next;
        }
    }
    return returned;
}

memory_pool::statistics memory_pool::usage() const {
    const std::lock_guard lock(guard_);
    return usage_;
}

// The streams are gone by now: whatever used the blocks has ended with them.
memory_pool::~memory_pool() {
    for (storage* block : free_) {
        while (block != nullptr) {
            storage* const next = block->next_free_;
            source_.free(block->data(), block->capacity_bytes());
            delete block;
            block = next;
        }
    }
}

}  // namespace sluice
