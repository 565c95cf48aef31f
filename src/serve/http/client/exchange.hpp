// SPDX-License-Identifier: Apache-2.0
// exchange: one request of a client, until its answer.
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace sluice::serve {

class client_connection;

struct http_reply {
    int status = 0;
    std::optional<std::size_t> json_bytes;  // Inference-Header-Content-Length
    std::string body;
};

struct exchange {
    using handler = std::function<void(std::exception_ptr, http_reply)>;

    exchange(boost::asio::io_context& on, std::string its_head, std::string its_body,
             std::chrono::steady_clock::time_point until, handler its_done)
        : head(std::move(its_head)), body(std::move(its_body)), deadline(until), timer(on), done(std::move(its_done)) {}

    const std::string head;
    const std::string body;
    const std::chrono::steady_clock::time_point deadline;
    boost::asio::steady_timer timer;
    std::weak_ptr<client_connection> at;  // that sends it
    bool was_repeated = false;
    handler done;  // empty: it was called
};

}  // namespace sluice::serve
