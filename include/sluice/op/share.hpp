// share: an operation that may be used many times and runs once.
//
// share(op) is copyable. The first copy to be submitted submits `op`; every submission returns the same shared<T>.
// Readers on other streams are ordered behind the work by tickets. Copies may be submitted from different threads: one
// of them submits `op`, the others wait for that submission (not for the device). When submitting `op` throws, every
// copy throws that same exception; when it fails on the device, every one that waits for a copy is told.
//
// A pending value can be shared too: whoever waits gets a shared<T>, opened once.
//
//     auto weights = share(upload(w));
//     zip(layer(weights), layer(weights))
#pragma once

#include <exception>
#include <memory>
#include <mutex>
#include <optional>

#include "sluice/op/operation.hpp"
#include "sluice/op/part.hpp"
#include "sluice/op/shared.hpp"

namespace sluice {

namespace detail {
// Submits its source once, as a part of its own that every consumer joins.
template <operation Source>
class run_once {
    static_assert(!is_staged<Source>, "share, unzip: what recovers, tries again or gives up must be outside");

public:
    explicit run_once(Source source) : estimate(source.estimate()), source_(std::move(source)) {}

    // With the lock held: calls use(output) with the source's output, submitted now or before.
    template <typename Use>
    auto use_output(execution_context& context, Use&& use) {
        const std::lock_guard lock(mutex_);
        if (failure_) std::rethrow_exception(failure_);
        if (!output_) run(context);
        part_.join(context);
        return use(*output_);
    }

    const work_estimate estimate;

private:
    void run(execution_context& context) {
        try {
            part_ = part::submit(context,
                                 [&](execution_context& own) { output_.emplace(std::move(*source_).submit(own)); });
            source_.reset();
        } catch (...) {
            source_.reset();
            failure_ = std::current_exception();
            throw;
        }
    }

    std::mutex mutex_;
    std::optional<Source> source_;
    std::optional<output_of<Source>> output_;
    part part_;
    std::exception_ptr failure_;
};
}  // namespace detail

template <operation Source>
class share_operation : public operation_base<share_operation<Source>> {
public:
    using output = shared<output_of<Source>>;

    explicit share_operation(Source source) : state_(std::make_shared<state>(std::move(source))) {}

    output submit(execution_context& context) && {
        const auto shared_state = std::move(state_);
        return shared_state->get(context);
    }
    work_estimate estimate() const { return state_->once.estimate; }

private:
    class state {
    public:
        explicit state(Source source) : once(std::move(source)) {}

        output get(execution_context& context) {
            return once.use_output(context, [this](output_of<Source>& made) {
                if (!result_) result_.emplace(std::move(made));
                return *result_;
            });
        }

        detail::run_once<Source> once;

    private:
        std::optional<output> result_;  // under once's lock
    };

    std::shared_ptr<state> state_;
};

template <operation Source>
auto share(Source source) {
    return share_operation<Source>(std::move(source));
}

}  // namespace sluice
