// SPDX-License-Identifier: Apache-2.0
#include "kernels/resident/request_ring.hpp"

#include <algorithm>
#include <cstring>

#include "sluice/kernels/detail/resident_words.hpp"

namespace sluice::kernels {
namespace {

using sluice::detail::resident_flag;
using sluice::detail::resident_pitch;
using sluice::detail::resident_words;

// The other side reads and writes words while they are written and read here.
void put_word(std::uint64_t* word, std::uint32_t data, std::uint32_t flag) noexcept {
    std::atomic_ref(*word).store(std::uint64_t{flag} << 32 | data, std::memory_order_relaxed);
}
std::uint64_t word_at(const std::uint64_t* word) noexcept {
    return std::atomic_ref(const_cast<std::uint64_t&>(*word)).load(std::memory_order_relaxed);
}
bool has_flag(std::uint64_t word, std::uint32_t flag) noexcept { return word >> 32 == flag; }

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
      entries_(std::make_unique<entry[]>(depth)) {
    for (std::uint64_t i = 0; i < depth; ++i) entries_[i].turn.store(2 * i, std::memory_order_relaxed);
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
        if (now == 2 * number) {
            if (next_.compare_exchange_weak(number, number + 1, std::memory_order_relaxed)) return number;
            continue;
        }
        if (number >= depth_ && now == 2 * (number - depth_) + 1 && has_answer(number - depth_)) {
            turn.compare_exchange_strong(now, 2 * number, std::memory_order_acq_rel, std::memory_order_relaxed);
            continue;
        }
        // All are in use, or another thread has claimed this number.
        const std::uint64_t latest = next_.load(std::memory_order_relaxed);
        if (latest == number) return std::nullopt;
        number = latest;
    }
}

void request_ring::ask(std::uint64_t number, const void* request) noexcept {
    entries_[number % depth_].words_taken = 0;
    put_bytes(request_of(number), request, request_bytes_, resident_flag(number));
}

bool request_ring::has_answer(std::uint64_t number) const noexcept {
    const std::uint64_t* const words = answer_of(number);
    for (std::uint32_t i = 0; i < resident_words(answer_bytes_); ++i)
        if (!has_flag(word_at(words + i), resident_flag(number))) return false;
    return true;
}

bool request_ring::take(std::uint64_t number, void* answer) noexcept {
    entry& of = entries_[number % depth_];
    if (!get_bytes(answer_of(number), answer, answer_bytes_, resident_flag(number), of.words_taken)) return false;
    of.turn.store(2 * (number + depth_), std::memory_order_release);
    return true;
}

void request_ring::abandon(std::uint64_t number) noexcept {
    entries_[number % depth_].turn.store(2 * number + 1, std::memory_order_release);
}

bool request_ring::read_request(std::uint64_t number, void* request) const noexcept {
    std::uint32_t next = 0;
    return get_bytes(request_of(number), request, request_bytes_, resident_flag(number), next);
}

void request_ring::write_answer(std::uint64_t number, const void* answer) noexcept {
    put_bytes(answer_of(number), answer, answer_bytes_, resident_flag(number));
}

}  // namespace sluice::kernels
