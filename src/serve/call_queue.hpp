// SPDX-License-Identifier: Apache-2.0
// call_queue: the calls that wait for a model, in the order in which they are computed, and which of them make the next
// batch.
//
// Level 1 comes first. In each level come those whose time is not over, oldest first, and after them those that their
// policy has delayed. It knows no thread: the model's lock guards it.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sluice/serve/infer_call.hpp"
#include "sluice/serve/model_config.hpp"

namespace sluice::serve {

// One request in the queue.
struct waiting_call {
    std::shared_ptr<infer_call> call;
    infer_call::clock::time_point since;
    std::size_t rows = 1;      // of a model that joins: the length of the first dimension
    std::size_t elements = 0;  // of all inputs
    // Set by the queue. After `deadline` it is not computed; after `yields_at` it is computed after the others of its
    // level.
    std::optional<infer_call::clock::time_point> deadline = std::nullopt;
    std::optional<infer_call::clock::time_point> yields_at = std::nullopt;
    bool is_answered = false;        // and not refused
    bool has_ended_process = false;  // one has ended with a batch that it was part of: it runs once more, alone

    bool is_late(infer_call::clock::time_point now) const noexcept { return deadline && *deadline < now; }
    // Whether it is not to be computed: it is late, or its client has gone.
    bool is_left_out(infer_call::clock::time_point now) const noexcept { return is_late(now) || !call->is_wanted(); }
};

// Which calls may be one batch.
struct batch_rule {
    bool joins = false;
    std::size_t rows = 1;                         // of a batch of several calls
    std::span<const std::size_t> preferred = {};  // rows, ascending, none above `rows`
};

// The first calls of the queue that would be a batch now.
struct next_batch {
    std::size_t calls = 0;
    bool is_ready = false;                        // by waiting it would become no better
    infer_call::clock::time_point oldest{};       // when the oldest of them has come; without calls nothing
    infer_call::clock::time_point changes_after;  // when the time of the first of them is over

    next_batch() : changes_after(infer_call::clock::time_point::max()) {}
};

class call_queue {
public:
    using clock = infer_call::clock;

    // `whose` is for messages: "model 'digits'".
    call_queue(std::string whose, const model_config& config);

    bool empty() const noexcept { return size_ == 0; }
    std::size_t size() const noexcept { return size_; }
    bool is_full() const noexcept { return size_ >= most_; }
    // Calls that were delayed since the beginning.
    std::size_t delayed() const noexcept { return delayed_; }

    // On any thread, without the lock. Throws refusal (bad_request) for a level that there is not.
    void require_level(std::size_t priority) const { static_cast<void>(level_of(priority)); }
    // The same. Why a call is refused while `waiting` calls fill the queue.
    refusal why_full(std::size_t waiting) const;

    // Throws refusal: bad_request for a level that there is not, queue_full for a queue or a level without room. Then
    // the call is not taken.
    void push(waiting_call call);

    // Looks from the first call on as far as a batch reaches. Calls that are left out leave the queue for `left_out`;
    // those whose time to be delayed has come go after the others of their level. Without memory (std::bad_alloc) each
    // call is in the queue or in `left_out`.
    next_batch look(const batch_rule& rule, clock::time_point now, std::vector<waiting_call>& left_out);
    // Takes the first calls. Nothing but look() may lie between the answer of look() and this.
    std::vector<waiting_call> take(std::size_t calls);
    // The first call, if there is one. It takes no memory.
    std::optional<waiting_call> take_first() noexcept;

private:
    struct level {
        queue_policy policy;
        std::deque<waiting_call> in_time, delayed;

        std::size_t size() const noexcept { return in_time.size() + delayed.size(); }
    };
    std::size_t level_of(std::size_t priority) const;
    void require_room(std::size_t at) const;
    void set_times(waiting_call& call, const queue_policy& policy) const;
    bool sort_out(level& its, std::deque<waiting_call>& part, std::size_t at, clock::time_point now,
                  std::vector<waiting_call>& left_out);

    const std::string whose_;
    const std::size_t most_;           // calls
    const std::size_t timeout_us_;     // of every call; 0: no limit
    const std::size_t default_level_;  // from 0
    const bool has_levels_;
    std::vector<level> levels_;
    std::size_t size_ = 0;
    std::size_t delayed_ = 0;
};

}  // namespace sluice::serve
