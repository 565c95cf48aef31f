// SPDX-License-Identifier: Apache-2.0
// Owns the list of outstanding waits of an Asio execution context, so that the context can be destroyed during waits.
// Their handlers are destroyed with it, like those of Asio's own operations. No handler is called for what the devices
// do afterwards.
#pragma once

#include "sluice/asio/detail/requirements.hpp"

#include <boost/asio/execution/context.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/asio/query.hpp>
#include <boost/asio/system_executor.hpp>
#include <memory>

#include "sluice/asio/detail/outstanding_waits.hpp"

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

    const std::shared_ptr<outstanding_waits> waits_;  // shared with the waits, which may outlive the context
};

// The context of the executor. An executor without one must outlive the program's work, as the system executor does.
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
