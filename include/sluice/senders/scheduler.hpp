// SPDX-License-Identifier: Apache-2.0
// as_scheduler(executor), as_scheduler(policy): threads or a pool of streams as a scheduler of std::execution.
//
// Of an executor (thread_pool, run_loop): schedule() completes with set_value() on one of its threads, never inside
// start(). Of a policy: it completes when all that was submitted to the policy's next stream before is complete, on the
// thread that as_sender says, or with set_error or set_stopped. Both must outlive what is scheduled on them.
//
// All functions here take constant time.
#pragma once

#include <memory>

#include "sluice/async/executor.hpp"
#include "sluice/runtime/host_call.hpp"
#include "sluice/senders/as_sender.hpp"

namespace sluice {

// The threads of an executor. Copies are the same scheduler.
class executor_scheduler {
    template <typename Receiver>
    class scheduled : private work_item {
    public:
        using operation_state_concept = execution::operation_state_t;

        scheduled(executor& on, Receiver receiver) : work_item(&run), on_(&on), receiver_(std::move(receiver)) {}
        scheduled(const scheduled&) = delete;  // the executor points to it
        scheduled& operator=(const scheduled&) = delete;
        ~scheduled() = default;

        void start() & noexcept {
            if (execution::get_stop_token(execution::get_env(receiver_)).stop_requested())
                return execution::set_stopped(std::move(receiver_));
            on_->post(*this);
        }

    private:
        static void run(work_item& item) noexcept {
            execution::set_value(std::move(static_cast<scheduled&>(item).receiver_));
        }

        executor* on_;
        Receiver receiver_;
    };

    class sender {
    public:
        using sender_concept = execution::sender_t;
        using completion_signatures =
            execution::completion_signatures<execution::set_value_t(), execution::set_stopped_t()>;

        explicit sender(executor& on) noexcept : on_(&on) {}

        template <typename Receiver>
        auto connect(Receiver receiver) const {
            return scheduled<Receiver>(*on_, std::move(receiver));
        }

        class env {
        public:
            explicit env(executor& on) noexcept : on_(&on) {}
            executor_scheduler query(execution::get_completion_scheduler_t<execution::set_value_t>) const noexcept {
                return executor_scheduler(*on_);
            }

        private:
            executor* on_;
        };
        env get_env() const noexcept { return env(*on_); }

    private:
        executor* on_;
    };

public:
    using scheduler_concept = execution::scheduler_t;  // for std::execution

    explicit executor_scheduler(executor& on) noexcept : on_(&on) {}  // as as_scheduler

    sender schedule() const noexcept { return sender(*on_); }  // a sender that completes on a thread of the executor
    bool operator==(const executor_scheduler&) const = default;

private:
    executor* on_;
};

namespace detail {
// A command that does nothing: it is complete when the stream has passed it.
inline auto passed(scheduling_policy& on) {
    return as_sender(host_call([] {}), on);
}
using passed_sender = decltype(passed(std::declval<scheduling_policy&>()));
}  // namespace detail

// The streams of a policy. Copies are the same scheduler.
class policy_scheduler {
    class sender : public detail::passed_sender {
    public:
        explicit sender(scheduling_policy& on) : detail::passed_sender(detail::passed(on)), on_(&on) {}

        class env {
        public:
            explicit env(scheduling_policy& on) noexcept : on_(&on) {}
            policy_scheduler query(execution::get_completion_scheduler_t<execution::set_value_t>) const noexcept {
                return policy_scheduler(*on_);
            }

        private:
            scheduling_policy* on_;
        };
        env get_env() const noexcept { return env(*on_); }

    private:
        scheduling_policy* on_;
    };

public:
    using scheduler_concept = execution::scheduler_t;  // for std::execution

    explicit policy_scheduler(scheduling_policy& on) noexcept : on_(&on) {}  // as as_scheduler

    sender schedule() const { return sender(*on_); }  // a sender that submits to the policy's next stream
    bool operator==(const policy_scheduler&) const = default;

private:
    scheduling_policy* on_;
};

// See the top of this file.
inline executor_scheduler as_scheduler(executor& on) noexcept { return executor_scheduler(on); }
inline policy_scheduler as_scheduler(scheduling_policy& on) noexcept { return policy_scheduler(on); }

}  // namespace sluice
