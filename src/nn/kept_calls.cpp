// SPDX-License-Identifier: Apache-2.0
#include "nn/kept_calls.hpp"

namespace sluice::nn::detail {

std::uint64_t kept_calls::key_of(std::span<const input_view> inputs) noexcept {
    std::uint64_t key = 0xcbf29ce484222325;  // the offset and the prime of FNV-1a, for words instead of bytes
    const auto add = [&key](std::uint64_t word) {
        key = (key ^ word) * 0x100000001b3;
        key ^= key >> 32;
    };
    for (const input_view& each : inputs) {
        add(static_cast<std::uint64_t>(each.form().type()));
        add(each.form().shape().size());
        for (const std::size_t length : each.form().shape()) add(length);
    }
    return key == 0 ? 1 : key;
}

// Threads get the numbers 0, 1, 2 ...; the first eight of them have eight places each.
std::size_t kept_calls::first_of_thread() noexcept {
    static std::atomic<std::size_t> threads{0};
    thread_local const std::size_t number = threads.fetch_add(1, std::memory_order_relaxed);
    constexpr std::size_t groups = most / places_of_thread;
    return number % groups * places_of_thread + number / groups % places_of_thread;
}

bool kept_calls::take_if_fits(place& from, std::uint64_t key, std::span<const input_view> inputs) noexcept {
    if (from.key.load(std::memory_order_relaxed) != key || from.is_taken.load(std::memory_order_relaxed)) return false;
    if (!take(from)) return false;
    if (from.key.load(std::memory_order_relaxed) == key && from.what->fits(inputs)) {
        if (!from.was_used.load(std::memory_order_relaxed)) from.was_used.store(true, std::memory_order_relaxed);
        return true;
    }
    leave(from);
    return false;
}

kept_calls::use kept_calls::find(std::span<const input_view> inputs) noexcept {
    const std::uint64_t key = key_of(inputs);
    const std::size_t first = first_of_thread();
    for (std::size_t i = 0; i < most; ++i) {
        place& each = places_[(first + i) % most];
        if (take_if_fits(each, key, inputs)) return use(i < places_of_thread ? each : brought_to(first, each));
    }
    return {};
}

bool kept_calls::has(std::span<const input_view> inputs) const noexcept {
    const std::uint64_t key = key_of(inputs);
    for (const place& each : places_)
        if (each.key.load(std::memory_order_relaxed) == key) return true;
    return false;
}

// Moves the call of a place that this thread has taken to an empty one near `first`, if there is one.
kept_calls::place& kept_calls::brought_to(std::size_t first, place& from) noexcept {
    for (std::size_t i = 0; i < places_of_thread; ++i) {
        place& to = places_[(first + i) % most];
        if (to.key.load(std::memory_order_relaxed) != 0 || !take(to)) continue;
        if (to.what != nullptr) {
            leave(to);
            continue;
        }
        to.what = std::move(from.what);
        to.was_used.store(true, std::memory_order_relaxed);
        to.key.store(from.key.load(std::memory_order_relaxed), std::memory_order_relaxed);
        from.key.store(0, std::memory_order_relaxed);
        leave(from);
        return to;
    }
    return from;
}

// It is taken for the caller.
kept_calls::place* kept_calls::empty_place(std::size_t first) noexcept {
    for (std::size_t i = 0; i < most; ++i) {
        place& each = places_[(first + i) % most];
        if (each.key.load(std::memory_order_relaxed) != 0 || !take(each)) continue;
        if (each.what == nullptr) return &each;
        leave(each);
    }
    return nullptr;
}

// The same, with the call that it has: one that was not used since this looked at it before.
kept_calls::place* kept_calls::place_of_unused() noexcept {
    for (std::size_t i = 0; i < 2 * most; ++i) {
        place& each = places_[++looked_at_ % most];
        if (each.was_used.exchange(false, std::memory_order_relaxed) || !take(each)) continue;
        return &each;
    }
    return nullptr;
}

kept_calls::use kept_calls::add(std::unique_ptr<direct_call> made, std::span<const input_view> inputs) {
    std::unique_ptr<direct_call> dropped;  // destroyed without the lock
    const std::lock_guard lock(adding_);
    place* to = empty_place(first_of_thread());
    if (to == nullptr) to = place_of_unused();
    if (to == nullptr) return {};
    dropped = std::exchange(to->what, std::move(made));
    to->was_used.store(true, std::memory_order_relaxed);
    to->key.store(key_of(inputs), std::memory_order_relaxed);
    return use(*to);
}

}  // namespace sluice::nn::detail
