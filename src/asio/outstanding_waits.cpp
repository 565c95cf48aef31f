#include "sluice/asio/outstanding_waits.hpp"

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
    ++telling_;
    return true;
}

void outstanding_waits::has_told() noexcept {
    const std::lock_guard lock(mutex_);
    if (--telling_ == 0) nobody_tells_.notify_all();
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
        // Each is alive: it holds on to itself until come() or give_up() has found it gone from the list.
        while (first_ != nullptr) {
            auto one = first_->shared_from_this();
            unlink(*one);
            one->next_dropped_ = std::exchange(dropped, one);
        }
        nobody_tells_.wait(lock, [&] { return telling_ == 0; });
    }
    // Without the lock: with a handler goes whatever its owner put into it.
    while (dropped) {
        dropped->drop_handler();
        if (dropped->abandon()) dropped->coming_.reset();
        dropped = std::exchange(dropped->next_dropped_, nullptr);
    }
}

void outstanding_wait::begin(std::shared_ptr<outstanding_waits> among) noexcept {
    const auto self = shared_from_this();
    among_ = std::move(among);
    coming_ = self;
    if (among_->add(*this)) return start();
    coming_.reset();
    drop_handler();
}

void outstanding_wait::come() noexcept {
    const auto self = std::move(coming_);
    if (!among_->take(*this)) return;
    tell(end::come);
    among_->has_told();
}

void outstanding_wait::give_up() noexcept {
    if (!among_->take(*this)) return;
    tell(end::given_up);
    among_->has_told();
    if (abandon()) coming_.reset();
}

}  // namespace sluice::detail
