// SPDX-License-Identifier: Apache-2.0
// exchange_pool: the connections of a client, its thread, and the requests that wait for a connection.
//
// Thread safety: start(), stop() and the constant parts on any thread, everything else on the pool's.
#pragma once

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_set>
#include <vector>

#include "serve/http/client/exchange.hpp"
#include "serve/http/client/server_address.hpp"
#include "serve/tls/tls_context.hpp"
#include "sluice/serve/client.hpp"

namespace sluice::serve {

class client_connection;

class exchange_pool final : public std::enable_shared_from_this<exchange_pool> {
public:
    exchange_pool(server_address to, client_options options);

    void run();  // the thread
    // Calls what.done once, on the pool's thread; at once, here, when the pool has stopped.
    void start(std::shared_ptr<exchange> what);
    // Ends all requests, and the thread.
    void stop();

    const server_address& address() const noexcept { return address_; }
    const client_options& options() const noexcept { return options_; }
    const tls_context* tls() const noexcept { return tls_.get(); }
    boost::asio::io_context& context() noexcept { return io_; }

    // Of connections.
    void answered(const std::shared_ptr<client_connection>& by, bool keeps, const std::shared_ptr<exchange>& what,
                  http_reply reply);
    void broken(const std::shared_ptr<client_connection>& by, bool may_repeat, const std::shared_ptr<exchange>& what,
                std::exception_ptr why);

private:
    void begin(const std::shared_ptr<exchange>& what);
    void place(const std::shared_ptr<exchange>& what, bool needs_new);
    void release(const std::shared_ptr<client_connection>& by, bool keeps);
    void is_late(const std::shared_ptr<exchange>& what);
    void end(const std::shared_ptr<exchange>& what, std::exception_ptr why, http_reply reply = {});
    void end_all();

    const server_address address_;
    const client_options options_;
    std::shared_ptr<const tls_context> tls_;
    boost::asio::io_context io_{1};
    boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{io_.get_executor()};
    std::thread thread_;
    std::mutex end_mutex_;
    bool has_stopped_ = false;
    std::unordered_set<std::shared_ptr<client_connection>> connections_;  // at most options.connections
    std::vector<std::shared_ptr<client_connection>> idle_;                // of these
    std::unordered_set<std::shared_ptr<exchange>> running_;               // all that have no answer
    std::deque<std::shared_ptr<exchange>> waiting_;                       // of these
};

}  // namespace sluice::serve
