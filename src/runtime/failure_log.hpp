// The exceptions that a stream's commands threw on threads of their own, until whoever waits asks for them.
// Of those that nobody asks for, the oldest are forgotten when there are very many; whoever might have asked for
// one of them is told so.
//
// Thread safety: all members may be called on any thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

#include "sluice/runtime/error.hpp"
#include "sluice/runtime/ticket.hpp"

namespace sluice::detail {

class failure_log {
public:
    void note(ticket number, std::thread::id submitter, std::exception_ptr thrown) {
        const std::lock_guard lock(mutex_);
        failures_.push_back({number, submitter, std::move(thrown)});
        if (failures_.size() <= kept) return;
        forgotten_ = std::max(forgotten_, failures_.front().number);
        failures_.pop_front();
    }

    // Throws, and forgets, the first one that this thread submitted, numbered after `after` up to `upto`, if
    // there is one.
    void rethrow(ticket after, ticket upto, std::thread::id submitter) {
        if (std::exception_ptr thrown = take(after, upto, submitter)) std::rethrow_exception(std::move(thrown));
    }

private:
    static constexpr std::size_t kept = 4096;
    struct failure {
        ticket number;
        std::thread::id submitter;
        std::exception_ptr thrown;
    };

    std::exception_ptr take(ticket after, ticket upto, std::thread::id submitter) {
        const std::lock_guard lock(mutex_);
        const auto found = std::find_if(failures_.begin(), failures_.end(), [&](const failure& each) {
            return each.number > after && each.number <= upto && each.submitter == submitter;
        });
        if (found == failures_.end()) {
            if (after >= forgotten_) return {};
            return std::make_exception_ptr(error(errc::device_failed,
                                                 "very many commands failed and nobody asked; whether this "
                                                 "operation's were among them is no longer known"));
        }
        std::exception_ptr thrown = std::move(found->thrown);
        failures_.erase(found);
        return thrown;
    }

    std::mutex mutex_;
    std::deque<failure> failures_;
    ticket forgotten_ = 0;  // the latest of those
};

}  // namespace sluice::detail
