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
constexpr std::chrono::milliseconds longest_scan_rest{5000};
constexpr int scans_rest = 50;  // as long as a scan of the folder takes, before the next one

[[noreturn]] void refuse_step(const sequence_request& of, std::uint64_t made) {
    throw refusal(refusal_kind::bad_request, "this is step " + std::to_string(of.step.value_or(0)) +
                                                 " of the sequence " + of.id.words() + ", which has made " +
                                                 std::to_string(made) + " steps: the next one is step " +
                                                 std::to_string(made));
}

}  // namespace

bool is_same_state(const std::vector<nn::value_info>& a, const std::vector<nn::value_info>& b) {
    const auto is_same_length = [](const nn::dimension& x, const nn::dimension& y) { return x.length == y.length; };
    return std::ranges::equal(a, b, [&](const nn::value_info& x, const nn::value_info& y) {
        if (x.name != y.name || x.type != y.type || x.shape.has_value() != y.shape.has_value()) return false;
        return !x.shape || std::ranges::equal(*x.shape, *y.shape, is_same_length);
    });
}

sequence_table::sequence_table(const limits& its, std::unique_ptr<state_folder> folder)
    : folder_(std::move(folder)), limits_(its) {
    if (folder_) looking_ = std::thread([this] { look(); });
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
void sequence_table::require_room(const sequence_id& id) const {
    if (live_.size() < limits_.most) return;
    throw refusal(refusal_kind::queue_full,
                  "the sequence " + id.words() + " cannot begin: " + std::to_string(live_.size()) +
                      " are live, and the model accepts " + std::to_string(limits_.most) +
                      " (max_sequences); one that ends (sequence_end) makes room, or one that has no step for " +
                      std::to_string(limits_.idle.count()) + " ms",
                  live_.size());
}

// A state that will never have room is not for another try.
void sequence_table::require_part(const sequence_request& of, std::size_t bytes) {
    if (!of.budget || bytes <= of.budget->most_bytes() / 2) return;
    throw refusal(refusal_kind::too_large, "the state of the sequence " + of.id.words() + " takes " +
                                               std::to_string(bytes) + " bytes; states may take " +
                                               std::to_string(of.budget->most_bytes() / 2) +
                                               ", half of the memory for requests");
}

// Called with the lock. With a folder nothing is lost with what is here: it makes room, the longest idle one first.
// `of`: only what counts for this; null: any. False: there is none.
bool sequence_table::evict_one(const request_budget* of) {
    if (!folder_) return false;
    const auto its =
        std::ranges::find_if(idle_, [&](const sequence* each) { return of == nullptr || each->budget.get() == of; });
    if (its == idle_.end()) return false;
    const auto found = live_.find((*its)->id);
    idle_.erase(its);
    live_.erase(found);
    return true;
}

// Called with the lock.
bool sequence_table::hold(sequence& its, std::size_t bytes) {
    while (!its.hold(bytes))
        if (!evict_one(its.budget.get()) && !evict_one(nullptr)) return false;
    return true;
}

// Called with the lock.
sequence_table::sequences::iterator sequence_table::begin(const sequence_request& of) {
    const bool counts = folder_ == nullptr;
    if (counts && of.budget && !of.budget->begin_sequence()) {
        const std::size_t most = of.budget->most_sequences();
        throw refusal(refusal_kind::queue_full,
                      "the sequence " + of.id.words() + " cannot begin: its client has " + std::to_string(most) +
                          ", and may have no more at a time; one that ends (sequence_end) makes room");
    }
    try {
        return live_.try_emplace(of.id, of.id, of.budget, counts).first;
    } catch (const std::bad_alloc&) {
        if (counts && of.budget) of.budget->end_sequence();
        throw;
    }
}

bool sequence_table::enter(const std::shared_ptr<sequence_step>& step) {
    const sequence_request& of = step->of();
    const std::lock_guard lock(mutex_);
    const auto now = clock::now();
    end_idle(now);
    auto found = live_.find(of.id);
    if (found == live_.end()) {
        if (!of.begins && !folder_) refuse_unknown(of.id);  // with a folder, the step finds out in its turn
        if (live_.size() >= limits_.most) evict_one(nullptr);
        require_room(of.id);
        if (!looking_.joinable()) looking_ = std::thread([this] { look(); });
        found = begin(of);
        if (!hold(found->second, own_bytes)) {
            live_.erase(found);
            throw refusal::for_now("the memory for requests is in use");
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
    std::unique_lock lock(mutex_);
    sequence& its = find(step);
    if (folder_) {
        lock.unlock();  // nothing else changes the state of a sequence in a step's turn
        require_state(its, step, like);
        lock.lock();
    }
    if (!its.state) refuse_unknown(step.of().id);  // steps before this one have ended it, or failed to begin it
    if (const auto asked = step.of().step; asked && *asked != its.place_of_state.steps)
        refuse_step(step.of(), its.place_of_state.steps);
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
    std::unique_lock lock(mutex_);
    sequence& its = find(step);
    const std::size_t bytes = own_bytes + (step.of().ends ? 0 : made.size_bytes());
    require_part(step.of(), bytes);
    const sequence_request& of = step.of();
    if (!hold(its, bytes))
        throw refusal::for_now("the memory for requests is in use: the next state of the sequence " + of.id.words() +
                               " has no room, and this step was not made");
    its.place_of_next = of.begins ? its.begun : its.place_of_state;
    ++its.place_of_next.steps;
    its.place_of_next.has_ended = of.ends;
    if (folder_) {
        lock.unlock();
        if (!folder_->write(of, its.place_of_next, made) && !its.repeats) {
            its.state.reset();
            throw refusal(refusal_kind::bad_request,
                          "another server has made this step of the sequence " + of.id.words() +
                              ", or later ones, meanwhile; where sequence_step names the last one, its answer comes");
        }
        lock.lock();
    }
    its.next = std::move(made);
}

void sequence_table::begin_life(const sequence_step& step) {
    std::unique_lock lock(mutex_);
    sequence& its = find(step);
    its.repeats = false;
    its.begun = {};
    if (!folder_) return;
    const std::size_t most = limits_.most;
    lock.unlock();
    its.begun = folder_->begin(step.of(), step.arrived(), most);
}

// In the step's turn, without the lock: the state that it continues from is here, where there is one.
void sequence_table::require_state(sequence& its, const sequence_step& step, const std::vector<nn::value_info>& like) {
    const sequence_request& of = step.of();
    its.repeats = false;
    const std::optional<sequence_place> last = folder_->find(of);
    if (last && its.state && *last == its.place_of_state && (!of.step || *of.step == last->steps)) return;
    its.state.reset();
    if (!last) return;
    sequence_place from = *last;
    if (of.step && *of.step + 1 == last->steps) {
        its.repeats = true;
        from.steps = *of.step;
        from.has_ended = false;
    }
    if (last->has_ended && !(its.repeats && of.ends)) return;
    if (of.step && *of.step != from.steps) refuse_step(of, from.steps);
    if (from.steps == 0) refuse_step(of, last->steps);  // the first step is asked for again with sequence_start
    std::optional<kept_state> made = folder_->read(of, from, like, [&](std::size_t bytes) {
        const std::lock_guard lock(mutex_);
        if (!hold(its, own_bytes + bytes))
            throw refusal::for_now("the memory for requests is in use: the state of the sequence " + of.id.words() +
                                   " has no room");
    });
    const std::lock_guard lock(mutex_);
    if (made) its.hold(own_bytes + made->size_bytes());
    its.state = std::move(made);
    its.place_of_state = from;
}

std::shared_ptr<sequence_step> sequence_table::end_turn(const sequence_step& step) noexcept {
    const std::lock_guard lock(mutex_);
    const auto found = live_.find(step.of().id);
    sequence& its = found->second;
    its.last_used = clock::now();
    if (its.next) {
        if (its.state && step.of().begins) ++ended_[static_cast<std::size_t>(sequence_end::restarted)];
        its.state = std::exchange(its.next, std::nullopt);
        its.place_of_state = its.place_of_next;
        if (its.repeats) its.state.reset();  // the folder has what the step has made first
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

// Their memory goes also where no request comes; with a folder, also what other servers have left there.
void sequence_table::look() {
    std::unique_lock lock(mutex_);
    clock::time_point next_scan{};
    while (!ends_) {
        if (folder_ && clock::now() >= next_scan) {
            const std::chrono::milliseconds idle = limits_.idle;
            lock.unlock();
            const auto begin = clock::now();
            folder_->remove_idle(idle, ends_);
            const auto end = clock::now();
            next_scan =
                end + std::max<clock::duration>(std::min(idle / 4, longest_scan_rest), scans_rest * (end - begin));
            lock.lock();
            continue;
        }
        if (live_.empty() && !folder_) {
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
