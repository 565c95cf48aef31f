// The exceptions that a stream's commands threw on threads of their own, until whoever waits asks for them.
// Those that nobody asks for are forgotten, the oldest first.
//
// Thread safety: all members may be called on any thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <exception>
#include <mutex>

#include "sluice/runtime/ticket.hpp"

namespace sluice::detail {

class failure_log {
public:
    void note(ticket number, std::exception_ptr error) {
        const std::lock_guard lock(mutex_);
        failures_.push_back({number, std::move(error)});
        if (failures_.size() > kept) failures_.pop_front();
    }

    // Throws, and forgets, the first one numbered after `after` up to `upto`, if there is one.
    void rethrow(ticket after, ticket upto) {
        if (std::exception_ptr error = take(after, upto)) std::rethrow_exception(std::move(error));
    }

private:
    static constexpr std::size_t kept = 256;
    struct failure {
        ticket number;
        std::exception_ptr error;
    };

    std::exception_ptr take(ticket after, ticket upto) {
        const std::lock_guard lock(mutex_);
        const auto found = std::find_if(failures_.begin(), failures_.end(), [&](const failure& each) {
            return each.number > after && each.number <= upto;
        });
        if (found == failures_.end()) return {};
        std::exception_ptr error = std::move(found->error);
        failures_.erase(found);
        return error;
    }

    std::mutex mutex_;
    std::deque<failure> failures_;
};

}  // namespace sluice::detail
