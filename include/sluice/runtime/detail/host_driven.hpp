// SPDX-License-Identifier: Apache-2.0
// How operations that recover, try again or give up are run: the parts of one are submitted one after the other, by a
// host_driver; no thread waits in between.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string_view>
#include <tuple>
#include <vector>

#include "sluice/async/spawn_task.hpp"
#include "sluice/async/task.hpp"
#include "sluice/async/when_all.hpp"
#include "sluice/op/operation.hpp"
#include "sluice/runtime/detail/cancellation.hpp"
#include "sluice/runtime/detail/driven_wait.hpp"
#include "sluice/runtime/detail/part_context.hpp"
#include "sluice/runtime/detail/wait_checks.hpp"
#include "sluice/runtime/pending.hpp"

// g++ warns about lambdas of the user's file in the coroutines' frames when nvcc has preprocessed the file: it takes
// one translation unit for several.
#if defined(__CUDACC__) && defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsubobject-linkage"
#endif

namespace sluice::detail {

// What an operation's drive gets: it runs the operations inside, and says whether the whole is still wanted. Copies
// drive the same operation.
//
// (No captures, no aggregates and no temporaries that own anything in expressions with co_await: g++ 12. No operation
// is a parameter of a coroutine: clang 19 reads a coroutine's freed frame when an argument's move throws.)
class host_driver {
public:
    // A coroutine that gives the output, and the work that must be complete before the output counts.
    template <typename Output>
    using part = task<submitted_part<Output>>;

    explicit host_driver(part_context_ref at) noexcept : at_(std::move(at)) {}

    // Submits the operation when awaited; the part is complete when the last command has been submitted. The operation
    // is a member or a local variable: it must live until then.
    template <operation Op>
    auto run(Op& op) const -> part<output_of<Op>> {
        if constexpr (can_submit<Op>) {
            return submit(op, *this);
        } else {
            constexpr bool can_drive = requires { op.drive(*this); };
            static_assert(can_drive,
                          "an operation with a source that recovers, tries again or gives up needs the member "
                          "drive(driver): see docs/adding_a_combinator.md");
            if constexpr (can_drive) return op.drive(*this);
        }
    }
    // The same for several at the same time.
    template <operation... Ops>
    auto run_all(Ops&... ops) const -> part<std::tuple<output_of<Ops>...>> {
        return join_all(when_all(run(ops)...), *this);
    }
    template <operation Op>
    auto run_list(std::vector<Op>& ops) const -> part<std::vector<output_of<Op>>> {
        std::vector<part<output_of<Op>>> parts;
        parts.reserve(ops.size());
        for (Op& each : ops) parts.push_back(run(each));
        return join_list(when_all(std::move(parts)), *this);
    }
    // The operation, and then all that it submitted: throws what failed on the device, too. A part that fails ends when
    // nothing of it runs any more. Nothing is opened. The operation is destroyed when the part has ended.
    template <operation Op>
    auto run_to_its_end(Op op) const -> part<output_of<Op>> {
        return to_its_end(std::make_unique<Op>(std::move(op)), *this);
    }
    // The same; at the deadline, or when stop is requested, the operation is abandoned and destroyed first, and then
    // the part throws errc::timed_out or errc::canceled.
    template <operation Op>
    auto run_until(Op op, std::optional<deadline> until, std::stop_token stop) const -> part<output_of<Op>> {
        return race(std::make_unique<Op>(std::move(op)), until, std::move(stop), at_);
    }

    // Resumes after that time; at the earliest when this thread has returned from the operation. Give it a name before
    // it is awaited.
    timed_pause pause(std::chrono::duration<double> time) const { return timed_pause(at_, deadline(time)); }

    // Throws when the operation has been abandoned. To be called before each function of the user's.
    void throw_if_abandoned() const { at_->throw_if_abandoned(); }
    bool is_abandoned() const noexcept { return at_->is_abandoned(); }
    // Whether another attempt would be for nothing: the operation was abandoned, or the device refuses commands,
    // because it has faulted or its runtime has ended.
    bool is_over() const noexcept { return is_abandoned() || at_->owner().is_refusing(); }
    bool may_memory_come() const { return at_->may_memory_come(); }
    // For delays: operations of one stream, whose parts are submitted one after the other, have the same.
    std::uint64_t delay_seed() const noexcept { return at_->number(); }

private:
    using submissions = std::vector<submission_ref>;

    host_driver(part_context_ref at, submissions& submitted) noexcept : at_(std::move(at)), submitted_(&submitted) {}

    template <operation Op>
    static part<output_of<Op>> submit(Op& op, host_driver driver) {
        execution_context context = driver.at_->new_context();
        driver.submitted_->push_back(context.submission());
        Op submitted = std::move(op);  // destroyed here, with all that it holds
        auto output = std::move(submitted).submit(context);
        co_return submitted_part<output_of<Op>>(std::move(output), std::move(context).submission());
    }

    template <typename... Outputs>
    static part<std::tuple<Outputs...>> join_all(task<std::tuple<submitted_part<Outputs>...>> all, host_driver driver) {
        using output = std::tuple<Outputs...>;
        auto parts = co_await std::move(all);
        submission_ref together(new submission(driver.at_->owner()));
        std::apply([&together](auto&... part) { (together->join(std::move(part.work)), ...); }, parts);
        output result = std::apply([](auto&... part) { return output(std::move(part.output)...); }, parts);
        co_return submitted_part<output>(std::move(result), std::move(together));
    }

    template <typename Output>
    static part<std::vector<Output>> join_list(task<std::vector<submitted_part<Output>>> all, host_driver driver) {
        auto parts = co_await std::move(all);
        submission_ref together(new submission(driver.at_->owner()));
        std::vector<Output> result;
        result.reserve(parts.size());
        for (submitted_part<Output>& each : parts) {
            together->join(std::move(each.work));
            result.push_back(std::move(each.output));
        }
        co_return submitted_part<std::vector<Output>>(std::move(result), std::move(together));
    }

    template <operation Op>
    static part<output_of<Op>> to_its_end(std::unique_ptr<Op> op, host_driver driver) {
        submissions submitted;
        std::exception_ptr failure;
        try {
            auto whole = host_driver(driver.at_, submitted).run(*op);
            submitted_part<output_of<Op>> done = co_await std::move(whole);
            reach_pending(*done.work, done.output);
            completion_awaiter settled(done.work, driver.at_);
            co_await settled;
            co_return std::move(done);
        } catch (...) {
            failure = std::current_exception();
        }
        op.reset();
        // Some of its parts may run: those that were submitted before the one that failed.
        submission_ref all(new submission(driver.at_->owner()));
        for (const submission_ref& each : submitted) all->join(each);
        end_awaiter ended(all, driver.at_);
        co_await ended;
        std::rethrow_exception(failure);
    }

    template <operation Op>
    static part<output_of<Op>> race(std::unique_ptr<Op> op, std::optional<deadline> until, std::stop_token stop,
                                    part_context_ref outer) {
        const auto own = std::make_shared<part_context>(std::move(outer));
        deadline_or_stop ends(own);
        ends.begin(until, stop);
        auto work = to_its_end(std::move(op), host_driver(own));
        cancellable_wait<submitted_part<output_of<Op>>> waiting(std::move(work), ends);
        submitted_part<output_of<Op>> done = co_await waiting;
        co_return std::move(done);
    }

    part_context_ref at_;
    submissions* submitted_ = nullptr;  // by the part that runs to its end, in whose frame they are
};

// The whole of a host-driven operation, as a task that is started inside the operation's serial executor. It usually
// ends on the completion thread, so what is pending in its output is left for the thread that takes it.
template <operation Op>
auto host_driven_task(Op op, const part_context_ref& at) {
    return host_driver(at).run_to_its_end(std::move(op));
}

// A host-driven operation in flight, for a spawned<T>. The thread that takes the result opens it.
template <typename Output>
class spawned_host_driven final : public spawned_state<decltype(open(std::declval<Output>()))>, private root_owner {
    using result = decltype(open(std::declval<Output>()));

public:
    spawned_host_driven(task<submitted_part<Output>> body, part_context_ref at)
        : at_(std::move(at)), root_(make_root(std::move(body))) {}

    // Submits the first part here.
    static void start(std::shared_ptr<spawned_host_driven> self) noexcept {
        spawned_host_driven& state = *self;
        state.running_ = std::move(self);
        const auto at = state.at_;  // the state may be destroyed by the time the first part has been submitted
        const serial_entry inside(*at->serial());
        state.root_.start(state);
        at->detach_policy();
    }

    result take() override {
        submitted_part<Output> done = root_.take();
        return open(std::move(done.output));
    }

    // Enters the serial executor and destroys the operation's coroutines, with the functions that they hold. When the
    // caller is one of those functions, they end by themselves.
    abandonment abandon() noexcept override {
        if (this->end().complete_already()) return abandonment::none;
        const serial_entry inside(*at_->serial());
        if (this->end().complete_already()) return abandonment::none;
        at_->abandon();
        if (!inside) return abandonment::soon;
        root_.reset();
        const auto self = std::move(running_);  // the caller has another reference
        return abandonment::now;
    }

    void require_may_block(std::string_view operation) const override {
        require_may_wait_host_driven(at_->owner(), operation);
    }

private:
    std::coroutine_handle<> root_ended(std::size_t) noexcept override {
        const auto last = std::move(running_);  // without a handle, this destroys state, frame and result
        return this->complete();
    }

    const part_context_ref at_;
    root<submitted_part<Output>> root_;
    std::shared_ptr<spawned_host_driven> running_;
};

template <operation Op>
auto spawn_host_driven(Op op, scheduling_policy& policy) {
    using state = spawned_host_driven<output_of<Op>>;
    const auto at = std::make_shared<part_context>(policy);
    auto started = std::make_shared<state>(host_driven_task(std::move(op), at), at);
    state::start(started);
    return spawned_access::make<decltype(open(std::declval<output_of<Op>>()))>(std::move(started));
}

// Runs a host-driven operation to its end; the calling thread waits.
template <operation Op>
auto sync_host_driven(Op op, const part_context_ref& at) {
    require_may_wait_host_driven(at->owner(), "sync");
    auto root = make_root(host_driven_task(std::move(op), at));
    const auto start = [&](root_owner& owner) {
        const serial_entry inside(*at->serial());
        root.start(owner);
    };
    if (is_driven(at->owner())) {
        task_end end;
        start(end);
        drive_until(at->owner(), [&] { return end.is_reached; });
    } else {
        blocking_owner owner;
        start(owner);
        owner.wait();
    }
    auto done = root.take();
    return open(std::move(done.output));
}

}  // namespace sluice::detail

#if defined(__CUDACC__) && defined(__GNUC__)
#pragma GCC diagnostic pop
#endif
