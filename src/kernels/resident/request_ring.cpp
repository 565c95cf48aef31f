// SPDX-License-Identifier: Apache-2.0
#include "kernels/resident/request_ring.hpp"

#include <algorithm>
#include <cstring>

#include "kernels/resident/host_words.hpp"
#include "sluice/kernels/detail/resident_words.hpp"

namespace sluice::kernels {
namespace {

using sluice::detail::resident_flag;
using sluice::detail::resident_pitch;
using sluice::detail::resident_words;

void put_bytes(std::uint64_t* words, const void* bytes, std::size_t count, std::uint32_t flag) noexcept {
    const auto* const from = static_cast<const std::byte*>(bytes);
    for (std::uint32_t i = 0; i < resident_words(count); ++i) {
        std::uint32_t data = 0;
        std::memcpy(&data, from + std::size_t{4} * i, std::min<std::size_t>(4, count - std::size_t{4} * i));
        put_word(words + i, data, flag);
    }
}
// Continues with this word; returns whether all are there.
bool get_bytes(const std::uint64_t* words, void* bytes, std::size_t count, std::uint32_t flag,
               std::uint32_t& next) noexcept {
    auto* const to = static_cast<std::byte*>(bytes);
    for (; next < resident_words(count); ++next) {
        const std::uint64_t word = word_at(words + next);
        if (!has_flag(word, flag)) return false;
        const auto data = static_cast<std::uint32_t>(word);
        std::memcpy(to + std::size_t{4} * next, &data, std::min<std::size_t>(4, count - std::size_t{4} * next));
    }
    return true;
}

}  // namespace

std::size_t request_ring::inbox_words(std::size_t depth, std::size_t request_bytes) noexcept {
    return depth * resident_pitch(resident_words(request_bytes));
}
std::size_t request_ring::outbox_words(std::size_t depth, std::size_t answer_bytes) noexcept {
    return depth * resident_pitch(resident_words(answer_bytes));
}

request_ring::request_ring(std::size_t depth, std::size_t request_bytes, std::size_t answer_bytes, std::uint64_t* inbox,
                           std::uint64_t* outbox)
    : depth_(depth),
      request_bytes_(request_bytes),
      answer_bytes_(answer_bytes),
      inbox_(inbox),
      outbox_(outbox),
      entries_(std::make_unique<entry[]>(depth)),
      kept_(std::make_unique<kept_answer[]>(depth)),
      kept_bytes_(std::make_unique<std::byte[]>(depth * answer_bytes)) {
    for (std::uint64_t i = 0; i < depth; ++i) entries_[i].turn.store(turn_step * i, std::memory_order_relaxed);
}

std::uint64_t* request_ring::request_of(std::uint64_t number) const noexcept {
    return inbox_ + number % depth_ * resident_pitch(resident_words(request_bytes_));
}
std::uint64_t* request_ring::answer_of(std::uint64_t number) const noexcept {
    return outbox_ + number % depth_ * resident_pitch(resident_words(answer_bytes_));
}

std::optional<std::uint64_t> request_ring::claim() noexcept {
    std::uint64_t number = next_.load(std::memory_order_relaxed);
    for (;;) {
        std::atomic<std::uint64_t>& turn = entries_[number % depth_].turn;
        // Acquire: what the entry's last user has done is over.
        std::uint64_t now = turn.load(std::memory_order_acquire);
        if (now == turn_step * number) {
            if (next_.compare_exchange_weak(number, number + 1, std::memory_order_relaxed)) return number;
            continue;
        }
        if (number >= depth_) {
            const std::uint64_t before = number - depth_, its_turn = turn_step * before;
            if (now == its_turn + unwanted && is_written(before)) {
                turn.compare_exchange_strong(now, turn_step * number, std::memory_order_acq_rel,
                                             std::memory_order_relaxed);
                continue;
            }
            if (now == its_turn && is_written(before) && keep(before)) continue;
        }
        // All are in use, or another thread has claimed this number.
        const std::uint64_t latest = next_.load(std::memory_order_relaxed);
        if (latest == number) return std::nullopt;
        number = latest;
    }
}

// Copies an answer that is not taken yet, and frees its entry for the next request. False: there is no room for it.
bool request_ring::keep(std::uint64_t number) noexcept {
    std::uint64_t free = none;
    std::size_t at = 0;
    while (at < depth_ && !kept_[at].number.compare_exchange_strong(free, filling, std::memory_order_acquire,
                                                                    std::memory_order_relaxed)) {
        free = none;
        ++at;
    }
    if (at == depth_) return false;
    std::atomic<std::uint64_t>& turn = entries_[number % depth_].turn;
    std::uint64_t now = turn_step * number;
    if (!turn.compare_exchange_strong(now, now + moving, std::memory_order_acquire, std::memory_order_relaxed)) {
        kept_[at].number.store(none, std::memory_order_release);  // it has been taken meanwhile, or is not wanted
        return true;
    }
    std::uint32_t words_taken = 0;
    get_bytes(answer_of(number), bytes_of(kept_[at]), answer_bytes_, resident_flag(number), words_taken);
    kept_[at].number.store(number, std::memory_order_release);
    turn.store(turn_step * (number + depth_), std::memory_order_release);
    return true;
}

request_ring::kept_answer* request_ring::kept(std::uint64_t number) const noexcept {
    for (std::size_t i = 0; i < depth_; ++i)
        if (kept_[i].number.load(std::memory_order_acquire) == number) return &kept_[i];
    return nullptr;
}

std::byte* request_ring::bytes_of(const kept_answer& of) const noexcept {
    return kept_bytes_.get() + static_cast<std::size_t>(&of - kept_.get()) * answer_bytes_;
}

void request_ring::ask(std::uint64_t number, const void* request) noexcept {
    put_bytes(request_of(number), request, request_bytes_, resident_flag(number));
}

// Whether all words of its answer are in its entry.
bool request_ring::is_written(std::uint64_t number) const noexcept {
    const std::uint64_t* const words = answer_of(number);
    for (std::uint32_t i = 0; i < resident_words(answer_bytes_); ++i)
        if (!has_flag(word_at(words + i), resident_flag(number))) return false;
    return true;
}

bool request_ring::has_answer(std::uint64_t number) const noexcept {
    return is_written(number) ||
           entries_[number % depth_].turn.load(std::memory_order_acquire) != turn_step * number;  // it is kept apart
}

bool request_ring::take(std::uint64_t number, void* answer, std::uint32_t& words_taken) noexcept {
    std::atomic<std::uint64_t>& turn = entries_[number % depth_].turn;
    std::uint64_t now = turn_step * number;
    if (turn.load(std::memory_order_acquire) == now) {
        if (!get_bytes(answer_of(number), answer, answer_bytes_, resident_flag(number), words_taken)) return false;
        if (turn.compare_exchange_strong(now, turn_step * (number + depth_), std::memory_order_acq_rel,
                                         std::memory_order_relaxed))
            return true;
    }
    kept_answer* const found = kept(number);
    if (found == nullptr) return false;  // it is being copied
    std::memcpy(answer, bytes_of(*found), answer_bytes_);
    found->number.store(none, std::memory_order_release);
    return true;
}

void request_ring::abandon(std::uint64_t number) noexcept {
    std::uint64_t now = turn_step * number;
    if (entries_[number % depth_].turn.compare_exchange_strong(now, now + unwanted, std::memory_order_release,
                                                               std::memory_order_relaxed))
        return;
    kept_answer* found = nullptr;
    while ((found = kept(number)) == nullptr) {  // it is being copied, by another thread
    }
    found->number.store(none, std::memory_order_release);
}

bool request_ring::read_request(std::uint64_t number, void* request) const noexcept {
    std::uint32_t next = 0;
    return get_bytes(request_of(number), request, request_bytes_, resident_flag(number), next);
}

void request_ring::write_answer(std::uint64_t number, const void* answer) noexcept {
    put_bytes(answer_of(number), answer, answer_bytes_, resident_flag(number));
}

}  // namespace sluice::kernels
