// SPDX-License-Identifier: Apache-2.0
#include "sluice/asio/detail/outstanding_waits.hpp"

#include <utility>

namespace sluice::detail {

bool outstanding_waits::add(outstanding_wait& one) noexcept {
    const std::lock_guard lock(mutex_);
    if (is_closed_) return false;
    one.next_ = first_;
    if (first_ != nullptr) first_->previous_ = &one;
    first_ = &one;
    one.is_linked_ = true;
    return true;
}

bool outstanding_waits::take(outstanding_wait& one) noexcept {
    const std::lock_guard lock(mutex_);
    if (!one.is_linked_) return false;
    unlink(one);
    ++delivering_;
    return true;
}

void outstanding_waits::has_delivered() noexcept {
    const std::lock_guard lock(mutex_);
    if (--delivering_ == 0) none_delivers_.notify_all();
}

void outstanding_waits::unlink(outstanding_wait& one) noexcept {
    (one.previous_ != nullptr ? one.previous_->next_ : first_) = one.next_;
    if (one.next_ != nullptr) one.next_->previous_ = one.previous_;
    one.next_ = one.previous_ = nullptr;
    one.is_linked_ = false;
}

void outstanding_waits::close() noexcept {
    std::shared_ptr<outstanding_wait> dropped;
    {
        std::unique_lock lock(mutex_);
        is_closed_ = true;
        // Each is alive: it owns itself until complete() or cancel() finds that it has left the list.
        while (first_ != nullptr) {
            auto one = first_->weak_from_this().lock();
            unlink(*one);
            one->next_dropped_ = std::exchange(dropped, one);
        }
        none_delivers_.wait(lock, [&] { return delivering_ == 0; });
    }
    // Without the lock: a handler destroys whatever its owner has put into it.
    while (dropped) {
        // The operation first: the handler may own what the operation's functions refer to.
        if (dropped->abandon() == abandonment::now) dropped->alive_.reset();
        dropped->drop_handler();
        dropped = std::exchange(dropped->next_dropped_, nullptr);
    }
}

void outstanding_wait::begin(std::shared_ptr<outstanding_waits> among) noexcept {
    const auto self = weak_from_this().lock();
    among_ = std::move(among);
    alive_ = self;
    if (among_->add(*this)) return start();
    alive_.reset();
    drop_handler();
}

void outstanding_wait::complete() noexcept {
    const auto self = std::move(alive_);
    if (!is_canceled_ && !among_->take(*this)) return;
    deliver(is_canceled_ ? end::canceled : end::completed);
    among_->has_delivered();
}

void outstanding_wait::cancel() noexcept {
    if (!among_->take(*this)) return;
    const abandonment how = abandon();
    if (how == abandonment::soon) {
        is_canceled_ = true;  // delivered on the thread where it completes
        return;
    }
    deliver(end::canceled);
    among_->has_delivered();
    if (how == abandonment::now) alive_.reset();
}

}  // namespace sluice::detail
