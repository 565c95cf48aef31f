// SPDX-License-Identifier: Apache-2.0
// budget_share: what one owner has taken of a request_budget. It gives it back when it goes.
//
// Thread safety: one thread at a time.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "sluice/serve/request_budget.hpp"

namespace sluice::serve {

class budget_share {
public:
    enum class lasts { for_a_request, between_requests };  // the latter: request_budget::take_kept

    explicit budget_share(std::shared_ptr<request_budget> of, lasts how_long = lasts::for_a_request) noexcept
        : budget_(std::move(of)), is_kept_(how_long == lasts::between_requests) {}
    budget_share(const budget_share&) = delete;  // the bytes count once
    budget_share& operator=(const budget_share&) = delete;
    ~budget_share() { give_all(); }

    // Has this many bytes from now on, more or fewer than before. False: others use the memory, and nothing changes.
    bool hold(std::size_t bytes) noexcept {
        if (bytes > bytes_ && !take(bytes - bytes_)) return false;
        if (bytes < bytes_) give(bytes_ - bytes);
        bytes_ = bytes;
        return true;
    }
    // For a request: the same for what exists already: where others use the memory too, it is in use beyond its limit,
    // and no request gets more until it is not.
    void hold_existing(std::size_t bytes) noexcept {
        if (bytes > bytes_) budget_->take_existing(bytes - bytes_);
        if (bytes < bytes_) budget_->give(bytes_ - bytes);
        bytes_ = bytes;
    }
    // From now on the bytes count for another budget, also where they are more than it has.
    void count_for(const std::shared_ptr<request_budget>& other) {
        if (other == budget_) return;
        budget_->give(bytes_);
        other->take_existing(bytes_);
        budget_ = other;
    }
    void give_all() noexcept { give(std::exchange(bytes_, 0)); }
    std::size_t bytes() const noexcept { return bytes_; }

private:
    bool take(std::size_t bytes) noexcept { return is_kept_ ? budget_->take_kept(bytes) : budget_->take(bytes); }
    void give(std::size_t bytes) noexcept { is_kept_ ? budget_->give_kept(bytes) : budget_->give(bytes); }

    std::shared_ptr<request_budget> budget_;
    const bool is_kept_;
    std::size_t bytes_ = 0;
};

}  // namespace sluice::serve
