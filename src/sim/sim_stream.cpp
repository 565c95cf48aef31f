// SPDX-License-Identifier: Apache-2.0
#include "sim/sim_stream.hpp"

#include <cstring>

#include "base/guards_aside.hpp"
#include "runtime/kernel_call.hpp"
#include "sim/graph_walk.hpp"
#include "sim/sim_machine.hpp"
#include "sim/sim_mark.hpp"
#include "sluice/base/error.hpp"
#include "sluice/runtime/detail/command_queue.hpp"
#include "sluice/runtime/device.hpp"
#include "sluice/runtime/row_copy.hpp"

namespace sluice::sim::detail {
namespace {

// One kernel in this many is checked for writes to memory that it named as read.
constexpr std::uint32_t watched_one_in = 8;

trace_kind kind_of(copy_direction direction) {
    switch (direction) {
        case copy_direction::host_to_device: return trace_kind::host_to_device;
        case copy_direction::device_to_host: return trace_kind::device_to_host;
        default: return trace_kind::device_to_device;
    }
}

}  // namespace

trace_kind sim_stream::to_trace_kind(kind what) noexcept {
    switch (what) {
        case kind::fill: return trace_kind::fill;
        case kind::library_call: return trace_kind::library_call;
        case kind::host_call: return trace_kind::host_call;
        case kind::graph: return trace_kind::graph;
        default: return trace_kind::kernel;
    }
}

sim_stream::sim_stream(sim_machine& in, command_queue& owner) : machine_(in), owner_(owner), thread_(in.add(*this)) {}

sim_stream::~sim_stream() { machine_.remove(thread_); }

native_stream sim_stream::native() const noexcept { return {device_kind::cpu, nullptr, &owner_}; }

// Submission.

sim_stream::record& sim_stream::add(kind what, const command_info& info) {
    machine_.scheduling_point();
    if (machine_.planted != nullptr && machine_.planted->refuses(owner_.index(), info.name)) refuse(info);
    if (is_broken() && machine_.draw(2) == 0) throw_if_shown_broken();  // else the error is reported later
    if (is_idle()) {
        records_.clear();
        head_ = 0;
    }
    auto* const accesses =
        static_cast<named_block*>(machine_.memory().allocate(info.accesses.size() * sizeof(named_block)));
    std::size_t count = 0;
    for (const memory_access& each : info.accesses) {
        if (each.memory == nullptr) continue;
        const bool is_part = each.memory->whole() != nullptr;
        block& named = block::of((is_part ? each.memory->whole() : each.memory)->source_address());
        byte_range range = named.whole();
        if (is_part) {
            const auto* const begin = static_cast<const std::byte*>(each.memory->data());
            range = {static_cast<std::size_t>(begin - named.data()), each.memory->capacity_bytes()};
        }
        accesses[count++] = {&named, range, named.life, named.lease, each.mode};
    }
    record& made = records_.emplace_back();
    made.what = what;
    made.number = ++machine_.submissions;
    made.host_then = machine_.checks().snapshot();
    made.when = moment_of(++issued_);
    made.submitted = machine_.host_time;
    made.accesses = {accesses, count};
    made.outcome = sluice::detail::outcome_ref(info.outcome);
    const std::string_view operation = info.operation.empty() ? info.operation : machine_.memory().copy(info.operation);
    notes_.push_back({info.name, operation, info.location, to_trace_kind(what)});
    machine_.checks().names({thread_, made.when}, made.accesses);
    if (is_broken()) checker::mark_unfinished({thread_, made.when}, made.accesses);
    return made;
}

void sim_stream::added() { machine_.submitted(); }

void sim_stream::refuse(const command_info& info) {
    while (machine_.planted->drops_waits_of_refused() && !is_idle() && records_.back().what == kind::wait)
        records_.pop_back();
    throw error(errc::out_of_memory, "was refused by the simulator", {info.name});
}

void sim_stream::copy(const command_info& info, const copy_command& command) {
    record& made = add(kind::copy, info);
    made.destination = command.destination;
    made.source = command.source;
    made.bytes = command.bytes;
    made.rows = command.rows;
    made.owned.owner = command.host_owner;
    notes_.back().kind = kind_of(command.direction);
    notes_.back().bytes = copied_bytes(command);
    const command_ref who{thread_, made.when};
    checker& checks = machine_.checks();
    const std::size_t found = checks.findings().size();
    for_each_row(command, [&](const std::byte* from, std::byte* to) {
        checks.check_range(who, made.accesses, machine_.blocks(), from, command.bytes, access_mode::read,
                           command.direction != copy_direction::host_to_device);
        checks.check_range(who, made.accesses, machine_.blocks(), to, command.bytes, access_mode::write,
                           command.direction != copy_direction::device_to_host);
        return checks.findings().size() == found;  // one row's finding says it all
    });
    added();
}

void sim_stream::fill(const command_info& info, const fill_command& command) {
    record& made = add(kind::fill, info);
    made.destination = command.destination;
    made.bytes = command.bytes;
    made.value = command.value;
    notes_.back().bytes = command.bytes;
    machine_.checks().check_range({thread_, made.when}, made.accesses, machine_.blocks(), command.destination,
                                  command.bytes, access_mode::write, true);
    added();
}

void sim_stream::launch(const command_info& info, const launch_command& command) {
    record& made = add(kind::launch, info);
    made.launch = command.host_function;
    made.launch_may_fail = info.may_fail;
    made.source = machine_.memory().copy(command.closure, command.closure_bytes);
    added();
}

std::exception_ptr sim_stream::library_call(const command_info& info, const library_command& command) {
    record& made = add(kind::library_call, info);
    made.library = command.call;
    made.source = machine_.memory().copy(command.closure, command.closure_bytes);
    added();
    return {};
}

void sim_stream::host_call(const command_info& info, host_command command) {
    add(kind::host_call, info).owned.call = std::move(command.call);
    added();
}

void sim_stream::graph(const command_info& info, const graph_command& command) {
    const auto& program = static_cast<const sluice::detail::replay_program&>(*command.program);
    auto run = std::make_shared<graph_walk>(command, program.list());
    record& made = add(kind::graph, info);
    made.graph = run.get();
    made.owned.owner = std::move(run);
    check(machine_.checks(), *made.graph, {thread_, made.when}, describe(made.when), made.accesses, machine_.blocks());
    added();
}

ticket sim_stream::order_after(stream_interpreter& other, ticket upto) {
    machine_.scheduling_point();
    auto* awaited = static_cast<sim_stream*>(&other);
    const ticket covered = machine_.waits_cover_all_issued ? std::max(upto, awaited->issued_) : upto;
    ticket until = covered;
    if (machine_.planted != nullptr) {
        const auto made =
            machine_.planted->wait({owner_.index(), awaited->owner_.index(), awaited->moment_of(covered)});
        if (!made) return covered;
        if (made->awaited != awaited->owner_.index()) {
            awaited = static_cast<sim_stream*>(&owner_.owner().all_queues()[made->awaited]->interpreter());
        }
        until = awaited->base_ + made->upto;
    }
    record& wait = records_.emplace_back();
    wait.awaited = awaited;
    wait.upto = until;
    return covered;
}

std::unique_ptr<timed_mark> sim_stream::mark() {
    record& made = records_.emplace_back();
    made.what = kind::mark;
    made.mark = std::make_shared<sim_mark>();
    made.submitted = machine_.host_time;
    return std::make_unique<sim_timed_mark>(machine_, made.mark);
}

// Execution.

void sim_stream::begin() {
    records_.clear();
    head_ = 0;
    base_ = known_ = told_ = executed_ = issued_;
    clock_ = {};
    clocks_.clear();
    notes_.clear();
    waits_.clear();
    time_ = 0;
}

bool sim_stream::make_ready() {
    if (is_broken()) return false;
    for (; head_ < records_.size(); ++head_) {
        record& first = records_[head_];
        if (first.what == kind::wait) {
            const sim_stream& awaited = *first.awaited;
            if (awaited.executed_ < first.upto && !machine_.ignore_waits) return false;
            const moment when = awaited.moment_of(std::min(first.upto, awaited.executed_));
            if (when == 0) continue;
            clock_.join(awaited.clocks_[when - 1]);
            time_ = std::max(time_, awaited.notes_[when - 1].end);
            waits_.push_back({&awaited, when, moment_of(executed_) + 1});
        } else if (first.what == kind::mark) {
            *first.mark = {true, std::max(time_, first.submitted)};
        } else {
            return true;
        }
    }
    return false;
}

bool sim_stream::is_before_host_call() const {
    const record& next = records_[head_];
    return next.what == kind::host_call || (next.what == kind::graph && next.graph->list->graph.has_host_calls());
}

nanoseconds sim_stream::run_first() {
    record& command = records_[head_];
    clock_.join(machine_.checks().snapshot(command.host_then));
    clock_.upto[thread_] = command.when;
    clocks_.push_back(clock_);
    note& times = notes_[command.when - 1];
    times.start = std::max(time_, command.submitted);
    time_ = times.end = times.start + 100 + machine_.draw(10'000);
    machine_.checks().runs({thread_, command.when}, command.accesses, clocks_.back());
    perform(command);
    machine_.checks().has_run();
    machine_.retire(std::move(command.owned));
    ++head_;
    executed_ = base_ + command.when;
    return time_;
}

// As on a CPU: a command that depends on a failed command is not run, and only calls and kernels that check their
// bounds can fail themselves.
void sim_stream::perform(record& command) {
    const sluice::detail::guards_aside aside;  // of the thread that drives the simulation
    if (!command.outcome) return perform_body(command);
    const bool may_fail = command.what == kind::library_call || command.what == kind::host_call ||
                          command.launch_may_fail || (command.what == kind::graph && command.graph->list->may_fail);
    // A command that may fail has its own outcome and settles it; otherwise the outcome is that of the command that it
    // depends on.
    std::exception_ptr failure = may_fail ? command.outcome->inherited() : command.outcome->failure();
    try {
        if (!failure) perform_body(command);
    } catch (...) {
        failure = std::current_exception();
    }
    if (may_fail) command.outcome->settle(std::move(failure));
    command.outcome = {};
}

void sim_stream::perform_body(record& command) const {
    const bool is_kernel =
        command.what == kind::launch || command.what == kind::library_call || command.what == kind::graph;
    const bool is_watched = is_kernel && machine_.draw(watched_one_in) == 0;
    const std::uint64_t before = is_watched ? machine_.checks().contents_only_read(command.accesses) : 0;
    switch (command.what) {
        case kind::copy:
            copy_on_host({command.destination,
                          command.source,
                          command.bytes,
                          copy_direction::device_to_device,
                          {},
                          {},
                          command.rows});
            break;
        case kind::fill:
            if (command.bytes != 0) std::memset(command.destination, command.value, command.bytes);
            break;
        case kind::launch:
            if (command.launch != nullptr) {
                const note& of = notes_[command.when - 1];
                sluice::detail::run_kernel(command.launch, command.source, of.name, owner_.owner(), of.location);
            }
            break;
        case kind::library_call: command.library(native(), command.source); break;
        case kind::host_call: command.owned.call(); break;
        case kind::graph: detail::perform(machine_, *command.graph, native()); break;
        case kind::wait:
        case kind::mark: break;
    }
    if (is_watched && machine_.checks().contents_only_read(command.accesses) != before)
        machine_.checks().report(fault::undeclared_access, describe(command.when), "writes what it names as read only");
}

// The host.

void sim_stream::learn(ticket upto) const noexcept {
    const moment when = moment_of(std::min(upto, executed_));
    if (when == 0 || machine_.checks().host_knows(thread_, when)) return;
    machine_.host_sees(clocks_[when - 1], notes_[when - 1].end);
}

ticket sim_stream::passed() const noexcept {
    machine_.asked();
    const ticket told = machine_.is_watched ? known_ : executed_;
    learn(told);
    if (machine_.planted == nullptr) return told;
    return base_ + machine_.planted->passed(owner_.index(), told - base_, issued_ - base_);
}

void sim_stream::poll() noexcept {
    if (is_broken()) return machine_.notice_breakdown();
    machine_.poll();
    known_ = executed_;
}

void sim_stream::wait(ticket upto, wait_mode) {
    if (machine_.planted != nullptr && !machine_.planted->awaits(owner_.index(), upto - base_)) return;
    if (machine_.checks().is_running()) throw error(errc::invalid_argument, "a host call waits for its device");
    if (!machine_.run([&] { return executed_ >= upto || is_broken(); })) {
        // It may wait for another device that has broken down: then that error is reported, and this device fails with
        // it.
        if (machine_.breakdown()) {
            machine_.notice_breakdown();
            machine_.run([&] { return owner_.owner().is_poisoned(); });
            owner_.owner().throw_if_refusing();
        }
        machine_.give_up(to_string(describe(moment_of(upto))));
    }
    // Either as on CUDA, where a wait for a command that succeeded reports the fault too, or only where the wait cannot
    // succeed.
    if (is_broken() && (machine_.is_watched || executed_ < upto)) {
        throw_if_shown_broken();
        if (executed_ < upto) machine_.give_up(to_string(describe(moment_of(upto))));
    }
    known_ = executed_;
    learn(upto);
}

bool sim_stream::is_broken() const noexcept { return machine_.is_broken(owner_.owner()); }

void sim_stream::throw_if_shown_broken() const {
    machine_.notice_breakdown();
    owner_.owner().throw_if_refusing();
}

void sim_stream::mark_unfinished() noexcept {
    for (std::size_t i = head_; i < records_.size(); ++i)
        checker::mark_unfinished({thread_, records_[i].when}, records_[i].accesses);
}

void sim_stream::abandon() noexcept {
    mark_unfinished();  // on a real device they may still run
    for (std::size_t i = head_; i < records_.size(); ++i) machine_.retire(std::move(records_[i].owned));
    records_.clear();
    head_ = 0;
}

bool sim_stream::needs_watching() const noexcept { return machine_.is_watched; }

void sim_stream::catch_up() noexcept {
    known_ = executed_;
    learn(executed_);
}

void sim_stream::tell() noexcept {
    told_ = executed_;
    if (machine_.planted == nullptr || machine_.planted->tells(owner_.index(), told_ - base_)) owner_.release(told_);
}

bool sim_stream::is_stuck(actor& waiter, actor& awaited) const {
    if (records_[head_].what != kind::wait) return false;
    const record& wait = records_[head_];
    moment next = moment_of(executed_) + 1;
    waiter = describe(next);
    awaited = wait.awaited->describe(wait.awaited->moment_of(wait.upto));
    return true;
}

void sim_stream::describe(trace& in, std::size_t device) const {
    const auto ran = static_cast<moment>(executed_ - base_);
    for (moment when = 1; when <= ran; ++when) {
        const note& of = notes_[when - 1];
        actor who = describe(when);
        in.events.push_back({std::move(who.name), std::move(who.operation), device, owner_.index(), when, of.kind,
                             double(of.start) * 1e-3, double(of.end) * 1e-3, of.bytes, std::move(who.location)});
    }
    for (const waited& each : waits_) {
        if (each.before <= ran && &each.awaited->owner_.owner() == &owner_.owner())
            in.waits.push_back({device, each.awaited->owner_.index(), each.upto, owner_.index(), each.before});
    }
}

// A command that was not submitted yet has a ticket but no name. 0 means the last command.
actor sim_stream::describe(moment when) const {
    actor who{.device = owner_.owner().name(), .stream = owner_.index()};
    if (when == 0) when = static_cast<moment>(notes_.size());
    who.ticket = when;
    if (when == 0 || when > notes_.size()) {
        who.name = "a command not submitted yet";
        return who;
    }
    const note& of = notes_[when - 1];
    who.name = of.name;
    who.operation = of.operation;
    who.location = line_of(of.location);
    return who;
}

}  // namespace sluice::sim::detail
