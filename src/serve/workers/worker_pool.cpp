// SPDX-License-Identifier: Apache-2.0
// Loads of models, and hatches that are lent. worker_watch.cpp has the rest.
#include "serve/workers/worker_pool.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <system_error>
#include <utility>

#include "serve/workers/failure_message.hpp"
#include "serve/workers/hatch_lease.hpp"
#include "serve/workers/hatch_stream.hpp"
#include "sluice/base/error.hpp"
#include "sluice/base/file_error.hpp"
#include "sluice/base/printable.hpp"
#include "sluice/base/run_guard.hpp"
#include "sluice/serve/refusal.hpp"

namespace sluice::serve {
namespace {

constexpr std::size_t most_workers = 256;
constexpr std::size_t most_owed = 8;                         // loads that a worker has at a time
constexpr std::size_t longest_load = std::size_t{16} << 20;  // bytes of its message

void require_options(const worker_engine_options& options) {
    const auto refuse = [](const char* why) { throw error(errc::invalid_argument, why); };
    if (options.workers == 0 || options.workers > most_workers || options.spares > most_workers)
        refuse("a server has 1 to 256 worker processes, and as many spare ones");
    if (options.most_ends == 0) refuse("a worker process may end at least once before it is given up");
    if (options.command.empty()) refuse("a worker process needs a program");
    if (options.timeout <= options.timeout.zero() || options.load_timeout <= options.load_timeout.zero())
        refuse("the time of a worker process is more than 0");
    if (!options.engine.machine.gpus.empty() || options.engine.machine.trace != nullptr)
        refuse("worker processes take neither a list of GPUs nor a trace");
}

std::string numbered(to_worker kind, std::uint64_t number) {
    packed_writer to;
    to.put(kind);
    to.put(number);
    return to.take();
}

}  // namespace

worker_pool::worker_pool(worker_engine_options options) : options_(std::move(options)) {
    require_options(options_);
    wake_ = io::file_descriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!wake_) throw error(errc::io_failed, "eventfd: " + std::generic_category().message(errno));
    slots_.resize(options_.workers + options_.spares);
    watcher_ = std::thread([this] { watch(); });
    lock_type lock(mutex_);
    const auto is_ready = [](const slot& each) { return each.worker && each.worker->is_ready; };
    changed_.wait(lock, [&] { return !refused_.empty() || std::ranges::all_of(slots_, is_ready); });
    is_begun_ = refused_.empty();
    if (is_begun_) return;
    const std::string failure = refused_.front();
    lock.unlock();
    stop();
    throw_failure(failure);
}

worker_pool::~worker_pool() { stop(); }

void worker_pool::stop() noexcept {
    {
        const std::lock_guard lock(mutex_);
        is_stopping_ = true;
        for (slot& each : slots_)
            if (each.worker) end(*each.worker, "the server ends");
    }
    changed_.notify_all();
    wake();
    if (watcher_.joinable()) watcher_.join();
}

void worker_pool::wake() const noexcept { ::eventfd_write(wake_.get(), 1); }

// Called with the lock. Batches on the worker run elsewhere from now on.
void worker_pool::end(pooled_worker& worker, std::string why) noexcept {
    if (worker.why.empty()) worker.why = std::move(why);
    if (worker.is_gone) return;
    worker.gone_since = worker_clock::now();
    worker.process.kill();
    worker.is_gone.store(true, std::memory_order_release);
    for (const auto& each : worker.hatches) each->its.wake_own_side();
    wake();
}

// Called with the lock.
void worker_pool::send(pooled_worker& worker, std::string message, bool is_answered) {
    worker.outbox.emplace_back(std::move(message), is_answered);
    flush(worker);
}

// Called with the lock.
void worker_pool::flush(pooled_worker& worker) {
    while (!worker.outbox.empty() && !worker.is_gone) {
        const auto& [message, is_answered] = worker.outbox.front();
        if (is_answered && worker.owed >= most_owed) return;
        const auto sent = worker.channel.send(message);
        if (sent == control_channel::sent::broken) return end(worker, {});
        const bool has_read = worker.lacks_room && sent != control_channel::sent::nothing;
        if (has_read || !worker.is_awaited()) worker.silent_since = worker_clock::now();
        worker.lacks_room = sent != control_channel::sent::whole;
        if (worker.lacks_room) return;
        worker.owed += is_answered ? 1 : 0;
        worker.outbox.pop_front();
    }
}

// Called with the lock.
void worker_pool::load_on(pooled_worker& worker, const hosted_model& model, bool tries) {
    worker.models[model.number] = {};
    worker.tries_a_model = tries;
    packed_writer to;
    to.put(to_worker::load);
    to.put(model.number);
    put(to, model.what);
    if (to.bytes().size() <= longest_load) return send(worker, to.take(), true);
    const error failure(errc::unsupported, "model " + in_quotes(model.what.which.name) +
                                               ": its configuration and the names of its files take more than 16 MiB");
    worker.models[model.number] = {model_on_worker::state::failed, packed_failure(failure)};
}

// The last one: a spare, where there is one. Waits until it is there.
std::shared_ptr<pooled_worker> worker_pool::worker_for_trial(lock_type& lock) {
    while (true) {
        const auto last =
            std::find_if_not(slots_.rbegin(), slots_.rend(), [](const slot& each) { return each.is_given_up; });
        if (is_stopping_ || last == slots_.rend())
            throw error(errc::device_failed, "no worker process is left that could load the model");
        if (last->worker && last->worker->is_ready && !last->worker->is_gone) return last->worker;
        changed_.wait(lock);
    }
}

void worker_pool::load_first(lock_type& lock, hosted_model& model) {
    const std::shared_ptr<pooled_worker> worker = worker_for_trial(lock);
    load_on(*worker, model, true);
    const model_on_worker& its = worker->models[model.number];
    changed_.wait(lock,
                  [&] { return is_stopping_ || !worker->ended.empty() || its.now != model_on_worker::state::loading; });
    worker->tries_a_model = false;
    if (its.now == model_on_worker::state::loaded) return;
    const std::string failure = its.failure;
    const bool has_failed = its.now == model_on_worker::state::failed;
    worker->models.erase(model.number);
    if (has_failed) throw_failure(failure);
    throw file_error(model.what.which.file, file_error::no_offset, "",
                     "the worker process that loaded the model has ended: " +
                         (worker->ended.empty() ? "the server ends" : worker->ended),
                     errc::io_failed);
}

// A worker that ends meanwhile has a successor, which loads the model as all others.
void worker_pool::load_on_others(lock_type& lock, hosted_model& model) {
    using state = model_on_worker::state;
    std::vector<std::shared_ptr<pooled_worker>> loading;
    for (const slot& each : slots_) {
        if (!each.worker || !each.worker->is_ready || each.worker->is_gone) continue;
        if (each.worker->models.contains(model.number)) continue;
        load_on(*each.worker, model, false);
        loading.push_back(each.worker);
    }
    const auto is_done = [&](const auto& each) {
        return !each->ended.empty() || each->models[model.number].now != state::loading;
    };
    changed_.wait(lock, [&] { return is_stopping_ || std::ranges::all_of(loading, is_done); });
    for (const auto& each : loading) {
        const model_on_worker its = each->models[model.number];
        if (its.now != state::failed) continue;
        lock.unlock();
        unload(model);
        throw_failure(its.failure);
    }
}

std::shared_ptr<hosted_model> worker_pool::load(const model_version& which, const model_config& how) {
    if (how.resident) {
        throw error(errc::unsupported, "model " + in_quotes(which.name) +
                                           ": its configuration says `resident`, which worker processes do not take");
    }
    const std::lock_guard one_at_a_time(trying_);
    auto model = std::make_shared<hosted_model>();
    model->what = {which, how, {}};
    lock_type lock(mutex_);
    model->number = ++last_number_;
    tried_ = model;
    try {
        load_first(lock, *model);
    } catch (const std::exception&) {
        tried_ = nullptr;
        throw;
    }
    tried_ = nullptr;
    models_[model->number] = model;
    load_on_others(lock, *model);
    return model;
}

void worker_pool::unload(const hosted_model& model) noexcept {
    const std::lock_guard lock(mutex_);
    models_.erase(model.number);
    for (const slot& each : slots_) {
        if (!each.worker || each.worker->models.erase(model.number) == 0) continue;
        send(*each.worker, numbered(to_worker::unload, model.number), false);
    }
}

void worker_pool::trim() {
    packed_writer to;
    to.put(to_worker::trim);
    const std::lock_guard lock(mutex_);
    for (const slot& each : slots_)
        if (each.worker && each.worker->is_ready) send(*each.worker, to.bytes(), false);
}

// Called with the lock. No thread has the hatch: is its answer there?
bool worker_pool::has_answer(pooled_worker& worker, const pooled_hatch& left) noexcept {
    try {
        return left.its.has_piece();
    } catch (const std::exception& damage) {
        end(worker, damage.what());
        return false;
    }
}

// Called with the lock. One that is left is free when its answer has begun.
std::optional<std::size_t> worker_pool::free_hatch(pooled_worker& worker) {
    for (std::size_t i = 0; i < worker.hatches.size(); ++i) {
        const pooled_hatch& each = *worker.hatches[i];
        if (!each.is_busy || (each.is_left && has_answer(worker, each))) return i;
    }
    return std::nullopt;
}

// Called with the lock. Only the first workers compute: those after them are spares.
std::optional<hatch_lease> worker_pool::lend(const hosted_model& model) {
    std::shared_ptr<pooled_worker> best;
    std::size_t best_hatch = 0, best_busy = 0, seen = 0;
    for (const slot& each : slots_) {
        if (!each.worker || each.worker->is_gone || seen == options_.workers) continue;
        const auto found = each.worker->models.find(model.number);
        if (found == each.worker->models.end() || found->second.now != model_on_worker::state::loaded) continue;
        ++seen;
        const std::size_t busy = each.worker->busy();
        if (best && busy >= best_busy) continue;
        const auto hatch = free_hatch(*each.worker);
        if (!hatch) continue;
        best = each.worker;
        best_hatch = *hatch;
        best_busy = busy;
    }
    if (!best) return std::nullopt;
    pooled_hatch& lent = *best->hatches[best_hatch];
    lent.is_busy = true;
    const bool was_left = std::exchange(lent.is_left, false);
    return std::optional<hatch_lease>(std::in_place, shared_from_this(), std::move(best), best_hatch, was_left);
}

// Called with the lock.
bool worker_pool::is_on_a_worker(const hosted_model& model) const {
    return std::ranges::any_of(slots_, [&](const slot& each) {
        if (!each.worker || each.worker->is_gone) return false;
        const auto found = each.worker->models.find(model.number);
        return found != each.worker->models.end() && found->second.now == model_on_worker::state::loaded;
    });
}

// Called with the lock. A worker may never start again, as long as the system has no memory or processes left.
void worker_pool::refuse_without_worker(const hosted_model& model) const {
    std::string why;
    for (const slot& each : slots_) {
        if (each.is_given_up) continue;
        why = each.worker ? "its new worker process is still loading it" : each.last_end;
        if (each.worker) break;
    }
    throw refusal::for_now("no worker process has had the model " + in_quotes(model.what.which.name) + " for " +
                           seconds_text(options_.timeout) + ": " + why);
}

hatch_lease worker_pool::take(const hosted_model& model) {
    lock_type lock(mutex_);
    auto last_there = worker_clock::now();
    while (true) {
        if (is_stopping_) throw error(errc::runtime_closed, "the worker processes have ended");
        if (model.is_lost) {
            lock.unlock();
            throw error(errc::device_failed, why_lost(model));
        }
        auto lent = lend(model);
        if (!lent) {
            const auto now = worker_clock::now();
            if (is_on_a_worker(model)) last_there = now;
            if (now - last_there > options_.timeout) refuse_without_worker(model);
            changed_.wait_for(lock, run_guard::look_time);
        }
        lock.unlock();
        if (lent && lent->is_clear()) return *std::move(lent);
        lent.reset();
        run_guard::check();
        lock.lock();
    }
}

// Called with the lock. A device may compute a batch before the first one that it got. The time that such a batch took
// does not count for the first one; of as many as there are places for others, so that one that hangs is late.
void worker_pool::note_answer(pooled_worker& worker, std::int64_t since_ns) noexcept {
    if (worker.first_batch_ns == 0 || since_ns == worker.first_batch_ns) return;
    if (worker.overtaken + 1 >= worker.hatches.size()) return;
    ++worker.overtaken;
    const worker_clock::time_point got{worker_clock::duration(since_ns)};
    worker.first_batch_since += worker_clock::now() - std::max(got, worker.first_batch_since);
}

void worker_pool::give_back(pooled_worker& worker, std::size_t hatch, bool is_left) noexcept {
    {
        const std::lock_guard lock(mutex_);
        pooled_hatch& its = *worker.hatches[hatch];
        its.is_left = is_left;
        if (is_left) return;
        note_answer(worker, its.since_ns.load(std::memory_order_relaxed));
        its.is_busy = false;
        its.since_ns.store(0, std::memory_order_relaxed);
    }
    changed_.notify_all();
}

std::string worker_pool::why_lost(const hosted_model& model) const {
    const std::lock_guard lock(mutex_);
    for (const slot& each : slots_) {
        if (each.is_given_up || !each.worker) continue;
        const auto found = each.worker->models.find(model.number);
        if (found == each.worker->models.end() || found->second.now != model_on_worker::state::failed) continue;
        return "its new worker process could not load it: " + text_of_failure(found->second.failure);
    }
    return "its worker processes are given up; " + slots_.front().last_end;
}

std::vector<std::string> worker_pool::given_up_names(const hosted_model& model) const {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> names;
    for (std::size_t i = 0; i < slots_.size(); ++i) {
        if (slots_[i].is_given_up)
            names.push_back("worker " + std::to_string(i) + " (" + model.description.device_name + ")");
    }
    return names;
}

worker_counts worker_pool::counts() const {
    const std::lock_guard lock(mutex_);
    worker_counts now{.restarts = restarts_, .run_again = run_again_.load(std::memory_order_relaxed)};
    for (const slot& each : slots_) {
        now.up += each.worker && each.worker->is_ready && !each.worker->is_gone ? 1 : 0;
        now.given_up += each.is_given_up ? 1 : 0;
    }
    return now;
}

std::vector<int> worker_pool::process_ids() const {
    const std::lock_guard lock(mutex_);
    std::vector<int> ids;
    for (const slot& each : slots_)
        if (each.worker) ids.push_back(each.worker->process.id());
    return ids;
}

}  // namespace sluice::serve
