// SPDX-License-Identifier: Apache-2.0
#include "serve/workers/hatch.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

#include "serve/workers/packed.hpp"

namespace sluice::serve {
namespace {

constexpr std::uint32_t more_bit = std::uint32_t{1} << 31;
constexpr std::chrono::milliseconds look_time{5};

// Of words that processes share, so without FUTEX_PRIVATE_FLAG.
long futex(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value, const timespec* time) noexcept {
    return ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), operation, value, time, nullptr, 0);
}

void pause_processor() noexcept {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

}  // namespace

hatch::hatch(hatch_words& words, std::span<std::byte> area, hatch_side side) noexcept
    : words_(words),
      area_(area),
      own_(side == hatch_side::front ? words.front : words.worker),
      other_(side == hatch_side::front ? words.worker : words.front) {}

void hatch::give(std::size_t bytes, bool more) noexcept {
    own_.piece.store(static_cast<std::uint32_t>(bytes) | (more ? more_bit : 0), std::memory_order_relaxed);
    // Sequentially consistent, as the sleeper's store and look are: one of the two sides sees the other.
    own_.given.store(++given_, std::memory_order_seq_cst);
    if (other_.sleeps.load(std::memory_order_seq_cst) != 0) futex(own_.given, FUTEX_WAKE, INT_MAX, nullptr);
}

bool hatch::compare(std::uint32_t given) const {
    if (given == taken_) return false;
    if (given != taken_ + 1) throw worker_damage("the other side has given a piece out of its turn");
    return true;
}

bool hatch::has_piece() const { return compare(other_.given.load(std::memory_order_acquire)); }

void hatch::sleep_until_given() noexcept {
    const timespec time{0, std::chrono::nanoseconds(look_time).count()};
    own_.sleeps.store(1, std::memory_order_seq_cst);
    if (other_.given.load(std::memory_order_seq_cst) == taken_) futex(other_.given, FUTEX_WAIT, taken_, &time);
    own_.sleeps.store(0, std::memory_order_relaxed);
}

hatch_piece hatch::take(std::chrono::nanoseconds spin, const std::function<void()>& look) {
    if (!has_piece() && spin.count() != 0) {
        const auto end = std::chrono::steady_clock::now() + spin;
        while (!has_piece() && std::chrono::steady_clock::now() < end) pause_processor();
    }
    while (!has_piece()) {
        look();
        sleep_until_given();
    }
    const std::uint32_t piece = other_.piece.load(std::memory_order_relaxed);
    const std::size_t bytes = piece & ~more_bit;
    if (bytes > area_.size()) throw worker_damage("a piece is longer than the memory that is shared");
    ++taken_;
    return {bytes, (piece & more_bit) != 0};
}

void hatch::wake_own_side() noexcept { futex(other_.given, FUTEX_WAKE, INT_MAX, nullptr); }

}  // namespace sluice::serve
