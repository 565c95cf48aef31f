// SPDX-License-Identifier: Apache-2.0
#include "sluice/serve/served_model.hpp"

#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <new>
#include <optional>
#include <utility>

#include "runtime/short_wait.hpp"
#include "serve/batch.hpp"
#include "serve/call_queue.hpp"
#include "serve/lost_reason.hpp"
#include "serve/process_ended.hpp"
#include "serve/sequence_step.hpp"
#include "serve/sequence_table.hpp"
#include "serve/size_classes.hpp"
#include "serve/state_values.hpp"
#include "serve/trial.hpp"
#include "sluice/base/error.hpp"
#include "sluice/base/printable.hpp"
#include "sluice/base/run_guard.hpp"
#include "sluice/serve/compute_nice.hpp"

namespace sluice::serve {
namespace {

constexpr std::size_t default_batch = 64;
constexpr std::size_t most_sizes = 128;  // that statistics distinguish
// Of a batch on a lent thread, once it has taken longer than run_guard::look_time. Other connections wait meanwhile.
constexpr std::chrono::nanoseconds longest_lent = std::chrono::milliseconds(40);

std::chrono::nanoseconds since(infer_call::clock::time_point begin, infer_call::clock::time_point end) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(end - begin);
}

void count_latency(model_statistics& to, std::chrono::nanoseconds time) {
    ++to.latency[model_statistics::bucket_of(time)];
}

// What this thread has computed. A thread that had to wait for a processor has not computed.
std::chrono::nanoseconds computed_here() noexcept {
    timespec now{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

struct takes_long {};

sequence_table::limits limits_of(const model_config& config) {
    return {.most = config.max_sequences,
            .most_waiting = config.queue,
            .idle = std::chrono::milliseconds(config.sequence_idle_ms)};
}

std::uint64_t new_batch() noexcept {
    static std::atomic<std::uint64_t> last{0};
    return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

// `joined` is zero where that has failed.
void note_progress(std::span<const waiting_call> batch, infer_call::clock::time_point begin,
                   infer_call::clock::time_point joined, infer_call::clock::time_point end) {
    std::size_t rows = 0;
    for (const waiting_call& each : batch) rows += each.rows;
    const std::uint64_t number = new_batch();
    for (const waiting_call& each : batch) {
        each.call->so_far = {.queued = each.since,
                             .begun = begin,
                             .joined = joined,
                             .computed = end,
                             .rows = each.rows,
                             .batch = number,
                             .batch_rows = rows};
    }
}

std::string why_not_proven(const nn::row_independence& rows) {
    if (rows.is_proven) return "the rows are not along the first dimensions; they are " + rows.text();
    return "it is not proven that rows are independent: " + rows.text();
}

// Of a call that is not computed.
refusal why_left_out(const waiting_call& call) noexcept try {
    const auto now = infer_call::clock::now();
    if (!call.is_late(now)) return {refusal_kind::cancelled, "the client has gone; the request was not computed"};
    return {refusal_kind::late, "the request has waited " + std::to_string(since(call.since, now).count() / 1000) +
                                    " us, longer than it may; it was not computed"};
} catch (const std::exception& failure) {
    return refusal_of(failure);
}

}  // namespace

// What a thread has taken from the queue to end it.
struct served_model::taken_calls {
    std::vector<waiting_call> batch;
    std::vector<waiting_call> left_out;
    std::optional<waiting_call> without_memory;  // refused, because there was none for its batch

    std::size_t size() const noexcept { return batch.size() + left_out.size() + (without_memory ? 1 : 0); }
};

// Looks at a run between its steps.
class served_model::run_watch {
public:
    run_watch(std::span<const waiting_call> batch, bool on_caller_thread) noexcept
        : batch_(batch), on_caller_thread_(on_caller_thread) {}

    void look() {
        if (std::ranges::none_of(batch_, [](const waiting_call& each) { return each.call->is_wanted(); }))
            throw refusal(refusal_kind::cancelled, "the client has gone; the request was computed in part");
        if (!on_caller_thread_) return;
        if (!first_) first_ = computed_here();
        if (computed_here() - *first_ >= longest_lent) throw takes_long{};
    }

private:
    const std::span<const waiting_call> batch_;
    const bool on_caller_thread_;
    std::optional<std::chrono::nanoseconds> first_;
};

std::shared_ptr<served_model> served_model::make(std::string name, std::size_t version,
                                                 std::shared_ptr<const loaded_model> network,
                                                 const model_config& config, const std::filesystem::path& states) {
    return std::shared_ptr<served_model>(
        new served_model(std::move(name), version, std::move(network), config, states));
}

served_model::served_model(std::string name, std::size_t version, std::shared_ptr<const loaded_model> network,
                           const model_config& config, const std::filesystem::path& states)
    : name_(std::move(name)),
      version_(version),
      network_(std::move(network)),
      device_(network_->device_name()),
      config_(config),
      state_(find_state_values(*network_, config)),
      queue_(std::make_unique<call_queue>("model " + in_quotes(name_), config)) {
    if (!state_.all.empty()) {
        const sequence_table::limits limits = limits_of(config);
        std::unique_ptr<state_folder> folder;
        if (!states.empty()) folder = std::make_unique<state_folder>(states);
        sequences_ = std::make_shared<sequence_table>(limits, std::move(folder));
    }
    const nn::row_independence& rows = network_->rows();
    const bool is_proven = rows.is_along_first_axes(), asks = config_.max_batch.value_or(1) > 1;
    if (asks && !is_proven) require_joinable();
    const std::size_t most = network_->most_joined_rows();
    max_batch_ = std::min(config_.max_batch.value_or(is_proven ? default_batch : 1), most);
    joins_ = max_batch_ > 1;
    const std::string proof = is_proven ? "the graph shows that rows are independent" : why_not_proven(rows);
    const auto& preferred = config_.preferred_batch_size;
    if (!preferred.empty() && preferred.back() > max_batch_) {
        throw error(errc::invalid_argument, "the configuration prefers batches of " + std::to_string(preferred.back()) +
                                                ", but a batch has at most " + std::to_string(max_batch_) + ": " +
                                                proof);
    }
    joins_because_ = config_.max_batch == 1 ? "the configuration says so"
                     : asks                 ? "the configuration says so; " + proof
                                            : proof;
    const trial found = try_model(*network_);
    sizes_ = std::make_unique<size_classes>(joins_ && network_->prefers_few_sizes() ? time_sizes(*network_, max_batch_)
                                                                                    : std::vector<timed_size>{});
    if (max_batch_ == most) joins_because_ += "; more would be rounded in another way than alone";
    typical_ = found.one_row;
    typical_elements_ = static_cast<double>(std::max<std::size_t>(found.elements, 1));
    made_at_ = clock::now();
}

// Throws error unless requests can be joined along the first dimensions, if the rows are independent.
void served_model::require_joinable() const {
    const nn::row_independence& rows = network_->rows();
    std::string why;
    if (rows.is_proven) {
        why = "the rows are not along the first dimensions; they are " + rows.text();
    } else if (!has_first_dimensions(*network_)) {
        why = "the inputs and outputs have no first dimension of one name and any length";
    } else {
        return;
    }
    throw error(errc::invalid_argument, "the configuration asks for batches of " + std::to_string(*config_.max_batch) +
                                            ", but requests cannot be joined: " + why);
}

served_model::~served_model() { close(); }

// Called with the lock. A model that only lent threads compute has none: thousands of models are served by few threads.
// Throws refusal (no_memory) where there is not even one.
void served_model::require_threads() {
    if (!threads_.empty()) return;
    const std::size_t instances = std::max(config_.instances, config_.devices.size());
    try {
        threads_.reserve(instances);
        for (std::size_t i = 0; i < instances; ++i) threads_.emplace_back([this] { work(); });
    } catch (const std::exception&) {
        if (threads_.empty())
            throw refusal(refusal_kind::no_memory, "the system has no thread for the model " + in_quotes(name_));
    }
}

// Called with the lock.
bool served_model::has_threads() noexcept {
    try {
        require_threads();
        return true;
    } catch (const std::exception&) {
        return false;
    }
}

void served_model::give_back_if_idle(std::chrono::milliseconds idle) noexcept {
    const clock::rep asked = asked_.load(std::memory_order_relaxed);
    if (clock::now() - last_asked() < idle || given_back_.exchange(asked, std::memory_order_relaxed) == asked) return;
    network_->give_back_memory();
}

std::string served_model::joins_because() const {
    const std::lock_guard lock(mutex_);
    return joins_because_;
}

bool served_model::is_ready() const {
    const std::lock_guard lock(mutex_);
    return broken_.empty() && !is_closing_ && !is_retired_ && !network_->is_lost();
}

bool served_model::is_lost() const {
    const std::lock_guard lock(mutex_);
    return !broken_.empty() || network_->is_lost();
}

// Called with the lock.
bool served_model::is_short(std::size_t elements) const {
    if (may_take_long_ || config_.caller_thread_us == 0 || config_.max_delay_us != 0 ||
        typical_ == clock::duration::zero())
        return false;
    const double factor = std::max(1.0, static_cast<double>(elements) / typical_elements_);
    const auto limit = std::chrono::microseconds(config_.caller_thread_us);
    return std::chrono::duration<double>(typical_).count() * factor <= std::chrono::duration<double>(limit).count();
}

// Called with the lock, when the queue has changed. A model that takes no calls for another reason says so itself.
void served_model::note_room() noexcept {
    const bool is_full = queue_->is_full() && !is_closing_ && broken_.empty();
    full_with_.store(is_full ? queue_->size() : 0, std::memory_order_relaxed);
}

void served_model::require_room(infer_call& call) {
    const std::size_t waiting = full_with_.load(std::memory_order_relaxed);
    if (waiting == 0) return;
    call.so_far = {.queued = clock::now()};
    refuse_full(waiting);
}

void served_model::note_asked(clock::time_point now) noexcept {
    asked_.store(now.time_since_epoch().count(), std::memory_order_relaxed);
}

// Takes no lock, so that the thread that refuses does not wait for one that computes.
void served_model::refuse_full(std::size_t waiting) {
    refused_unlocked_.fetch_add(1, std::memory_order_relaxed);
    note_asked(clock::now());
    throw queue_->why_full(waiting);
}

bool served_model::submit(std::shared_ptr<infer_call> call, lent_thread* lent) {
    if (call->sequence) return submit_step(std::move(call), lent);
    require_inputs(network_->inputs(), call->inputs);
    const auto now = clock::now();
    note_asked(now);
    return push(std::move(call), now, lent, false);
}

void served_model::continue_from(served_model& before) {
    if (!sequences_ || !before.sequences_ || !sequences_->has_place_of(*before.sequences_)) return;
    before.sequences_->set_limits(limits_of(config_));
    // It may have a thread to wait for, which this must not.
    before.unused_sequences_ = std::exchange(sequences_, before.sequences_);
}

bool served_model::submit_step(std::shared_ptr<infer_call> call, lent_thread* lent) {
    if (!sequences_) {
        throw refusal(refusal_kind::bad_request,
                      "the model " + in_quotes(name_) + " has no sequences: " + state_.words);
    }
    require_inputs(network_->inputs(), call->inputs, state_.input_states);
    const auto self = shared_from_this();  // the step may end before this does
    const auto now = clock::now();
    note_asked(now);
    call->so_far = {.queued = now};
    auto step = std::make_shared<sequence_step>(std::move(call), *this, sequences_, now);
    {
        const std::lock_guard lock(mutex_);
        if (is_closing_ || is_retired_) return false;
        ++steps_;
    }
    bool has_turn = false;
    try {
        has_turn = sequences_->enter(step);
    } catch (const std::exception& failure) {
        const auto* const its = dynamic_cast<const refusal*>(&failure);
        if (its && its->kind() == refusal_kind::queue_full) refused_unlocked_.fetch_add(1, std::memory_order_relaxed);
        end_step();
        throw;
    }
    if (!has_turn) return true;
    if (sequences_->is_in_folder())
        queue_turn(std::move(step));
    else
        begin_turn(std::move(step), lent);
    return true;
}

// Files are read and written on this model's threads: a disk that does not answer holds up no other model.
void served_model::queue_turn(std::shared_ptr<sequence_step> step) noexcept {
    try {
        const std::lock_guard lock(mutex_);
        require_threads();
        turns_.push_back(step);
        has_work_.notify_one();
    } catch (const std::exception&) {
        begin_turn(std::move(step), nullptr);
    }
}

// The step's inputs are those of an ordinary request now. Where one is refused, the next of its sequence has its turn.
// NOLINTNEXTLINE(bugprone-exception-escape): shared_from_this does not throw, the models are in shared_ptrs
void served_model::begin_turn(std::shared_ptr<sequence_step> step, lent_thread* lent) noexcept {
    std::shared_ptr<served_model> other;  // of another version: it may end with its last step, before this does
    while (step) {
        served_model& its = step->model();
        std::shared_ptr<sequence_step> next;
        try {
            step->take_state();
            require_inputs(its.network_->inputs(), step->inputs);
            its.push(step, step->since(), lent, true);
            return;
        } catch (const std::exception& failure) {
            next = step->fail(refusal_of(failure));
        }
        const auto after = next && &next->model() != &its ? next->model().shared_from_this() : other;
        step.reset();
        its.end_step();
        other = after;
        step = std::move(next);
    }
}

void served_model::end_step() noexcept {
    const std::lock_guard lock(mutex_);
    --steps_;
    if (!is_at_end()) return;
    is_idle_.notify_all();
    if (is_closing_) has_work_.notify_all();
}

// `is_accepted`: also where close() was called.
bool served_model::push(std::shared_ptr<infer_call> call, clock::time_point now, lent_thread* lent, bool is_accepted) {
    waiting_call one{.call = std::move(call), .since = now};
    for (const tensor_view& each : one.call->inputs) one.elements += each.bytes.size() / io::size_of(each.type);
    if (max_batch_ > 1) one.rows = one.call->inputs.front().shape[0];
    one.call->so_far = {.queued = now, .rows = one.rows};

    if (const std::size_t waiting = full_with_.load(std::memory_order_relaxed); waiting != 0) {
        queue_->require_level(one.call->priority);
        refuse_full(waiting);
    }
    std::unique_lock lock = detail::lock_soon(mutex_, detail::short_wait(5));
    if ((is_closing_ || is_retired_) && !is_accepted) return false;
    if (broken_.empty() && network_->is_lost()) broken_ = lost_reason(*network_);
    if (!broken_.empty()) throw refusal(refusal_kind::unavailable, "model " + in_quotes(name_) + ": " + broken_);
    const bool may_lend = lent != nullptr && !(sequences_ && sequences_->is_in_folder());
    if (may_lend && !is_lent_ && running_ == 0 && is_short(one.elements)) lend_to(*lent);
    if (!is_lent_) require_threads();
    try {
        queue_->push(std::move(one));
    } catch (const refusal& why) {
        if (why.kind() == refusal_kind::queue_full) ++statistics_.refused_full;
        throw;
    }
    note_room();
    if (!is_lent_ && idle_threads_ != 0) {
        lock.unlock();
        has_work_.notify_one();
    }
    return true;
}

// Called with the lock; the thread runs later. When it cannot take the batch (no memory), one of ours does.
void served_model::lend_to(lent_thread& thread) {
    try {
        thread.run_soon(shared_from_this());
        is_lent_ = true;
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): it is not lent
    }
}

// Called with the lock.
batch_rule served_model::rule() const { return {joins_, max_batch_, config_.preferred_batch_size}; }

// Called with the lock.
void served_model::count_left_out(const waiting_call& call, clock::time_point now) {
    ++(call.is_late(now) ? statistics_.refused_late : statistics_.cancelled);
}

// Called with the lock. What is a batch now.
void served_model::take(taken_calls& to) {
    const auto now = clock::now();
    const next_batch next = queue_->look(rule(), now, to.left_out);
    to.batch = queue_->take(next.calls);
    for (const waiting_call& each : to.left_out) count_left_out(each, now);
    running_ += to.size();
    note_room();
}

// Called with the lock, when taking a batch has failed. The queue becomes shorter, so it comes to an end.
void served_model::take_without_memory(taken_calls& to) noexcept {
    const auto now = clock::now();
    for (const waiting_call& each : to.left_out) count_left_out(each, now);
    to.without_memory = queue_->take_first();
    running_ += to.size();
    note_room();
}

// Called with the lock. Waits for more calls as long as the configuration says. Calls that are left out end the wait,
// so that they hear of it in time; then there may be no batch.
void served_model::take_in_time(std::unique_lock<std::mutex>& lock, taken_calls& to) {
    const auto delay = std::chrono::microseconds(config_.max_delay_us);
    while (delay.count() != 0 && !is_closing_) {
        const auto now = clock::now();
        const next_batch next = queue_->look(rule(), now, to.left_out);
        if (next.calls == 0 && to.left_out.empty()) return;  // another thread has taken them
        if (next.is_ready || now >= next.oldest + delay) break;
        if (!to.left_out.empty()) {
            for (const waiting_call& each : to.left_out) count_left_out(each, now);
            running_ += to.left_out.size();
            note_room();
            return;
        }
        if (!turns_.empty()) return;  // they may be of this batch, which is not due
        ++idle_threads_;
        // `changes_after` may be the end of time, to which nothing can be added.
        constexpr std::chrono::microseconds just_after(1);
        has_work_.wait_until(lock, std::min(next.oldest + delay - just_after, next.changes_after) + just_after);
        --idle_threads_;
    }
    take(to);
}

void served_model::run_waiting() {
    std::unique_lock lock(mutex_);
    is_lent_ = false;
    bool is_alone = true;  // without threads of this model, all that waits is computed here
    while (is_alone) {
        taken_calls taken;
        try {
            take(taken);
        } catch (const std::exception&) {
            take_without_memory(taken);
        }
        is_alone = !queue_->empty() && !has_threads();
        const bool is_more = !queue_->empty() && idle_threads_ != 0;
        lock.unlock();
        if (is_more) has_work_.notify_one();  // what did not fit does not wait for this thread
        run_batch(std::move(taken), true);
        if (is_alone) lock.lock();
    }
}

void served_model::work() {
    become_less_urgent();
    std::unique_lock lock(mutex_);
    serve_queue(lock);
}

// Until the model is closed.
void served_model::serve_queue(std::unique_lock<std::mutex>& lock) {
    bool has_turned = false;  // turns and batches alternate, so that neither holds up the other
    const auto has_batch = [&] { return !moved_.empty() || (!queue_->empty() && (is_closing_ || !is_lent_)); };
    while (true) {
        ++idle_threads_;
        has_work_.wait(lock, [&] { return !turns_.empty() || has_batch() || (is_closing_ && is_at_end()); });
        --idle_threads_;
        has_turned = !turns_.empty() && !(has_turned && has_batch());
        if (has_turned) {
            std::shared_ptr<sequence_step> step = std::move(turns_.front());
            turns_.pop_front();
            lock.unlock();
            begin_turn(std::move(step), nullptr);
            lock.lock();
            continue;
        }
        if (moved_.empty() && queue_->empty()) return;
        taken_calls taken;
        if (!moved_.empty()) {
            taken.batch = std::move(moved_.front());
            moved_.pop_front();
        } else {
            try {
                take_in_time(lock, taken);
            } catch (const std::exception&) {
                take_without_memory(taken);
            }
        }
        lock.unlock();
        run_batch(std::move(taken), false);
        lock.lock();
    }
}

void served_model::run_batch(taken_calls taken, bool on_caller_thread) noexcept {
    const std::size_t calls = taken.size();
    for (waiting_call& each : taken.left_out) each.call->refuse(why_left_out(each));
    if (taken.without_memory) {
        const std::bad_alloc failure;
        note_failure(failure);
        taken.without_memory->call->refuse(refusal_of(failure));
    }
    if (!taken.batch.empty()) compute(taken.batch, on_caller_thread);
    taken = {};  // calls end before close() returns
    const std::lock_guard lock(mutex_);
    running_ -= calls;
    if (!is_at_end()) return;
    is_idle_.notify_all();
    if (is_closing_) has_work_.notify_all();  // the last batch may have come from a lent thread
}

// Called with the lock.
bool served_model::is_at_end() const noexcept { return running_ == 0 && steps_ == 0 && queue_->empty(); }

// From a lent thread. The batch is computed again from its beginning.
void served_model::move_to_own_thread(std::span<waiting_call> batch) noexcept {
    try {
        std::vector<waiting_call> all;
        all.reserve(batch.size());
        const std::lock_guard lock(mutex_);
        may_take_long_ = true;
        require_threads();
        moved_.emplace_back();  // before the calls move, since it may lack memory
        for (waiting_call& each : batch) all.push_back(std::move(each));
        moved_.back().swap(all);
        running_ += batch.size();
        has_work_.notify_one();
    } catch (const std::exception& failure) {
        note_failure(failure);
        for (waiting_call& each : batch) each.call->refuse(refusal_of(failure));
    }
}

void served_model::compute_each(std::span<waiting_call> batch, bool on_caller_thread) noexcept {
    std::optional<refusal> unavailable;
    for (waiting_call& each : batch) {
        const auto now = clock::now();
        if (each.is_left_out(now)) {  // the batch has taken its time
            {
                const std::lock_guard lock(mutex_);
                count_left_out(each, now);
            }
            each.call->refuse(why_left_out(each));
            continue;
        }
        if (unavailable) {
            note_progress({&each, 1}, now, {}, now);
            note_failure(*unavailable);
            each.call->refuse(*unavailable);
        } else {
            unavailable = compute({&each, 1}, on_caller_thread);
        }
        each.call.reset();  // it ends with its answer
    }
}

std::vector<std::size_t> served_model::padded_sizes() const { return sizes_->padded(); }

std::size_t served_model::rows_to_compute(std::span<const waiting_call> batch) const {
    const std::size_t rows = rows_of(batch), padded = sizes_->rows_for(rows);
    if (padded == rows || !can_pad(batch)) return rows;
    const std::lock_guard lock(mutex_);
    return joins_ ? padded : rows;
}

std::vector<nn::any_tensor> served_model::run_watched(std::vector<nn::any_tensor> inputs,
                                                      std::span<const waiting_call> batch,
                                                      bool on_caller_thread) const {
    run_watch watch(batch, on_caller_thread);
    const run_guard guard([&watch] { watch.look(); });
    const bool is_again = batch.front().has_ended_process;
    if (batch.size() > 1 || is_again) {
        if (const auto* const its = dynamic_cast<const runs_in_processes*>(network_.get()))
            return its->run_once(inputs, is_again);
    }
    return network_->run(std::move(inputs));
}

// This is where a batch is run. Gives why it is refused where nothing computes: others would wait as long again.
std::optional<refusal> served_model::compute(std::span<waiting_call> batch, bool on_caller_thread) noexcept {
    const auto begin = clock::now();
    clock::time_point joined{}, computed;
    try {
        const std::size_t rows = rows_to_compute(batch);
        std::vector<nn::any_tensor> inputs = join(batch, rows);
        joined = clock::now();
        const std::vector<nn::any_tensor> outputs = run_watched(std::move(inputs), batch, on_caller_thread);
        computed = clock::now();
        note_progress(batch, begin, joined, computed);
        if (!answer_each(batch, network_->outputs(), outputs, rows)) {
            {
                const std::lock_guard lock(mutex_);
                joins_ = false;
                joins_because_ = "an output did not have the rows of its batch";
            }
            compute_each(batch, on_caller_thread);
            return {};
        }
    } catch (const takes_long&) {
        move_to_own_thread(batch);
        return {};
    } catch (const std::exception& failure) {
        refusal why = refusal_of(failure);
        const bool is_unavailable = why.kind() == refusal_kind::unavailable;
        // One request's numbers must not fail those of others.
        if (batch.size() > 1 && !is_unavailable) {
            const bool has_ended = dynamic_cast<const process_ended*>(&failure) != nullptr;
            for (waiting_call& each : batch) each.has_ended_process = has_ended;
            compute_each(batch, on_caller_thread);
            return {};
        }
        note_progress(batch, begin, joined, clock::now());
        for (waiting_call& each : batch) {
            note_failure(failure);  // first: who is refused may ask at once, and the device may have failed
            each.call->refuse(why);
        }
        return is_unavailable ? std::optional(std::move(why)) : std::nullopt;
    }
    const auto end = clock::now();
    std::size_t elements = 0;
    for (const waiting_call& each : batch) elements += each.elements;
    const std::lock_guard lock(mutex_);
    // A mean that forgets: one batch that was interrupted changes little.
    const double scale = typical_elements_ / std::max(typical_elements_, static_cast<double>(elements));
    const auto as_typical = std::chrono::duration_cast<clock::duration>((computed - joined) * scale);
    typical_ = typical_ == clock::duration::zero() ? as_typical : (typical_ * 15 + as_typical) / 16;
    try {
        statistics_.on_caller_thread += on_caller_thread ? 1 : 0;
        count_batch(batch, rows_of(batch), begin, joined, computed, end);
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): no memory for the counters of a new size
    }
    return {};
}

// Called with the lock. Of a batch that is computed. A call whose answer became a refusal has failed.
void served_model::count_batch(std::span<const waiting_call> batch, std::size_t rows, clock::time_point begin,
                               clock::time_point joined, clock::time_point computed, clock::time_point end) {
    const auto calls = static_cast<std::uint64_t>(std::ranges::count(batch, true, &waiting_call::is_answered));
    statistics_.input.add(since(begin, joined), calls);
    statistics_.infer.add(since(joined, computed), calls);
    statistics_.output.add(since(computed, end), calls);
    statistics_.fail.add({}, batch.size() - calls);
    for (const waiting_call& each : batch) {
        if (!each.is_answered) continue;
        statistics_.queue.add(since(each.since, begin));
        statistics_.success.add(since(each.since, end));
        count_latency(statistics_, since(each.since, end));
    }
    statistics_.rows += rows;
    ++statistics_.batches;
    statistics_.last = std::chrono::system_clock::now();
    if (statistics_.by_rows.size() < most_sizes || statistics_.by_rows.contains(rows)) {
        batch_statistics& its = statistics_.by_rows[rows];
        its.input.add(since(begin, joined));
        its.infer.add(since(joined, computed));
        its.output.add(since(computed, end));
    }
}

void served_model::note_failure(const std::exception& failure) noexcept {
    const std::lock_guard lock(mutex_);
    if (const auto* its = dynamic_cast<const refusal*>(&failure); its && its->kind() == refusal_kind::cancelled) {
        ++statistics_.cancelled;
        return;
    }
    statistics_.fail.add({});
    const auto* const known = dynamic_cast<const error*>(&failure);
    if (known == nullptr || (known->code() != errc::device_failed && known->code() != errc::runtime_closed)) return;
    try {
        broken_ = printable(failure.what());
    } catch (const std::exception&) {
        broken_ = "device failed";  // short enough to lie in the string itself
    }
}

infer_call::clock::time_point served_model::last_asked() const noexcept {
    return std::max(clock::time_point(clock::duration(asked_.load(std::memory_order_relaxed))), made_at_);
}

bool served_model::retire() {
    const std::lock_guard lock(mutex_);
    if (!is_at_end() || (sequences_ && !sequences_->is_in_folder() && sequences_->size() != 0)) return false;
    is_retired_ = true;
    return true;
}

void served_model::stay() {
    const std::lock_guard lock(mutex_);
    is_retired_ = false;
}

void served_model::close() {
    std::unique_lock lock(mutex_);
    is_closing_ = true;
    note_room();
    has_work_.notify_all();
    if (!queue_->empty() && !has_threads()) serve_queue(lock);  // the lent thread may never come
    is_idle_.wait(lock, [&] { return is_at_end(); });
    std::vector<std::thread> threads = std::exchange(threads_, {});
    lock.unlock();
    for (std::thread& each : threads) each.join();
}

model_statistics served_model::statistics() const {
    const std::lock_guard lock(mutex_);
    model_statistics now = statistics_;
    now.last_asked = clock::time_point(clock::duration(asked_.load(std::memory_order_relaxed)));
    now.refused_full += refused_unlocked_.load(std::memory_order_relaxed);
    now.waiting = queue_->size();
    now.delayed = queue_->delayed();
    now.running = running_;
    if (!sequences_) return now;
    now.sequences = sequences_->size();
    now.waiting += sequences_->waiting();
    now.ended_sequences = sequences_->ended();
    return now;
}

}  // namespace sluice::serve
