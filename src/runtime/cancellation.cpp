// SPDX-License-Identifier: Apache-2.0
#include "sluice/runtime/detail/cancellation.hpp"

#include <string>

#include "runtime/completion_service.hpp"

namespace sluice::detail {

end_signal::end_signal(std::shared_ptr<serial_executor> serial, function on_arrival, void* receiver) noexcept
    : work_item([](work_item& self) noexcept { static_cast<end_signal&>(self).arrive(); }),
      serial_(std::move(serial)),
      on_arrival_(on_arrival),
      receiver_(receiver) {}

void end_signal::set_timer(completion_service& service, timer::clock::time_point due) {
    service_ = &service;
    timer_.emplace(due, static_cast<work_item&>(*this));
    alive_ = shared_from_this();
    service.set(*timer_);
}

void end_signal::raise() noexcept {
    alive_ = shared_from_this();
    has_fired_ = true;
    serial_->post(*this);
}

void end_signal::cancel() noexcept {
    receiver_ = nullptr;
    if (service_ != nullptr && service_->cancel_timer(*timer_)) alive_.reset();
}

// A timer arrives twice: from the service, and then inside the serial executor.
void end_signal::arrive() noexcept {
    if (!has_fired_) {
        has_fired_ = true;
        serial_->post(*this);
        return;
    }
    const auto alive = std::move(alive_);
    if (receiver_ != nullptr) on_arrival_(receiver_);
}

deadline_or_stop::~deadline_or_stop() {
    on_stop_.reset();  // waits for a request to stop that is being raised, which takes no lock of ours
    if (timer_) timer_->cancel();
    if (stop_) stop_->cancel();
}

void deadline_or_stop::begin(const std::optional<deadline>& until, const std::stop_token& stop) {
    if (stop.stop_requested()) return end_with(end::stopped);
    if (until) {
        completion_service& service = at_->owner().service();
        const timer::clock::time_point due = service.due(*until);
        if (due <= service.now()) return end_with(end::timed_out);
        timer_ = std::make_shared<end_signal>(
            at_->serial(), [](void* self) noexcept { static_cast<deadline_or_stop*>(self)->end_with(end::timed_out); },
            this);
        timer_->set_timer(service, due);
    }
    if (stop.stop_possible()) {
        stop_ = std::make_shared<end_signal>(
            at_->serial(), [](void* self) noexcept { static_cast<deadline_or_stop*>(self)->end_with(end::stopped); },
            this);
        on_stop_.emplace(stop, stopper{stop_});
    }
}

void deadline_or_stop::on_end(function callback, void* receiver) noexcept {
    callback_ = callback;
    receiver_ = receiver;
}

void deadline_or_stop::end_with(end which) noexcept {
    if (end_ != end::none) return;
    end_ = which;
    at_->abandon();
    if (callback_ != nullptr) callback_(receiver_);  // *this may be destroyed
}

void deadline_or_stop::throw_if_ended() const {
    const std::string& device = at_->owner().name();
    switch (end_) {
        case end::timed_out:
            // At the end of its runtime all timers are due.
            if (at_->owner().is_refusing() && !at_->owner().is_poisoned()) at_->owner().throw_if_refusing();
            throw error(errc::timed_out, "the deadline has passed; the work is abandoned", {"", device});
        case end::stopped: throw error(errc::canceled, "stopped on request; the work is abandoned", {"", device});
        case end::none: return;
    }
}

timed_pause::~timed_pause() {
    if (signal_) signal_->cancel();
}

void timed_pause::await_suspend(std::coroutine_handle<> waiter) {
    completion_service& service = at_->owner().service();
    waiter_ = waiter;
    signal_ = std::make_shared<end_signal>(
        at_->serial(), [](void* self) noexcept { static_cast<timed_pause*>(self)->waiter_.resume(); }, this);
    signal_->set_timer(service, service.due(until_));
}

}  // namespace sluice::detail
