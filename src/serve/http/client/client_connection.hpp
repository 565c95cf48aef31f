// SPDX-License-Identifier: Apache-2.0
// client_connection: one connection of a client; it sends one request at a time.
//
// Thread safety: the pool's thread.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <memory>
#include <optional>
#include <string>

#include "serve/http/client/exchange.hpp"
#include "serve/http/http_stream.hpp"

namespace sluice::serve {

class exchange_pool;

class client_connection final : public std::enable_shared_from_this<client_connection> {
public:
    explicit client_connection(std::shared_ptr<exchange_pool> pool);

    // Connects, where it is not connected.
    void run(std::shared_ptr<exchange> what);
    void close();

private:
    using error_code = boost::system::error_code;

    void connect();
    void connected();
    void send(std::size_t already);
    void read();
    bool parse();  // false: more must come
    void end_of_answer(const error_code& failure);
    void finish();
    void broken(const std::string& what, const error_code& why);

    const std::shared_ptr<exchange_pool> pool_;
    boost::asio::ip::tcp::resolver resolver_;
    http_stream stream_;
    boost::beast::flat_buffer buffer_;
    std::optional<boost::beast::http::response_parser<boost::beast::http::string_body>> parser_;
    std::shared_ptr<exchange> current_;
    bool is_open_ = false;
    bool was_used_ = false;   // it has had an answer
    bool has_begun_ = false;  // a byte of the answer has come
};

}  // namespace sluice::serve
