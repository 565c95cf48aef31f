// SPDX-License-Identifier: Apache-2.0
#include "runtime/pool_blocks.hpp"

#include <algorithm>
#include <bit>
#include <new>
#include <utility>

#include "sluice/runtime/detail/command_queue.hpp"

namespace sluice::detail {
namespace {

constexpr std::size_t smallest_block_bytes = 512;
constexpr std::size_t alignment = 256;  // of each block

bool is_open(const stream_point& use) { return use.queue->passed() < use.queue->reached(use.upto); }

pool_block& block_in(storage& of) noexcept { return static_cast<pool_block&>(of); }

}  // namespace

pool_block::pool_block(memory_pool& pool, void* data, std::size_t bytes, pool_chunk& of)
    : storage(pool, data, bytes), chunk_(of), class_(pool_blocks::class_served_by(bytes)) {}

void chunk_list::add(pool_chunk& one) noexcept {
    one.newer = nullptr;
    one.older = std::exchange(newest_, &one);
    (one.older != nullptr ? one.older->newer : oldest_) = &one;
    ++size_;
}

void chunk_list::remove(pool_chunk& one) noexcept {
    (one.newer != nullptr ? one.newer->older : newest_) = one.older;
    (one.older != nullptr ? one.older->newer : oldest_) = one.newer;
    --size_;
}

std::size_t pool_blocks::class_of(std::size_t bytes) noexcept {
    bytes = std::max(bytes, smallest_block_bytes);
    // bytes - 1 lies in [2^power, 2^(power + 1)); the steps divide that range evenly, upper ends included.
    const auto power = static_cast<std::size_t>(std::bit_width(bytes - 1)) - 1;
    const std::size_t step = (bytes - 1 - (std::size_t{1} << power)) / ((std::size_t{1} << power) / steps);
    return power * steps + step;
}

std::size_t pool_blocks::bytes_of_class(std::size_t index) noexcept {
    const std::size_t base = std::size_t{1} << (index / steps);
    return base + (index % steps + 1) * (base / steps);
}

std::size_t pool_blocks::class_served_by(std::size_t capacity_bytes) noexcept {
    const std::size_t index = class_of(capacity_bytes);
    return bytes_of_class(index) <= capacity_bytes ? index : index - 1;
}

free_blocks& pool_blocks::lists_of(std::size_t size_class) {
    if (!free_[size_class]) free_[size_class] = std::make_unique<free_blocks>();
    return *free_[size_class];
}

void pool_blocks::note_taken(pool_block& block) noexcept {
    if (block.chunk_.is_free()) free_chunk_bytes_ -= block.chunk_.bytes;
    block.is_free_ = false;
    --block.chunk_.free_blocks;
    block.chunk_.free_bytes -= block.capacity_bytes();
    free_bytes_ -= block.capacity_bytes();
}

void pool_blocks::note_free(pool_block& block) noexcept {
    block.is_free_ = true;
    ++block.chunk_.free_blocks;
    block.chunk_.free_bytes += block.capacity_bytes();
    free_bytes_ += block.capacity_bytes();
    if (block.chunk_.is_free()) free_chunk_bytes_ += block.chunk_.bytes;
}

storage* pool_blocks::take(std::size_t size_class, const command_queue* user) {
    storage* const found = lists_of(size_class).take(user);
    if (found != nullptr) note_taken(block_in(*found));
    return found;
}

bool pool_blocks::next_queues(std::size_t size_class, free_blocks::queues_to_poll& found) {
    return lists_of(size_class).next_queues(found);
}

void pool_blocks::put(storage& block) noexcept {
    note_free(block_in(block));
    free_[block_in(block).class_]->put(block);
}

storage* pool_blocks::add(void* data, std::size_t bytes) noexcept {
    auto* const chunk = new (std::nothrow) pool_chunk;
    if (chunk == nullptr) return nullptr;
    pool_block* made = nullptr;
    try {
        made = new pool_block(pool_, data, bytes, *chunk);
        lists_of(made->class_);
    } catch (...) {
        delete made;
        delete chunk;
        return nullptr;
    }
    chunk->data = data;
    chunk->bytes = bytes;
    chunk->blocks = 1;
    chunk->first = made;
    whole_.add(*chunk);
    total_bytes_ += bytes;
    return made;
}

void pool_blocks::count_blocks(pool_chunk& of, std::size_t blocks) noexcept {
    const bool was_divided = std::exchange(of.blocks, blocks) > 1;
    if (was_divided == (blocks > 1)) return;
    (was_divided ? divided_ : whole_).remove(of);
    (was_divided ? whole_ : divided_).add(of);
}

void pool_blocks::link(pool_block* before, pool_block& between, pool_block* after) noexcept {
    between.before_ = before;
    between.after_ = after;
    if (before != nullptr) {
        before->after_ = &between;
    } else {
        between.chunk_.first = &between;
    }
    if (after != nullptr) after->before_ = &between;
}

// --- dividing and joining -----------------------------------------------------------------------------------

storage* pool_blocks::carve(std::size_t bytes, const command_queue* user) noexcept {
    storage* const found = carve_from_larger(bytes, user);
    return found != nullptr ? found : carve_from_neighbours(bytes, user);
}

// Whether this many bytes may be taken out of the chunk. What remains of one that is taken nearly whole is small enough
// to lose, as long as much is free.
bool pool_blocks::may_divide(const pool_chunk& of, std::size_t bytes) const noexcept {
    if (!of.is_free()) return true;
    const std::size_t in_use = total_bytes_ - free_bytes_;
    if (bytes >= of.bytes / 4 * 3 && in_use <= total_bytes_ / 8 * 5) return true;
    const std::size_t beyond_half = in_use > total_bytes_ / 2 ? in_use - total_bytes_ / 2 : 0;
    return free_chunk_bytes_ - of.bytes >= total_bytes_ / 8 + beyond_half;
}

// The smallest size first.
storage* pool_blocks::carve_from_larger(std::size_t bytes, const command_queue* user) noexcept {
    for (std::size_t index = class_of(bytes); index < class_count; ++index) {
        std::array<storage*, 4> passed_over{};
        storage* found = nullptr;
        for (storage*& next : passed_over) {
            if (!free_[index] || free_[index]->empty()) break;
            next = free_[index]->take(user);
            if (next == nullptr) break;
            if (may_divide(block_in(*next).chunk_, bytes)) {
                found = std::exchange(next, nullptr);
                break;
            }
        }
        for (storage* const each : passed_over) {
            if (each != nullptr) free_[index]->put(*each);
        }
        if (found == nullptr) continue;
        note_taken(block_in(*found));
        return divide(block_in(*found), bytes);
    }
    return nullptr;
}

// The block is in use; what it has beyond these bytes becomes a free block, if that is worth it.
storage* pool_blocks::divide(pool_block& taken, std::size_t bytes) noexcept {
    const std::size_t kept = (bytes + alignment - 1) / alignment * alignment;
    const std::size_t capacity = taken.capacity_bytes();
    if (capacity < kept || capacity - kept < std::max(smallest_block_bytes, kept / steps)) return &taken;
    pool_chunk& in = taken.chunk_;
    auto* const data = static_cast<std::byte*>(taken.data());
    std::unique_ptr<pool_block> piece, rest;
    try {
        piece = std::make_unique<pool_block>(pool_, data, kept, in);
        rest = std::make_unique<pool_block>(pool_, data + kept, capacity - kept, in);
        piece->come_after(taken);
        rest->come_after(taken);
        lists_of(piece->class_);
        lists_of(rest->class_);
    } catch (...) {  // no memory for the bookkeeping: the user gets all of it
        return &taken;
    }
    link(taken.before_, *piece, taken.after_);
    link(piece.get(), *rest, piece->after_);
    count_blocks(in, in.blocks + 1);
    delete &taken;
    put(*rest.release());
    return piece.release();
}

// The shortest run of free neighbours that is long enough.
storage* pool_blocks::carve_from_neighbours(std::size_t bytes, const command_queue* user) noexcept {
    pool_block *best_first = nullptr, *best_last = nullptr;
    std::size_t best_bytes = ~std::size_t{0};
    for (pool_chunk* in = divided_.oldest(); in != nullptr; in = in->newer) {
        if (in->free_bytes < bytes || !may_divide(*in, bytes)) continue;
        pool_block* first = nullptr;
        std::size_t run = 0;
        for (pool_block* each = in->first; each != nullptr; each = each->after_) {
            if (!each->is_free_ || !free_blocks::is_ready_for(*each, user)) {
                first = nullptr;
                continue;
            }
            if (first == nullptr) {
                first = each;
                run = 0;
            }
            run += each->capacity_bytes();
            const bool is_end = each->after_ == nullptr || !each->after_->is_free_;
            if (run < bytes || run >= best_bytes) continue;
            best_first = first;
            best_last = each;
            best_bytes = run;
            if (!is_end) first = nullptr;  // long enough: the blocks after it stay
        }
    }
    if (best_first == nullptr) return nullptr;
    pool_block* const joined = join(*best_first, *best_last, best_bytes);
    return joined != nullptr ? divide(*joined, bytes) : nullptr;
}

// The joined block is in use. Null, and nothing has changed, when there is no memory for it.
pool_block* pool_blocks::join(pool_block& first, pool_block& last, std::size_t bytes) noexcept {
    pool_chunk& in = first.chunk_;
    std::unique_ptr<pool_block> joined;
    try {
        joined = std::make_unique<pool_block>(pool_, first.data(), bytes, in);
        for (pool_block* each = &first;; each = each->after_) {
            joined->come_after(*each);
            if (each == &last) break;
        }
        lists_of(joined->class_);
    } catch (...) {
        return nullptr;
    }
    pool_block* const before = first.before_;
    pool_block* const after = last.after_;
    std::size_t count = 0;
    for (pool_block* each = &first; each != after; ++count) {
        pool_block* const next = each->after_;
        free_[each->class_]->remove(*each);
        note_taken(*each);
        delete each;
        each = next;
    }
    link(before, *joined, after);
    count_blocks(in, in.blocks - count + 1);
    return joined.release();
}

// --- chunks -------------------------------------------------------------------------------------------------

pool_chunk* pool_blocks::free_chunk_for(std::size_t bytes, std::size_t call) noexcept {
    pool_chunk* found = nullptr;
    const auto is_better = [&](const pool_chunk& one) {
        const bool is_enough = found->bytes >= bytes;
        return is_enough ? one.bytes >= bytes && one.bytes < found->bytes : one.bytes > found->bytes;
    };
    for (const chunk_list* list : {&whole_, &divided_}) {
        for (pool_chunk* each = list->oldest(); each != nullptr; each = each->newer) {
            if (each->is_free() && each->passed_over_by != call && (found == nullptr || is_better(*each))) found = each;
        }
    }
    return found;
}

void pool_blocks::add_open_uses(const pool_chunk& of, std::vector<stream_point>& to) {
    for (const pool_block* each = of.first; each != nullptr; each = each->after_) {
        if (!each->is_free_) continue;
        each->for_each_last_use([&](const stream_point& use) {
            if (is_open(use)) to.push_back({use.queue, use.queue->reached(use.upto)});
        });
    }
}

void pool_blocks::remove(pool_chunk& one) noexcept {
    for (pool_block* each = one.first; each != nullptr;) {
        pool_block* const next = each->after_;
        free_[each->class_]->remove(*each);
        note_taken(*each);
        delete each;
        each = next;
    }
    (one.blocks > 1 ? divided_ : whole_).remove(one);
    total_bytes_ -= one.bytes;
    one.data = nullptr;
    one.first = nullptr;
}

void pool_blocks::end_if_unused(pool_chunk& one) noexcept {
    if (one.data == nullptr && one.waiting == 0) delete &one;
}

}  // namespace sluice::detail
