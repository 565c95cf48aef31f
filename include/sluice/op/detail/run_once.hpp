// SPDX-License-Identifier: Apache-2.0
// run_once: submits an operation once, for all users of its output. Implements share and unzip.
//
// The first user submits the operation, with no lock held. Threads that come meanwhile wait for that submission (not
// for the device). When the operation uses itself while it is submitted, on one thread or through several threads that
// wait for one another, the use that would wait for ever throws errc::invalid_argument instead.
#pragma once

#include <exception>
#include <memory>
#include <optional>

#include "sluice/op/detail/runtime_hooks.hpp"
#include "sluice/op/operation.hpp"

namespace sluice::detail {

template <operation Source>
class run_once {
    static_assert(!is_host_driven<Source>,
                  "share, unzip: an operation that recovers, tries again or gives up must be outside");

public:
    using output = output_of<Source>;

    explicit run_once(Source source) : estimate(source.estimate()), source_(std::move(source)) {}

    // The source's output, submitted now or before. When submitting it has thrown, throws the same to each user.
    std::shared_ptr<output> use(execution_context& context) {
        if (begin(context)) finish();
        work_.join(context);
        if (failure_) std::rethrow_exception(failure_);
        return std::shared_ptr<output>(made_, &made_->value);
    }

    // As an operation's next_link. `is_submitting`, the user's own, is true between the first link and the end of the
    // submission. The user calls this until it returns null, since other threads wait.
    chain_link* next_link(execution_context*& context, bool& is_submitting)
    requires has_links<Source>
    {
        if (!is_submitting && !begin(*context)) return nullptr;
        is_submitting = true;
        if (chain_link* const next = next_of_source(context)) return next;
        finish();
        is_submitting = false;
        return nullptr;
    }

    const work_estimate estimate;

private:
    // The output is constructed where it stays: an output whose move throws is not moved.
    struct made {
        made(Source source, execution_context& own) : value(std::move(source).submit(own)) {}
        output value;
    };

    // True: this user submits.
    bool begin(execution_context& context) {
        if (!once_.begin()) return false;
        attempt([&] { work_.open(context); });
        return true;
    }
    chain_link* next_of_source(execution_context*& context) noexcept {
        chain_link* next = nullptr;
        attempt([&] {
            execution_context* target = &work_.context();
            next = source_->next_link(target);
            if (next != nullptr) context = target;
        });
        return next;
    }
    void finish() noexcept {
        attempt([&] {
            made_ = std::make_shared<made>(std::move(*source_), work_.context());
            work_.close();
        });
        if (failure_) {
            made_.reset();
            source_.reset();  // what it holds may refer to the context
            work_.drop();
        }
        source_.reset();
        once_.end();
    }
    // Unless something has failed before.
    template <typename Step>
    void attempt(const Step& step) noexcept {
        if (failure_) return;
        try {
            step();
        } catch (...) {
            failure_ = std::current_exception();
        }
    }

    submission_once once_;
    // Written by the thread that submits, read after that.
    std::optional<Source> source_;
    std::shared_ptr<made> made_;
    shared_submission work_;
    std::exception_ptr failure_;
};

}  // namespace sluice::detail
