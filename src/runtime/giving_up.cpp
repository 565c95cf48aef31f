#include "sluice/runtime/giving_up.hpp"

#include "runtime/completion_service.hpp"

namespace sluice::detail {

void patience::begin(const std::optional<deadline>& until, const std::stop_token& stop) {
    if (stop.stop_requested()) {
        come_to(end::stopped);
        return;
    }
    if (until) {
        completion_service& service = at_->owner().service();
        const alarm::clock::time_point due = service.due(*until);
        if (due <= service.now()) {
            come_to(end::timed_out);
            return;
        }
        alarm_.emplace(due, ring_);
        ring_.alive = shared_from_this();
        service.set(*alarm_);
    }
    if (stop.stop_possible()) stop_.emplace(stop, stopper{this});
}

bool patience::come_to(end how) noexcept {
    end none = end::none;
    if (!end_.compare_exchange_strong(none, how, std::memory_order_acq_rel)) return false;
    if (how != end::done) at_->abandon();
    // The waiter, if it waits already, goes on from the completion thread: not inside of whoever asked to stop.
    void* const waiter = waiter_.exchange(this, std::memory_order_acq_rel);
    if (waiter != nullptr) {
        waiting_ = std::coroutine_handle<>::from_address(waiter);
        go_on_.alive = shared_from_this();
        at_->owner().service().post(go_on_);
    }
    return true;
}

bool patience::wait(std::coroutine_handle<> waiter) noexcept {
    void* none = nullptr;
    return waiter_.compare_exchange_strong(none, waiter.address(), std::memory_order_acq_rel);
}

void patience::conclude() {
    stop_.reset();
    if (alarm_ && at_->owner().service().take_back(*alarm_)) ring_.alive.reset();
    const std::string& device = at_->owner().name();
    switch (how()) {
        case end::timed_out:
            throw error(errc::timed_out, "the deadline has passed; the work is abandoned", {"", device});
        case end::stopped: throw error(errc::canceled, "stopped on request; the work is abandoned", {"", device});
        default: return;
    }
}

void patience::rung(item& self) noexcept {
    const auto alive = std::move(self.alive);
    self.of.come_to(end::timed_out);
}

void patience::gone_on(item& self) noexcept {
    const auto alive = std::move(self.alive);
    self.of.waiting_.resume();
}

}  // namespace sluice::detail
