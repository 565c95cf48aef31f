// SPDX-License-Identifier: Apache-2.0
// kept_calls: the compiled calls of a network, each in use by one thread at a time.
//
// A thread that calls again and again, with the same shapes, finds its call at once and writes to no memory that
// another thread reads: each thread begins to look at a place of its own, and takes there what it finds elsewhere.
// Without that two threads with short calls took up to half of their time to pass cache lines to each other.
//
// Thread safety: all members may be called on any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <utility>

#include "nn/direct_call.hpp"
#include "sluice/nn/host_view.hpp"

namespace sluice::nn::detail {

class kept_calls {
    struct place;

public:
    static constexpr std::size_t most = 64;

    // Keeps at most this many bytes of calls, beyond those for the inputs that came last.
    explicit kept_calls(std::size_t most_bytes) noexcept : most_bytes_(most_bytes) {}

    // A call in use. It points into the kept_calls.
    class use {
    public:
        use() = default;
        use(use&& from) noexcept : of_(std::exchange(from.of_, nullptr)) {}
        use& operator=(use&&) = delete;  // it is given back at its own end
        ~use() {
            if (of_ != nullptr) of_->is_taken.store(false, std::memory_order_release);
        }

        explicit operator bool() const noexcept { return of_ != nullptr; }
        direct_call& operator*() const noexcept { return *of_->what; }

    private:
        friend class kept_calls;
        explicit use(place& of) noexcept : of_(&of) {}

        place* of_ = nullptr;
    };

    // A number for their types and shapes, not 0. Two combinations hardly ever have the same.
    static std::uint64_t key_of(std::span<const input_view> inputs) noexcept;

    // A call for these inputs that no thread uses; or none.
    use find(std::span<const input_view> inputs) noexcept;
    // Whether there is one for these inputs, or very probably, in use or not.
    bool has(std::span<const input_view> inputs) const noexcept;
    // Keeps one more call. Those that were used longest ago go where there are many, or where all would take too many
    // bytes; of these none that is for the same inputs, since as many threads call at the same time. None where all are
    // in use: then the call is gone. Takes time for each call that is kept.
    use add(std::unique_ptr<direct_call> made, std::span<const input_view> inputs);

    std::size_t bytes() const noexcept { return all_bytes_.load(std::memory_order_relaxed); }  // of all calls

private:
    static constexpr std::size_t places_of_thread = 8;

    // In a cache line of its own.
    struct alignas(64) place {
        std::atomic<std::uint64_t> key{0};  // of the inputs' shapes; 0: empty. Only who has taken the place changes it
        std::atomic<bool> is_taken{false};
        std::atomic<std::uint64_t> used_at{0};  // how many calls had been added then
        std::unique_ptr<direct_call> what;
    };

    static std::size_t first_of_thread() noexcept;
    static bool take(place& from) noexcept { return !from.is_taken.exchange(true, std::memory_order_acquire); }
    static void leave(place& to) noexcept { to.is_taken.store(false, std::memory_order_release); }
    bool take_if_fits(place& from, std::uint64_t key, std::span<const input_view> inputs) noexcept;
    void note_use(place& of) noexcept;
    place& brought_to(std::size_t first, place& from) noexcept;
    place* empty_place(std::size_t first) noexcept;
    place* longest_unused(std::uint64_t key_to_spare) noexcept;
    std::unique_ptr<direct_call> taken_out(place& from) noexcept;

    const std::size_t most_bytes_;
    std::array<place, most> places_;
    std::mutex adding_;
    std::atomic<std::uint64_t> added_{0};    // calls, so far
    std::atomic<std::size_t> all_bytes_{0};  // only who has adding_ changes these two
};

}  // namespace sluice::nn::detail
