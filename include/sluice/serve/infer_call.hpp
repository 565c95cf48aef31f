// SPDX-License-Identifier: Apache-2.0
// infer_call: one request to a model, from its arrival to its answer; and lent_thread, the thread of a front end.
//
// A front end derives from both. It owns the memory of the inputs, which must stay until the call is answered.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "sluice/serve/refusal.hpp"
#include "sluice/serve/sequence.hpp"
#include "sluice/serve/tensor_view.hpp"

namespace sluice::serve {

class served_model;

class infer_call {
public:
    using clock = std::chrono::steady_clock;  // of all times of a call

    virtual ~infer_call() = default;

    // Of a step of a sequence, before answer() with the same outputs, while a refusal still leaves the sequence as it
    // was: what can fail of the answer is to be done here. Throws what refuse() then says.
    virtual void make_answer(std::span<const tensor_view>) {}
    // One of the two is called, once, on the thread that has taken the batch. `outputs` are in the model's order and
    // valid during the call. Neither may call the model. answer() returns whether it was an answer: one that could not
    // be written is a refusal.
    virtual bool answer(std::span<const tensor_view> outputs) noexcept = 0;
    virtual void refuse(const refusal& why) noexcept = 0;  // there is no answer, for this reason

    // Whether the client still waits for the answer. A call of a client that has gone is not computed, or not to its
    // end. Asked on any thread, with and without the model's lock, also while the call is computed: it returns at once,
    // and does not call the model. Costs O(1).
    virtual bool is_wanted() const noexcept { return true; }

    // How far the call has come, for traces; the model says it before it answers. A time that is not reached is zero.
    struct progress {
        clock::time_point queued{};    // into the queue
        clock::time_point begun{};     // its batch is taken
        clock::time_point joined{};    // the batch's inputs are there: it begins to be computed
        clock::time_point computed{};  // the batch is computed, or has failed
        std::size_t rows = 0;          // its own; 1 of a model that does not join
        std::uint64_t batch = 0;       // a number that no other batch of the process has, from 1 on
        std::size_t batch_rows = 0;    // of the batch that it was in
    };
    progress so_far;  // written by the model until it answers

    std::vector<tensor_view> inputs;  // in the model's order; of a step, those that are state are not looked at
    // Of a step of a sequence. Its outputs are the model's, with the state.
    std::optional<sequence_request> sequence;
    // The request's own time in the queue. What happens after it, the model's queue_policy says.
    std::optional<std::chrono::microseconds> timeout;
    std::size_t priority = 0;  // 1 comes first; 0: the model's default
};

// A thread that takes requests and can compute short batches between them, without the way to another thread and back.
class lent_thread {
public:
    virtual ~lent_thread() = default;

    // Calls model->run_waiting() on that thread, after it has taken the requests that have arrived by now. Costs
    // at most one allocation.
    virtual void run_soon(std::shared_ptr<served_model> model) = 0;
};

}  // namespace sluice::serve
