// SPDX-License-Identifier: Apache-2.0
#include "runtime/free_blocks.hpp"

#include <utility>

#include "sluice/runtime/detail/command_queue.hpp"
#include "sluice/runtime/storage.hpp"

namespace sluice::detail {
namespace {

bool is_over(const stream_point& use) { return use.queue->passed() >= use.queue->reached(use.upto); }

}  // namespace

void free_blocks::list::add(storage& block) noexcept {
    block.newer_ = nullptr;
    block.older_ = std::exchange(newest_, &block);
    (block.older_ != nullptr ? block.older_->newer_ : oldest_) = &block;
}

storage* free_blocks::list::remove(storage& block) noexcept {
    (block.newer_ != nullptr ? block.newer_->older_ : newest_) = block.older_;
    (block.older_ != nullptr ? block.older_->newer_ : oldest_) = block.newer_;
    return &block;
}

void free_blocks::put(storage& block) noexcept {
    ++count_;
    returned_.add(block);
}

// Only the pool has access to a free block, so the block's own guard is not needed.
bool free_blocks::is_ready_for(const storage& block, const command_queue* user) noexcept {
    bool ready = true;
    block.history_.for_each_last_use(
        [&](const stream_point& use) { ready = ready && (use.queue == user || is_over(use)); });
    return ready;
}

storage* free_blocks::take(const command_queue* user) noexcept {
    storage* found = nullptr;
    if (returned_.newest() != nullptr && is_ready_for(*returned_.newest(), user)) {
        found = returned_.remove(*returned_.newest());  // usually the block that was returned last is ready
    } else {
        sort_returned();
        found = take_sorted(user);
    }
    for (std::size_t i = 0; found == nullptr && i < lanes_.size(); ++i) {
        if (next_lane_ >= lanes_.size()) next_lane_ = 0;
        look_at(next_lane_);
        found = take_sorted(user);
        if (found == nullptr) ++next_lane_;
    }
    if (found != nullptr) count_taken();
    return found;
}

// When no blocks are left, the state is reset: which queues the next search checks, and in which order, does not depend
// on earlier blocks.
void free_blocks::count_taken() noexcept {
    if (--count_ != 0) return;
    lanes_.clear();
    next_lane_ = 0;
}

storage* free_blocks::take_sorted(const command_queue* user) noexcept {
    if (user != nullptr && user->number() < lanes_.size()) {
        list& own = lanes_[user->number()].own;
        if (own.newest() != nullptr) return own.remove(*own.newest());
    }
    return ready_.newest() != nullptr ? ready_.remove(*ready_.newest()) : nullptr;
}

// Moves the oldest blocks of this queue's lists to their new lists, as far as the queues have passed their uses.
void free_blocks::look_at(std::size_t lane_number) noexcept {
    if (list& own = lanes_[lane_number].own; own.oldest() != nullptr && is_ready_for(*own.oldest(), nullptr)) {
        ready_.add(*own.remove(*own.oldest()));
        return;
    }
    list& common = lanes_[lane_number].common;
    const command_queue* const here = lanes_[lane_number].queue;
    while (storage* const oldest = common.oldest()) {
        if (!is_ready_for(*oldest, here)) {
            bool is_over_here = true;
            oldest->history_.for_each_last_use(
                [&](const stream_point& use) { is_over_here = is_over_here && (use.queue != here || is_over(use)); });
            if (!is_over_here) break;
        }
        returned_.add(*common.remove(*oldest));
    }
    sort_returned();
}

void free_blocks::sort_returned() noexcept {
    while (storage* const oldest = returned_.oldest()) {
        returned_.remove(*oldest);
        try {
            file(*oldest);
        } catch (...) {  // no memory for a list: the block stays here, and the next search tries again
            returned_.add(*oldest);
            return;
        }
    }
}

void free_blocks::file(storage& block) {
    command_queue* user = nullptr;
    bool has_others = false;
    block.history_.for_each_last_use([&](const stream_point& use) {
        if (is_over(use)) return;
        has_others = has_others || (user != nullptr && user != use.queue);
        user = use.queue;
    });
    if (user == nullptr) return ready_.add(block);
    if (user->number() >= lanes_.size()) lanes_.resize(user->number() + 1);
    lane& there = lanes_[user->number()];
    there.queue = user;
    (has_others ? there.common : there.own).add(block);
}

bool free_blocks::next_queues(queues_to_poll& found) const noexcept {
    found.count = 0;
    const auto add = [&](command_queue* queue) {
        if (found.count != found.all.size()) found.all[found.count++] = queue;
    };
    for (; found.next_lane < lanes_.size() && found.count < found.all.size() / 2; ++found.next_lane) {
        const lane& each = lanes_[found.next_lane];
        if (each.own.oldest() != nullptr) add(each.queue);
        if (each.common.oldest() == nullptr) continue;
        each.common.oldest()->history_.for_each_last_use([&](const stream_point& use) {
            if (!is_over(use)) add(use.queue);
        });
    }
    return found.count != 0;
}

void free_blocks::remove(storage& block) noexcept {
    const auto is_at_end_of = [&](const list& one) { return one.oldest() == &block || one.newest() == &block; };
    list* its = &returned_;  // a block with neighbours on both sides can be removed through any list
    if (is_at_end_of(ready_)) its = &ready_;
    for (lane& each : lanes_) {
        if (is_at_end_of(each.own)) its = &each.own;
        if (is_at_end_of(each.common)) its = &each.common;
    }
    its->remove(block);
    count_taken();
}

}  // namespace sluice::detail
