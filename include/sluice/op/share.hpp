// share: an operation that may be used many times and runs once.
//
// share(op) is copyable. The first copy to be submitted submits `op`, on its own context; every submission
// returns the same shared<T>. Readers on other streams are ordered behind the work by tickets. Copies may
// be submitted from different threads: one of them submits `op`, the others wait for that submission (not
// for the device). When submitting `op` throws, every copy throws that same exception.
//
//     auto weights = share(upload(w));
//     zip(layer(weights), layer(weights))
#pragma once

#include <exception>
#include <memory>
#include <mutex>
#include <optional>

#include "sluice/op/operation.hpp"
#include "sluice/op/shared.hpp"

namespace sluice {

template <operation Source>
class share_operation : public operation_base<share_operation<Source>> {
public:
    using output = shared<output_of<Source>>;

    explicit share_operation(Source source) : state_(std::make_shared<state>(std::move(source))) {}

    output submit(execution_context& context) && {
        const auto shared_state = std::move(state_);
        return shared_state->get(context);
    }
    work_estimate estimate() const { return state_->estimate; }

private:
    class state {
    public:
        explicit state(Source source) : estimate(source.estimate()), source_(std::move(source)) {}

        output get(execution_context& context) {
            const std::lock_guard lock(mutex_);
            if (failure_) std::rethrow_exception(failure_);
            if (!result_) run(context);
            return *result_;
        }

        const work_estimate estimate;

    private:
        void run(execution_context& context) {
            try {
                result_.emplace(std::move(*source_).submit(context));
                source_.reset();
            } catch (...) {
                source_.reset();
                failure_ = std::current_exception();
                throw;
            }
        }

        std::mutex mutex_;
        std::optional<Source> source_;
        std::optional<output> result_;
        std::exception_ptr failure_;
    };

    std::shared_ptr<state> state_;
};

template <operation Source>
auto share(Source source) {
    return share_operation<Source>(std::move(source));
}

}  // namespace sluice
