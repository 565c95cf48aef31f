// SPDX-License-Identifier: Apache-2.0
// sequence_table: the live sequences of a model: their states, whose turn it is, and which have been idle for too long.
// It outlives the version of the model that has made it: the next version takes it over. Where the states are in a
// folder (state_folder), it is a cache of them, and only a version with the same folder takes it over.
//
// Invariant: of one sequence at most one step has its turn, and only that one touches the sequence's state.
// Thread safety: all members may be called on any thread. It calls no model and no client.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "serve/budget_share.hpp"
#include "serve/state_folder.hpp"
#include "sluice/nn/any_tensor.hpp"
#include "sluice/nn/model.hpp"
#include "sluice/serve/sequence.hpp"

namespace sluice::serve {

class sequence_step;

// Whether a model whose state is `b` can continue from `a`: names, types, and lengths as far as the model says them.
bool is_same_state(const std::vector<nn::value_info>& a, const std::vector<nn::value_info>& b);

class sequence_table {
public:
    using clock = std::chrono::steady_clock;

    struct limits {
        std::size_t most = 0;               // live sequences
        std::size_t most_waiting = 0;       // steps that wait for those before them
        std::chrono::milliseconds idle{0};  // without a step
    };

    // Without a folder, the states are here alone. Throws std::system_error: with one, it has a thread from now on.
    explicit sequence_table(const limits& its, std::unique_ptr<state_folder> folder = nullptr);
    sequence_table(const sequence_table&) = delete;  // its thread knows its address
    sequence_table& operator=(const sequence_table&) = delete;
    ~sequence_table();

    void set_limits(const limits& its);

    // True: the step has its turn. False: it gets it from end_turn() of the step before it. Throws refusal, and nothing
    // changes: bad_request for a sequence that is not live where the step does not begin one; queue_full for one too
    // many, and for too many steps that wait; unavailable where the memory for requests is in use.
    bool enter(const std::shared_ptr<sequence_step>& step);

    // For the step that has its turn and begins its sequence. Throws what state_folder::begin throws.
    void begin_life(const sequence_step& step);
    // For the step that has its turn. Where it does not begin its sequence, the state that it continues from, valid
    // until the end of its turn. Throws refusal (bad_request) where the sequence is not live any more, its state is
    // another one than `like` (then the sequence has ended), or the step is not its next one, nor, with a folder, the
    // last one once more; and what state_folder::read throws.
    const kept_state& state_for(const sequence_step& step, const std::vector<nn::value_info>& like);
    // What the step has made: the sequence has it when the turn ends, and the folder at once. Throws refusal
    // (unavailable; too_large where it will never have room; bad_request where another server has made this step), and
    // nothing changes.
    void keep(const sequence_step& step, kept_state made);
    // Ends the turn; without keep() nothing has changed. Gives the step that has its turn now, if one waits.
    std::shared_ptr<sequence_step> end_turn(const sequence_step& step) noexcept;

    std::size_t size() const;
    bool is_in_folder() const noexcept { return folder_ != nullptr; }  // so nothing is lost with this
    // Whether both have their states in memory, or in one folder.
    bool has_place_of(const sequence_table& other) const noexcept {
        return folder_ && other.folder_ ? folder_->path() == other.folder_->path() : folder_ == other.folder_;
    }
    std::size_t waiting() const;  // steps, for those before them
    std::array<std::uint64_t, sequence_ends> ended() const;

private:
    struct sequence {
        // `of` may be empty. `is_counted`: its begin_sequence() has returned true.
        sequence(const sequence_id& called, std::shared_ptr<request_budget> of, bool is_counted)
            : id(called), place{this}, at(place.begin()), budget(std::move(of)), counts(is_counted) {
            if (budget) share.emplace(budget, budget_share::lasts::between_requests);
        }
        sequence(const sequence&) = delete;  // the list of idle ones knows its address
        sequence& operator=(const sequence&) = delete;
        ~sequence() {
            if (budget && counts) budget->end_sequence();
        }
        bool hold(std::size_t bytes) noexcept { return !share || share->hold(bytes); }

        const sequence_id id;
        std::list<sequence*> place;  // of one element, while a step has its turn; else that is in idle_
        const std::list<sequence*>::iterator at;
        std::optional<kept_state> state;  // none: it has not begun
        std::optional<kept_state> next;   // that the step which has its turn has kept
        sequence_place place_of_state, place_of_next;
        sequence_place begun;  // by the step that has its turn, where it begins
        bool repeats = false;  // the step that has its turn was made before
        std::deque<std::shared_ptr<sequence_step>> waiting;
        const std::shared_ptr<request_budget> budget;
        const bool counts;  // as one of the budget's; a folder counts its sequences itself
        std::optional<budget_share> share;
        bool has_turn = false;  // one of its steps
        clock::time_point last_used{};
    };

    using sequences = std::map<sequence_id, sequence>;

    sequence& find(const sequence_step& step);
    void require_state(sequence& its, const sequence_step& step, const std::vector<nn::value_info>& like);
    bool hold(sequence& its, std::size_t bytes);
    bool evict_one(const request_budget* of);
    static void require_part(const sequence_request& of, std::size_t bytes);
    sequences::iterator begin(const sequence_request& of);
    void require_room(const sequence_id& id) const;
    [[noreturn]] void refuse_unknown(const sequence_id& id) const;
    void end_idle(clock::time_point now);
    void look();

    const std::unique_ptr<state_folder> folder_;  // empty: the states are only here
    mutable std::mutex mutex_;                    // of what follows
    limits limits_;
    sequences live_;
    std::list<sequence*> idle_;  // of which no step has its turn; the longest one first
    std::size_t waiting_ = 0;
    std::array<std::uint64_t, sequence_ends> ended_{};
    std::atomic<bool> ends_{false};
    std::condition_variable wakes_;
    std::thread looking_;  // for idle ones; without a folder from the first sequence on
};

}  // namespace sluice::serve
