// SPDX-License-Identifier: Apache-2.0
#include "serve/sequence_table.hpp"

#include <algorithm>
#include <utility>

#include "serve/sequence_step.hpp"
#include "sluice/serve/refusal.hpp"

namespace sluice::serve {
namespace {

// What a sequence takes besides its state.
constexpr std::size_t own_bytes = 1024;
constexpr std::chrono::milliseconds longest_look{1000};

}  // namespace

std::size_t kept_state::size_bytes() const noexcept {
    std::size_t bytes = 0;
    for (const nn::any_tensor& each : values) bytes += each.size_bytes();
    return bytes;
}

bool is_same_state(const std::vector<nn::value_info>& a, const std::vector<nn::value_info>& b) {
    const auto is_same_length = [](const nn::dimension& x, const nn::dimension& y) { return x.length == y.length; };
    return std::ranges::equal(a, b, [&](const nn::value_info& x, const nn::value_info& y) {
        if (x.name != y.name || x.type != y.type || x.shape.has_value() != y.shape.has_value()) return false;
        return !x.shape || std::ranges::equal(*x.shape, *y.shape, is_same_length);
    });
}

sequence_table::~sequence_table() {
    {
        const std::lock_guard lock(mutex_);
        ends_ = true;
        wakes_.notify_all();
    }
    if (looking_.joinable()) looking_.join();
}

void sequence_table::set_limits(const limits& its) {
    const std::lock_guard lock(mutex_);
    limits_ = its;
    wakes_.notify_all();
}

void sequence_table::refuse_unknown(const sequence_id& id) const {
    throw refusal(refusal_kind::bad_request,
                  "there is no sequence " + id.words() + ": it has ended, had no step for " +
                      std::to_string(limits_.idle.count()) +
                      " ms (sequence_idle_ms), or never began; a step with sequence_start begins it");
}

// Called with the lock.
void sequence_table::require_room(const sequence_id& id) {
    if (live_.size() < limits_.most) return;
    throw refusal(refusal_kind::queue_full,
                  "the sequence " + id.words() + " cannot begin: " + std::to_string(live_.size()) +
                      " are live, and the model accepts " + std::to_string(limits_.most) +
                      " (max_sequences); one that ends (sequence_end) makes room, or one that has no step for " +
                      std::to_string(limits_.idle.count()) + " ms",
                  live_.size());
}

bool sequence_table::enter(const std::shared_ptr<sequence_step>& step) {
    const sequence_request& of = step->of();
    const std::lock_guard lock(mutex_);
    const auto now = clock::now();
    end_idle(now);
    auto found = live_.find(of.id);
    if (found == live_.end()) {
        if (!of.begins) refuse_unknown(of.id);
        require_room(of.id);
        if (!looking_.joinable()) looking_ = std::thread([this] { look(); });
        found = live_.try_emplace(of.id, of.id, of.budget).first;
        if (!found->second.hold(own_bytes)) {
            live_.erase(found);
            throw refusal(refusal_kind::unavailable, "the memory for requests is in use");
        }
        if (live_.size() == 1) wakes_.notify_all();
        found->second.has_turn = true;
        return true;
    }
    sequence& its = found->second;
    if (!its.has_turn) {
        its.place.splice(its.place.end(), idle_, its.at);
        its.has_turn = true;
        return true;
    }
    if (waiting_ >= limits_.most_waiting)
        throw refusal(refusal_kind::queue_full,
                      std::to_string(waiting_) + " steps wait for those before them, as many as the queue takes",
                      waiting_);
    its.waiting.push_back(step);
    ++waiting_;
    return false;
}

// Called with the lock, in the step's turn: it is there until that ends.
sequence_table::sequence& sequence_table::find(const sequence_step& step) { return live_.find(step.of().id)->second; }

const kept_state& sequence_table::state_for(const sequence_step& step, const std::vector<nn::value_info>& like) {
    const std::lock_guard lock(mutex_);
    sequence& its = find(step);
    if (!its.state) refuse_unknown(step.of().id);  // steps before this one have ended it, or failed to begin it
    if (is_same_state(its.state->like, like)) return *its.state;
    its.state.reset();
    its.hold(own_bytes);
    ++ended_[static_cast<std::size_t>(sequence_end::replaced)];
    throw refusal(
        refusal_kind::bad_request,
        "the sequence " + step.of().id.words() +
            " has ended: the model was loaded again, and its state has other names, types or shapes; begin it "
            "again with sequence_start");
}

void sequence_table::keep(const sequence_step& step, kept_state made) {
    const std::lock_guard lock(mutex_);
    sequence& its = find(step);
    if (!its.hold(own_bytes + (step.of().ends ? 0 : made.size_bytes())))
        throw refusal(refusal_kind::unavailable, "the memory for requests is in use: the next state of the sequence " +
                                                     step.of().id.words() + " has no room, and this step was not made");
    its.next = std::move(made);
}

std::shared_ptr<sequence_step> sequence_table::end_turn(const sequence_step& step) noexcept {
    const std::lock_guard lock(mutex_);
    const auto found = live_.find(step.of().id);
    sequence& its = found->second;
    its.last_used = clock::now();
    if (its.next) {
        if (its.state && step.of().begins) ++ended_[static_cast<std::size_t>(sequence_end::restarted)];
        its.state = std::exchange(its.next, std::nullopt);
        if (step.of().ends) {
            its.state.reset();
            ++ended_[static_cast<std::size_t>(sequence_end::asked)];
        }
    }
    if (its.waiting.empty()) {
        its.has_turn = false;
        if (its.state)
            idle_.splice(idle_.end(), its.place);
        else
            live_.erase(found);
        return nullptr;
    }
    std::shared_ptr<sequence_step> next = std::move(its.waiting.front());
    its.waiting.pop_front();
    --waiting_;
    return next;
}

// Called with the lock.
void sequence_table::end_idle(clock::time_point now) {
    while (!idle_.empty() && now - idle_.front()->last_used > limits_.idle) {
        const auto found = live_.find(idle_.front()->id);
        idle_.pop_front();
        live_.erase(found);
        ++ended_[static_cast<std::size_t>(sequence_end::idle)];
    }
}

// Their memory goes also where no request comes.
void sequence_table::look() {
    std::unique_lock lock(mutex_);
    while (!ends_) {
        if (live_.empty()) {
            wakes_.wait(lock);
            continue;
        }
        const auto time = std::clamp(limits_.idle / 4, std::chrono::milliseconds(1), longest_look);
        wakes_.wait_for(lock, time);
        end_idle(clock::now());
    }
}

std::size_t sequence_table::size() const {
    const std::lock_guard lock(mutex_);
    return live_.size();
}

std::size_t sequence_table::waiting() const {
    const std::lock_guard lock(mutex_);
    return waiting_;
}

std::array<std::uint64_t, sequence_ends> sequence_table::ended() const {
    const std::lock_guard lock(mutex_);
    return ended_;
}

}  // namespace sluice::serve
