// SPDX-License-Identifier: Apache-2.0
// The thread of a worker_pool that starts workers, reads what they say, and replaces those that end or are late.
#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "serve/workers/failure_message.hpp"
#include "serve/workers/worker_pool.hpp"
#include "sluice/base/error.hpp"
#include "sluice/base/printable.hpp"
#include "sluice/serve/compute_nice.hpp"

namespace sluice::serve {
namespace {

constexpr std::chrono::milliseconds tick{50};
constexpr std::chrono::milliseconds look_for_end_time{1};
constexpr std::chrono::milliseconds time_to_end{200};  // of a process that was killed, before another one is started
constexpr std::chrono::seconds time_to_stop{5};        // of all of them, before they are left to the system
constexpr std::chrono::seconds time_of_ends{60};
// More than the longest batch may take. A process that lives may get no processor for seconds on a busy machine.
constexpr std::chrono::seconds time_without_life{5};
constexpr std::chrono::seconds longest_turn{1};  // of this thread, else it was held up
constexpr std::chrono::milliseconds longest_delay{1000};

// The first end of a minute has no delay.
std::chrono::milliseconds delay_of(const worker_engine_options& options, std::size_t ends) {
    if (ends < 2) return {};
    const std::size_t doubled = std::min<std::size_t>(ends - 2, 10);
    return std::min(options.restart_delay * (1 << doubled), longest_delay);
}

}  // namespace

std::string worker_pool::seconds_text(std::chrono::milliseconds time) {
    const auto whole = std::chrono::duration_cast<std::chrono::seconds>(time);
    return whole == time ? std::to_string(whole.count()) + " s" : std::to_string(time.count()) + " ms";
}

void worker_pool::watch() {
    auto last_turn = worker_clock::now();
    while (true) {
        start_missing();
        write_lines();
        wait_for_events();
        lock_type lock(mutex_);
        if (is_stopping_) break;
        read_channels();
        // Where this thread had no processor, or was stopped with all others, the workers had none either.
        const auto before = std::exchange(last_turn, worker_clock::now());
        if (last_turn - before > longest_turn)
            for (const slot& each : slots_)
                if (each.worker) each.worker->alive_at = last_turn;
        end_late_ones();
        reap();
        look_at_models();
        lock.unlock();
        changed_.notify_all();
    }
    lock_type lock(mutex_);
    for (slot& each : slots_) {
        if (!each.worker) continue;
        end(*each.worker, "the server ends");  // also one that was being started meanwhile
        ending_.push_back(std::exchange(each.worker, nullptr));
    }
    const auto last_look = worker_clock::now() + time_to_stop;
    for (reap(); !ending_.empty() && worker_clock::now() < last_look; reap()) {
        lock.unlock();
        std::this_thread::sleep_for(look_for_end_time);
        lock.lock();
    }
    ending_.clear();
}

void worker_pool::say(log_level level, std::string event, std::string message, std::string model) {
    lines_.push_back({level, std::move(event), std::move(message), std::move(model)});
}

// A sink may take its time.
void worker_pool::write_lines() {
    std::deque<log_line> lines;
    {
        const std::lock_guard lock(mutex_);
        lines.swap(lines_);
    }
    if (!options_.log) return;
    for (const log_line& each : lines) options_.log(each);
}

// Only this thread changes which worker a slot has.
void worker_pool::start_missing() {
    for (std::size_t i = 0; i < slots_.size(); ++i) {
        const slot& each = slots_[i];
        if (each.worker || each.is_given_up || each.not_before > worker_clock::now()) continue;
        try {
            start(i);
        } catch (const std::exception& failure) {
            const std::lock_guard lock(mutex_);
            if (is_begun_) {
                put_off_start(i, failure.what());
            } else {
                refused_.push_back(packed_failure(failure));
                note_end(i, failure.what(), true);
            }
        }
    }
}

// Called with the lock. What a process has not got, such as descriptors, is no fault of the worker.
void worker_pool::put_off_start(std::size_t index, std::string why) {
    slot& its = slots_[index];
    its.not_before = worker_clock::now() + longest_delay;
    if (its.last_end == why) return;
    its.last_end = std::move(why);
    say(log_level::error, "worker_not_started",
        "worker " + std::to_string(index) + " cannot be started now, and is tried again: " + printable(its.last_end));
}

void worker_pool::start(std::size_t index) {
    auto made = std::make_shared<pooled_worker>(index, options_.command, options_.hatches, options_.hatch_bytes,
                                                control_channel::make_pair());
    const std::string setup = packed_setup({.engine = options_.engine,
                                            .compute_nice = compute_nice(),
                                            .hatches = options_.hatches,
                                            .hatch_bytes = options_.hatch_bytes,
                                            .spin = options_.spin});
    made->channel.send(setup);  // it fits; where the process has ended already, its end is read
    const std::lock_guard lock(mutex_);
    slots_[index].worker = std::move(made);
}

void worker_pool::wait_for_events() {
    std::vector<pollfd> events{{wake_.get(), POLLIN, 0}};
    std::chrono::milliseconds time = tick;
    {
        const std::lock_guard lock(mutex_);
        for (const slot& each : slots_) {
            if (!each.worker) continue;
            if (each.worker->is_gone) {
                time = look_for_end_time;
                continue;
            }
            const int wanted = POLLIN | (each.worker->lacks_room ? POLLOUT : 0);
            events.push_back({each.worker->channel.descriptor(), static_cast<short>(wanted), 0});
        }
    }
    ::poll(events.data(), events.size(), static_cast<int>(time.count()));
    eventfd_t ignored = 0;
    ::eventfd_read(wake_.get(), &ignored);
}

// Called with the lock.
void worker_pool::read_channels() {
    for (std::size_t i = 0; i < slots_.size(); ++i) {
        const std::shared_ptr<pooled_worker> its = slots_[i].worker;
        if (!its) continue;
        try {
            while (const auto message = its->channel.receive(false)) obey(*its, *message);
            flush(*its);
        } catch (const std::exception& failure) {
            end(*its, failure.what());
        }
        if (its->channel.has_ended()) end(*its, {});
        if (its->is_gone) replace(i);
    }
}

// Called with the lock.
void worker_pool::obey(pooled_worker& worker, const std::string& message) {
    packed_reader from(message);
    const auto kind = from.one_of(to_front::fault);
    if (kind == to_front::fault) {
        worker.why = "its device has failed: " + printable(from.text(), 500);
        return;
    }
    worker.alive_at = worker_clock::now();
    if (kind == to_front::alive) return;
    if (worker.owed == 0) throw worker_damage("it has answered what was not asked");
    --worker.owed;
    worker.silent_since = worker_clock::now();
    switch (kind) {
        case to_front::ready:
            worker.is_ready = true;
            for (const auto& [number, model] : models_) load_on(worker, *model, false);
            say(log_level::info, "worker_started",
                "worker " + std::to_string(worker.slot) + " is process " + std::to_string(worker.process.id()));
            return;
        case to_front::refused: {
            const std::string failure = from.text();
            if (!is_begun_) refused_.push_back(failure);
            return end(worker, text_of_failure(failure));
        }
        case to_front::loaded: {
            const auto number = from.number<std::uint64_t>();
            files_as_read files = read_files(from);
            model_description description = read_description(from);
            if (tried_ && tried_->number == number && worker.tries_a_model) {
                tried_->what.files = std::move(files);
                tried_->description = std::move(description);
            }
            const auto found = worker.models.find(number);
            if (found != worker.models.end()) found->second.now = model_on_worker::state::loaded;
            return;
        }
        case to_front::load_failed: {
            const auto number = from.number<std::uint64_t>();
            return note_failed_load(worker, number, from.text());
        }
        case to_front::alive:
        case to_front::fault: break;
    }
}

// Called with the lock.
void worker_pool::note_failed_load(pooled_worker& worker, std::uint64_t number, std::string failure) {
    const auto found = worker.models.find(number);
    if (found == worker.models.end()) return;
    const std::string text = text_of_failure(failure);
    found->second = {model_on_worker::state::failed, std::move(failure)};
    const auto known = models_.find(number);
    if (known == models_.end()) return;
    const std::string& name = known->second->what.which.name;
    say(log_level::error, "worker_load_failed",
        "worker " + std::to_string(worker.slot) + " does not have the model " + in_quotes(name) + ": " +
            printable(text),
        name);
}

// Called with the lock.
void worker_pool::end_late_ones() {
    const auto now = worker_clock::now();
    for (const slot& each : slots_) {
        if (!each.worker || each.worker->is_gone) continue;
        pooled_worker& its = *each.worker;
        if (its.is_awaited() && now - its.silent_since > options_.load_timeout)
            end(its, "it has not answered for " + seconds_text(options_.load_timeout) + ", so it was killed");
        else if (is_late_with_batch(its, now))
            end(its, "a batch took longer than " + seconds_text(options_.timeout) + ", so it was killed");
        else if (its.is_ready && !its.is_awaited() && now - its.alive_at > options_.timeout + time_without_life)
            end(its, "it has shown no life for " + seconds_text(options_.timeout + time_without_life) +
                         ", so it was killed");
    }
}

// Called with the lock. A batch may wait for those before it: time counts only for the first, once it is that. What
// overtakes it on the device, note_answer() takes off.
bool worker_pool::is_late_with_batch(pooled_worker& worker, worker_clock::time_point now) {
    std::int64_t first = 0;
    for (const auto& hatch : worker.hatches) {
        const std::int64_t since = hatch->since_ns.load(std::memory_order_relaxed);
        if (since == 0 || (first != 0 && since >= first)) continue;
        if (hatch->is_left && has_answer(worker, *hatch)) continue;  // no thread has looked for its answer yet
        first = since;
    }
    if (std::exchange(worker.first_batch_ns, first) != first) {
        worker.first_batch_since = now;
        worker.overtaken = 0;
    }
    return first != 0 && now - worker.first_batch_since > options_.timeout;
}

// Called with the lock, until the process has ended, or has not in time.
void worker_pool::replace(std::size_t index) {
    const std::shared_ptr<pooled_worker> its = slots_[index].worker;
    const auto how = its->process.look_for_end();
    if (!how && worker_clock::now() < its->gone_since + time_to_end) return;
    if (!how) ending_.push_back(its);
    slots_[index].worker = nullptr;
    its->ended = its->why.empty() ? how.value_or("it does not end") : its->why;
    if (!is_begun_ && !its->is_ready && refused_.empty())
        refused_.push_back(packed_failure(error(errc::io_failed, "a worker process does not start: " + its->ended)));
    // What has never been loaded may do anything, and the caller of load hears of it.
    note_end(index,
             "worker " + std::to_string(index) + " (process " + std::to_string(its->process.id()) +
                 ") has ended: " + its->ended,
             !its->tries_a_model);
}

// Called with the lock.
void worker_pool::note_end(std::size_t index, std::string how, bool counts) {
    const auto now = worker_clock::now();
    slot& its = slots_[index];
    its.last_end = std::move(how);
    while (!its.ends.empty() && now - its.ends.front() > time_of_ends) its.ends.pop_front();
    if (counts) its.ends.push_back(now);
    its.is_given_up = its.ends.size() >= options_.most_ends;
    its.not_before = now + delay_of(options_, its.ends.size());
    if (its.is_given_up) {
        if (!is_begun_) refused_.push_back(packed_failure(error(errc::io_failed, its.last_end)));
        say(log_level::error, "worker_given_up",
            its.last_end + ". It has ended " + std::to_string(options_.most_ends) +
                " times within a minute, and is not started again");
        return;
    }
    ++restarts_;
    say(log_level::error, "worker_ended",
        its.last_end + ". It is started again; what it was computing runs on another one");
}

// Called with the lock.
void worker_pool::reap() {
    std::erase_if(ending_, [](const auto& each) { return each->process.look_for_end().has_value(); });
}

// Called with the lock.
void worker_pool::look_at_models() {
    for (const auto& [number, model] : models_) {
        const bool is_lost = std::ranges::all_of(slots_, [its = number](const slot& each) {
            if (each.is_given_up) return true;
            if (!each.worker) return false;
            const auto found = each.worker->models.find(its);
            return found != each.worker->models.end() && found->second.now == model_on_worker::state::failed;
        });
        model->is_lost.store(is_lost, std::memory_order_relaxed);
    }
}

}  // namespace sluice::serve
