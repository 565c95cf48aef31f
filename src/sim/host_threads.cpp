// SPDX-License-Identifier: Apache-2.0
#include "sim/host_threads.hpp"

#include <cstdio>
#include <cstdlib>
#include <thread>
#include <utility>

#include "sim/sim_machine.hpp"

namespace sluice::sim::detail {
namespace {

// This many hand-overs in a row during which nothing happens cannot be an accident of the schedule.
constexpr std::size_t max_idle_hand_overs = 10'000;

}  // namespace

void host_threads::run(std::vector<std::function<void()>> bodies) {
    if (bodies.empty()) return;
    has_ended_.assign(bodies.size(), false);
    thrown_.assign(bodies.size(), nullptr);
    all_know_ = machine_.checks().host();
    knows_.assign(bodies.size(), all_know_);
    idle_hand_overs_ = 0;
    running_ = machine_.is_in_order() ? 0 : machine_.draw(static_cast<std::uint32_t>(bodies.size()));
    machine_.threads = this;
    {
        std::vector<std::jthread> all;
        all.reserve(bodies.size());
        for (std::size_t i = 0; i < bodies.size(); ++i)
            all.emplace_back([this, i, &body = bodies[i]] { live(i, body); });
    }
    machine_.threads = nullptr;
    machine_.checks().switch_host_thread(all_know_);
    for (std::exception_ptr& each : thrown_) {
        if (each) std::rethrow_exception(std::move(each));
    }
}

void host_threads::live(std::size_t self, const std::function<void()>& body) noexcept {
    {
        std::unique_lock lock(mutex_);
        may_run_.wait(lock, [&] { return running_ == self; });
        machine_.checks().switch_host_thread(knows_[self]);
    }
    sluice::detail::set_lock_scheduler_of_this_thread(this);
    sluice::detail::add_wait_driver(machine_.waits());
    try {
        body();
    } catch (...) {
        thrown_[self] = std::current_exception();
    }
    sluice::detail::set_lock_scheduler_of_this_thread(nullptr);
    const std::lock_guard lock(mutex_);
    has_ended_[self] = true;
    all_know_.join(machine_.checks().host());
    idle_hand_overs_ = 0;
    running_ = draw_other();
    may_run_.notify_all();
}

// In the schedule in order of submission, the first other thread runs when the current one has ended or cannot
// continue.
std::size_t host_threads::draw_other() noexcept {
    std::vector<std::size_t> others;
    for (std::size_t i = 0; i < has_ended_.size(); ++i) {
        if (i != running_ && !has_ended_[i]) others.push_back(i);
    }
    if (others.empty()) return running_;
    return others[machine_.is_in_order() ? 0 : machine_.draw(static_cast<std::uint32_t>(others.size()))];
}

bool host_threads::hand_over() noexcept {
    std::unique_lock lock(mutex_);
    const std::size_t self = running_;
    running_ = draw_other();
    if (running_ == self) return false;
    knows_[self] = machine_.checks().host();
    may_run_.notify_all();
    may_run_.wait(lock, [&] { return running_ == self; });
    machine_.checks().switch_host_thread(knows_[self]);
    return true;
}

void host_threads::scheduling_point() noexcept {
    if (sluice::detail::lock_scheduler_of_this_thread() != this) return;
    idle_hand_overs_ = 0;
    if (!machine_.is_in_order() && machine_.draw(4) == 0) hand_over();
}

void host_threads::let_others_run() noexcept {
    if (hand_over() && ++idle_hand_overs_ < max_idle_hand_overs) return;
    std::fputs("simulator: the host's threads wait for one another's locks\n", stderr);
    std::abort();  // a thread that waits for a lock cannot be interrupted
}

bool host_threads::run_others() noexcept {
    if (sluice::detail::lock_scheduler_of_this_thread() != this) return false;
    return ++idle_hand_overs_ <= 2 * has_ended_.size() && hand_over();
}

}  // namespace sluice::sim::detail
