// Knows the outstanding waits of an execution context of Asio's, so that it can be destroyed with waits outstanding:
// their handlers are destroyed with it, as those of Asio's own operations are, and what the devices do afterwards is
// nobody's business.
#pragma once

#include "sluice/asio/requirements.hpp"

#include <boost/asio/execution/context.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/asio/query.hpp>
#include <boost/asio/system_executor.hpp>
#include <memory>

#include "sluice/asio/outstanding_waits.hpp"

namespace sluice::detail {

class wait_service final : public boost::asio::execution_context::service {
public:
    using key_type = wait_service;
    static inline boost::asio::execution_context::id id;

    explicit wait_service(boost::asio::execution_context& of)
        : service(of), waits_(std::make_shared<outstanding_waits>()) {}

    const std::shared_ptr<outstanding_waits>& waits() const noexcept { return waits_; }

private:
    void shutdown() override { waits_->close(); }

    const std::shared_ptr<outstanding_waits> waits_;  // the waits' too, which may outlive the context
};

// The context that runs what the executor is given. An executor that has none must outlive the program's work, as the
// system executor does.
template <typename Executor>
boost::asio::execution_context& context_of(const Executor& executor) {
    if constexpr (boost::asio::can_query<const Executor&, boost::asio::execution::context_t>::value) {
        return boost::asio::query(executor, boost::asio::execution::context);
    } else if constexpr (requires { executor.context(); }) {
        return executor.context();
    } else {
        return boost::asio::query(boost::asio::system_executor(), boost::asio::execution::context);
    }
}

}  // namespace sluice::detail
