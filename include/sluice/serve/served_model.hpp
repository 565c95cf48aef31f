// SPDX-License-Identifier: Apache-2.0
// served_model: one version of a model with its queue, its threads and its statistics.
//
// A request that arrives while nothing is computed begins at once. Those that wait are computed together, by their
// priorities: they are joined along the first dimension, when the model allows it (joins_because). A batch that is
// expected to be short runs on the thread that the front end lends; a longer one on a thread of this model, so that it
// holds up no other model.
//
// Thread safety: all members may be called on any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "sluice/serve/engine.hpp"
#include "sluice/serve/infer_call.hpp"
#include "sluice/serve/model_config.hpp"
#include "sluice/serve/statistics.hpp"

namespace sluice::serve {

class call_queue;
class sequence_step;
class sequence_table;
class size_classes;
struct waiting_call;
struct batch_rule;

class served_model : public std::enable_shared_from_this<served_model> {
public:
    // Runs the model with numbers of its own to learn its times. Requests are joined where the
    // model's rows are proven to be independent (loaded_model::rows), or where the configuration asks for batches,
    // which is a promise that they are. Throws error when it asks, and inputs and outputs cannot be joined along their
    // first dimensions. `states`: a folder for the states of its sequences, in one that is there
    // (server_options::states); empty: they are in memory. Costs the trial runs of the model.
    static std::shared_ptr<served_model> make(std::string name, std::size_t version,
                                              std::shared_ptr<const loaded_model> network, const model_config& config,
                                              const std::filesystem::path& states = {});
    served_model(const served_model&) = delete;  // it owns threads
    served_model& operator=(const served_model&) = delete;
    ~served_model();  // close(), which blocks until all requests are answered

    const std::string& name() const noexcept { return name_; }          // as the model's source has it
    std::size_t version() const noexcept { return version_; }           // as the model's source has it
    const std::string& device() const noexcept { return device_; }      // its name
    const loaded_model& network() const noexcept { return *network_; }  // the loaded network that computes
    const model_config& config() const noexcept { return config_; }     // the configuration that make received
    // The rows of one batch; 1: requests are computed one by one.
    std::size_t max_batch() const noexcept { return max_batch_; }
    // Why requests are joined, or why not: for people. A batch may show that they cannot be. Costs a copy of the text.
    std::string joins_because() const;
    // The numbers of rows to which batches are padded, ascending: of those, a trial at load time has shown that they
    // take hardly longer than fewer rows. Costs a copy of them.
    std::vector<std::size_t> padded_sizes() const;
    // Which inputs and outputs are the state of sequences. Costs O(1).
    const state_values& state() const noexcept { return state_; }
    // Before requests come: sequences of `before`, which this model replaces, go on here, each as far as its state is
    // the same, and their steps in the order of arrival; but not where the states are in another folder. Costs O(1).
    void continue_from(served_model& before);
    // False after a failure of the device. Costs what loaded_model::is_lost costs, under the model's lock.
    bool is_ready() const;
    // Whether the device has failed. Then submit() refuses all. Costs what loaded_model::is_lost costs, under the
    // model's lock.
    bool is_lost() const;

    // For a front end that has a long request: throws refusal (queue_full) while the queue is full, before the request
    // is read, and notes it as submit() does. It takes no lock. Where it throws nothing, submit() may still refuse.
    // Costs O(1).
    void require_room(infer_call& call);

    // Takes the request into the queue. It is answered later, on another thread or, after the return, on `lent`. False:
    // close() was called, so look for the model's successor. Throws refusal for inputs that do not fit the model and a
    // priority that it does not have (bad_request), a full queue, and a model whose device has failed. Steps of one
    // sequence are computed one after the other, in the order in which they come here; a step that is refused changes
    // nothing of its sequence. Throws refusal for a step of a sequence that is not live, of a model without state
    // (bad_request), and for one sequence too many (queue_full). Costs O(inputs), and at most the waking of a thread.
    bool submit(std::shared_ptr<infer_call> call, lent_thread* lent = nullptr);

    // Gives up memory that its network keeps between runs, where no request has come for this time; once until one
    // comes. Costs O(shapes that are kept).
    void give_back_if_idle(std::chrono::milliseconds idle) noexcept;

    // Computes one batch of those that wait, on this thread. For lent_thread. Costs at most one run of the model, and
    // copies of the inputs where requests are joined.
    void run_waiting();

    // When the last request came; without one, when the model was made. Costs O(1).
    std::chrono::steady_clock::time_point last_asked() const noexcept;
    // Takes no more requests, as after close(), where it has none now and no live sequence that would be lost.
    // False: it has. Costs O(1).
    bool retire();
    // Takes requests again, after retire(). Costs O(1).
    void stay();

    // Takes no more requests, and blocks until those that it has are answered. Costs the runs that are left.
    void close();

    model_statistics statistics() const;  // a copy of the statistics at this moment; costs a copy

private:
    using clock = infer_call::clock;
    struct taken_calls;
    class run_watch;
    friend class sequence_step;  // when it has ended

    served_model(std::string name, std::size_t version, std::shared_ptr<const loaded_model> network,
                 const model_config& config, const std::filesystem::path& states);
    void require_joinable() const;
    bool has_threads() noexcept;
    void require_threads();
    void work();
    void serve_queue(std::unique_lock<std::mutex>& lock);
    bool push(std::shared_ptr<infer_call> call, clock::time_point since, lent_thread* lent, bool is_accepted);
    bool submit_step(std::shared_ptr<infer_call> call, lent_thread* lent);
    void queue_turn(std::shared_ptr<sequence_step> step) noexcept;
    static void begin_turn(std::shared_ptr<sequence_step> step, lent_thread* lent) noexcept;
    void end_step() noexcept;
    bool is_short(std::size_t elements) const;
    void note_room() noexcept;
    void note_asked(clock::time_point now) noexcept;
    [[noreturn]] void refuse_full(std::size_t waiting);
    void lend_to(lent_thread& thread);
    batch_rule rule() const;
    void count_left_out(const waiting_call& call, clock::time_point now);
    void take(taken_calls& to);
    void take_in_time(std::unique_lock<std::mutex>& lock, taken_calls& to);
    void take_without_memory(taken_calls& to) noexcept;
    void run_batch(taken_calls taken, bool on_caller_thread) noexcept;
    std::size_t rows_to_compute(std::span<const waiting_call> batch) const;
    std::optional<refusal> compute(std::span<waiting_call> batch, bool on_caller_thread) noexcept;
    std::vector<nn::any_tensor> run_watched(std::vector<nn::any_tensor> inputs, std::span<const waiting_call> batch,
                                            bool on_caller_thread) const;
    void move_to_own_thread(std::span<waiting_call> batch) noexcept;
    void compute_each(std::span<waiting_call> batch, bool on_caller_thread) noexcept;
    void count_batch(std::span<const waiting_call> batch, std::size_t rows, clock::time_point begin,
                     clock::time_point joined, clock::time_point computed, clock::time_point end);
    void note_failure(const std::exception& failure) noexcept;
    bool is_at_end() const noexcept;

    const std::string name_;
    const std::size_t version_;
    const std::shared_ptr<const loaded_model> network_;
    const std::string device_;
    const model_config config_;
    std::size_t max_batch_ = 1;
    std::string joins_because_;
    std::unique_ptr<const size_classes> sizes_;
    const state_values state_;
    std::shared_ptr<sequence_table> sequences_;         // empty: the model has no state
    std::shared_ptr<sequence_table> unused_sequences_;  // of its successor, which continues those above

    mutable std::mutex mutex_;
    std::condition_variable has_work_;
    std::condition_variable is_idle_;
    std::unique_ptr<call_queue> queue_;
    std::atomic<std::size_t> full_with_{0};           // the calls of a full queue; 0: it has room
    std::atomic<std::uint64_t> refused_unlocked_{0};  // because of it, without the lock
    std::atomic<clock::rep> asked_{0};                // when the last request came; without the lock
    std::size_t running_ = 0;                         // requests
    std::size_t steps_ = 0;                           // of sequences, from submit() to their answers
    std::size_t idle_threads_ = 0;
    bool is_lent_ = false;  // run_waiting() will be called
    // A batch has taken long on a lent thread, though others were short: what it costs depends on its numbers.
    bool may_take_long_ = false;
    std::deque<std::shared_ptr<sequence_step>> turns_;  // steps that have theirs, where their states are in a folder
    std::deque<std::vector<waiting_call>> moved_;  // batches for this model's threads; their calls are running ones
    bool is_closing_ = false;
    bool is_retired_ = false;
    bool joins_ = false;
    std::string broken_;           // why the device failed
    clock::duration typical_{};    // time of a batch; 0: not known
    double typical_elements_ = 1;  // of such a batch
    model_statistics statistics_;
    std::vector<std::thread> threads_;  // from the first batch on that no lent thread takes
    clock::time_point made_at_;
    std::atomic<clock::rep> given_back_{-1};  // asked_ when the network's memory was given back
};

}  // namespace sluice::serve
