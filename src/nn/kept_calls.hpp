// SPDX-License-Identifier: Apache-2.0
// kept_calls: answers of a network at once. For each combination of input shapes that comes again, the network is
// prepared once and kept; each prepared call is in use by one thread at a time. Where few numbers decide about shapes
// or about what is run, they are a part of the combination.
//
// A thread that calls again and again, with the same shapes, finds its call at once and writes to no memory that
// another thread reads: each thread begins to look at a place of its own, and takes there what it finds elsewhere.
// Without that two threads with short calls took up to half of their time to pass cache lines to each other.
//
// Thread safety: all members may be called on any thread. Threads that call at the same time with the same shapes get
// one prepared call each.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "nn/prepared_call.hpp"
#include "sluice/base/detail/spin_lock.hpp"
#include "sluice/nn/any_tensor.hpp"
#include "sluice/nn/host_view.hpp"

namespace sluice::nn::detail {

class kept_calls {
    struct place;

public:
    static constexpr std::size_t most = 64;

    // Keeps as many bytes of calls as kept_limit says now, beyond those for the inputs that came last.
    explicit kept_calls(const prepared_network& of);
    kept_calls(const kept_calls&) = delete;  // its calls point to the network
    kept_calls& operator=(const kept_calls&) = delete;
    ~kept_calls();

    // See network::operator().
    void operator()(std::span<const input_view> inputs, std::span<const output_view> outputs);
    std::vector<any_tensor> operator()(std::span<const input_view> inputs);

    // A number for their types and shapes, not 0. Two combinations hardly ever have the same.
    static std::uint64_t key_of(std::span<const input_view> inputs) noexcept;

    // Calls that no thread uses go, with their memory; later ones are made again. Takes time for each call.
    void forget() noexcept;

    std::size_t bytes() const noexcept { return all_bytes_.load(std::memory_order_relaxed); }  // of all calls

private:
    static constexpr std::size_t places_of_thread = 8;

    // In a cache line of its own.
    struct alignas(64) place {
        std::atomic<std::uint64_t> key{0};  // of the inputs' shapes; 0: empty. Only who has taken the place changes it
        std::atomic<bool> is_taken{false};
        std::atomic<std::uint64_t> used_at{0};  // how many calls had been added then
        std::unique_ptr<prepared_call> what;
    };

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
        prepared_call& operator*() const noexcept { return *of_->what; }

    private:
        friend class kept_calls;
        explicit use(place& of) noexcept : of_(&of) {}

        place* of_ = nullptr;
    };

    // The same, also for the few numbers that decide.
    std::uint64_t key_for(std::span<const input_view> inputs) const noexcept;
    // A call for these inputs that no thread uses; or none.
    use find(std::span<const input_view> inputs) noexcept;
    // Whether there is one for these inputs, or very probably, in use or not.
    bool has(std::span<const input_view> inputs) const noexcept;
    // Keeps one more call. Those that were used longest ago go where there are many, or where all would take too many
    // bytes; of these none that is for the same inputs, since as many threads call at the same time. None where all are
    // in use: then the call is gone. Takes time for each call that is kept.
    use add(std::unique_ptr<prepared_call> made, std::span<const input_view> inputs);

    static std::size_t first_of_thread() noexcept;
    static bool take(place& from) noexcept { return !from.is_taken.exchange(true, std::memory_order_acquire); }
    static void leave(place& to) noexcept { to.is_taken.store(false, std::memory_order_release); }
    bool take_if_fits(place& from, std::uint64_t key, std::span<const input_view> inputs) noexcept;
    void note_use(place& of) noexcept;
    place& brought_to(std::size_t first, place& from) noexcept;
    place* empty_place(std::size_t first) noexcept;
    place* longest_unused(std::uint64_t key_to_spare) noexcept;
    std::unique_ptr<prepared_call> taken_out(place& from) noexcept;

    // None: the network is not to be prepared for these inputs, or not yet.
    use use_for(std::span<const input_view> inputs);
    // Whether these shapes have come before. From here on they have.
    bool is_repeated(std::span<const input_view> inputs);
    // None where the network cannot be prepared, or when too many are in use.
    use prepare(std::span<const input_view> inputs);
    landed_outputs call_once(std::span<const input_view> inputs) const;
    // Calls require(outputs) when their types and shapes are known, which is before the run where the network is
    // prepared, and returns deliver(outputs) after the run.
    template <typename Require, typename Deliver>
    auto answer(std::span<const input_view> inputs, std::span<const output_view> to, const Require& require,
                const Deliver& deliver);

    const prepared_network& of_;
    const std::size_t most_bytes_;
    std::array<place, most> places_;
    std::mutex adding_;
    std::atomic<std::uint64_t> added_{0};    // calls, so far
    std::atomic<std::size_t> all_bytes_{0};  // only who has adding_ changes these two
    sluice::detail::spin_lock guard_;        // guards what follows; held for a few comparisons
    std::vector<std::uint64_t> seen_;        // keys of what came once, the latest last
    std::vector<std::uint64_t> refused_;     // keys of what cannot be prepared; of many, none is tried any more
};

}  // namespace sluice::nn::detail
