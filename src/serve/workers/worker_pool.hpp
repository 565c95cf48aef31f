// SPDX-License-Identifier: Apache-2.0
// worker_pool: the worker processes, which models are on them, and who watches them.
//
// A slot is the place of one worker. A thread of the pool starts processes, reads their channels, looks for those that
// have ended or are late, and replaces them. Other threads lend hatches of them (hatch_lease) and ask for loads.
//
// Invariant: a batch is on at most one hatch at a time. It runs again only after the worker that had it is gone, so
// none is answered twice.
//
// Thread safety: all members may be called on any thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "serve/workers/control_message.hpp"
#include "serve/workers/pooled_worker.hpp"
#include "sluice/io/file_descriptor.hpp"
#include "sluice/serve/worker_engine.hpp"

namespace sluice::serve {

class hatch_lease;

class worker_pool : public std::enable_shared_from_this<worker_pool> {
public:
    // As worker_engine's constructor.
    explicit worker_pool(worker_engine_options options);
    worker_pool(const worker_pool&) = delete;  // threads know its address
    worker_pool& operator=(const worker_pool&) = delete;
    ~worker_pool();
    void stop() noexcept;  // ends the workers

    std::shared_ptr<hosted_model> load(const model_version& which, const model_config& how);
    void unload(const hosted_model& model) noexcept;
    void trim();

    // A hatch of the worker with the fewest batches that has the model. Blocks until one is free, and looks at the
    // thread's run_guard meanwhile. Throws error (errc::device_failed) when no worker will have the model, and refusal
    // (unavailable, for now) when none has had it for the time of a batch.
    hatch_lease take(const hosted_model& model);
    void count_run_again() noexcept { run_again_.fetch_add(1, std::memory_order_relaxed); }

    std::string why_lost(const hosted_model& model) const;
    // Of workers that are given up: "worker 1 (cpu:0)".
    std::vector<std::string> given_up_names(const hosted_model& model) const;
    worker_counts counts() const;
    std::vector<int> process_ids() const;
    const worker_engine_options& options() const noexcept { return options_; }

private:
    friend class hatch_lease;
    struct slot {
        std::shared_ptr<pooled_worker> worker;  // empty: none was started yet, or it is given up
        bool is_given_up = false;
        std::deque<worker_clock::time_point> ends;  // of the last minute
        worker_clock::time_point not_before{};      // it is started again
        std::string last_end;
    };
    using lock_type = std::unique_lock<std::mutex>;

    // Of loads and hatches (worker_pool.cpp).
    void load_on(pooled_worker& worker, const hosted_model& model, bool tries);
    void load_first(lock_type& lock, hosted_model& model);
    void load_on_others(lock_type& lock, hosted_model& model);
    std::shared_ptr<pooled_worker> worker_for_trial(lock_type& lock);
    bool has_answer(pooled_worker& worker, const pooled_hatch& left) noexcept;
    std::optional<std::size_t> free_hatch(pooled_worker& worker);
    bool is_on_a_worker(const hosted_model& model) const;
    [[noreturn]] void refuse_without_worker(const hosted_model& model) const;
    std::optional<hatch_lease> lend(const hosted_model& model);
    static void note_answer(pooled_worker& worker, std::int64_t since_ns) noexcept;
    void give_back(pooled_worker& worker, std::size_t hatch, bool is_left) noexcept;
    void send(pooled_worker& worker, std::string message, bool is_answered);
    void flush(pooled_worker& worker);
    void end(pooled_worker& worker, std::string why) noexcept;
    void look_at_models();

    // Of the thread that watches (worker_watch.cpp).
    void watch();
    void start_missing();
    void put_off_start(std::size_t index, std::string why);
    void start(std::size_t index);
    void wait_for_events();
    void read_channels();
    void obey(pooled_worker& worker, const std::string& message);
    void end_late_ones();
    bool is_late_with_batch(pooled_worker& worker, worker_clock::time_point now);
    void note_failed_load(pooled_worker& worker, std::uint64_t number, std::string failure);
    void replace(std::size_t index);
    void note_end(std::size_t index, std::string how, bool counts);
    void reap();
    void wake() const noexcept;
    void say(log_level level, std::string event, std::string message, std::string model = {});
    void write_lines();

    static std::string seconds_text(std::chrono::milliseconds time);

    const worker_engine_options options_;
    io::file_descriptor wake_;
    mutable std::mutex mutex_;  // of what follows
    std::condition_variable changed_;
    std::vector<slot> slots_;
    std::map<std::uint64_t, std::shared_ptr<hosted_model>> models_;  // that each worker gets
    std::vector<std::shared_ptr<pooled_worker>> ending_;             // killed long ago, and still there
    std::shared_ptr<hosted_model> tried_;                            // that is loaded for the first time
    std::vector<std::string> refused_;                               // starts before is_begun_: packed_failure
    std::uint64_t last_number_ = 0;
    std::uint64_t restarts_ = 0;
    bool is_begun_ = false;  // the constructor has returned
    bool is_stopping_ = false;
    std::deque<log_line> lines_;  // to say without the lock
    std::mutex trying_;           // one model at a time is loaded for the first time
    std::atomic<std::uint64_t> run_again_{0};
    std::thread watcher_;
};

}  // namespace sluice::serve
