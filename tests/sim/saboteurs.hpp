// SPDX-License-Identifier: Apache-2.0
// Saboteurs, and plain commands on which they act.
#pragma once

#include <vector>

#include "sluice/sim/detail/saboteur.hpp"
#include "sluice/sluice.hpp"

namespace sluice::sim {

using detail::saboteur;
using detail::stream_wait;

// Waits.

class drops_waits final : public saboteur {
public:
    explicit drops_waits(std::size_t of_stream) : of_(of_stream) {}
    std::optional<stream_wait> wait(const stream_wait& asked) override {
        return asked.waiter == of_ ? std::nullopt : std::optional(asked);
    }

private:
    std::size_t of_;
};

// Shifts the tickets that stream `of` waits for: too early or too late.
class moves_waits final : public saboteur {
public:
    moves_waits(std::size_t of_stream, int by) : of_(of_stream), by_(by) {}
    std::optional<stream_wait> wait(const stream_wait& asked) override {
        stream_wait made = asked;
        if (asked.waiter == of_) made.upto = static_cast<ticket>(static_cast<std::int64_t>(made.upto) + by_);
        return made;
    }

private:
    std::size_t of_;
    int by_;
};

class redirects_waits final : public saboteur {
public:
    explicit redirects_waits(std::size_t to_stream) : to_(to_stream) {}
    std::optional<stream_wait> wait(const stream_wait& asked) override { return {{asked.waiter, to_, 1}}; }

private:
    std::size_t to_;
};

// Refuses the first command of that name in each schedule, and drops the waits submitted for it if `forgets`.
class refuses_once final : public saboteur {
public:
    refuses_once(std::string_view name, bool forgets) : name_(name), forgets_(forgets) {}
    void schedule_begins() override { done_ = false; }
    bool refuses(std::size_t, std::string_view name) override { return name == name_ && !std::exchange(done_, true); }
    bool drops_waits_of_refused() override { return forgets_; }

private:
    std::string_view name_;
    bool forgets_;
    bool done_ = false;
};

// Completion.

// Reports the first `upto` commands of every stream as passed as soon as they are submitted.
class completes_too_early final : public saboteur {
public:
    explicit completes_too_early(ticket upto = 1'000'000) : upto_(upto) {}
    ticket passed(std::size_t, ticket passed, ticket issued) noexcept override {
        return std::max(passed, std::min(issued, upto_));
    }

private:
    ticket upto_;
};

class skips_host_waits final : public saboteur {
public:
    bool awaits(std::size_t, ticket) override { return false; }
};

class loses_wake_ups final : public saboteur {
public:
    bool tells(std::size_t, ticket) noexcept override { return false; }
};

// Memory.

class hands_out_memory_twice final : public saboteur {
public:
    bool hands_out_twice(std::size_t) override { return true; }
};

// Commands.

struct set_all {
    SLUICE_KERNEL void operator()(index_1d at, float to, disjoint_view<float> x) const {
        if (float* element = x.at(at)) *element = to;
    }
};
struct add_all {
    SLUICE_KERNEL void operator()(index_1d at, view<const float> from, disjoint_view<float> to) const {
        if (float* element = to.at(at)) *element += from[at.value()];
    }
};

inline void set(stream on, const tensor<float>& x, float to) { launch_on(on, set_all{}, each_of(x), to, x); }
inline void add(stream on, const tensor<float>& from, const tensor<float>& to) {
    launch_on(on, add_all{}, each_of(to), from, to);
}
inline std::vector<float> contents(stream on, tensor<float> x) { return sync_on(download(std::move(x)), on); }

}  // namespace sluice::sim
