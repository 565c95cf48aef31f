// SPDX-License-Identifier: Apache-2.0
#include "serve/http/client/client_connection.hpp"

#include <algorithm>
#include <boost/asio/connect.hpp>
#include <boost/beast/http/error.hpp>
#include <charconv>
#include <exception>
#include <utility>

#include "serve/http/client/exchange_pool.hpp"
#include "sluice/base/error.hpp"

namespace sluice::serve {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;

constexpr std::size_t read_bytes = 64 << 10;
constexpr std::size_t kept_bytes = 1 << 20;

}  // namespace

client_connection::client_connection(std::shared_ptr<exchange_pool> pool)
    : pool_(std::move(pool)), resolver_(pool_->context()), stream_(tcp::socket(pool_->context())) {}

void client_connection::run(std::shared_ptr<exchange> what) {
    current_ = std::move(what);
    current_->at = weak_from_this();
    has_begun_ = false;
    parser_.emplace();
    parser_->body_limit(pool_->options().answer_bytes);
    parser_->eager(true);
    if (is_open_) return send(0);
    connect();
}

void client_connection::close() {
    current_.reset();
    is_open_ = false;
    resolver_.cancel();
    stream_.close();
}

void client_connection::connect() {
    const server_address& to = pool_->address();
    resolver_.async_resolve(
        to.host, to.port, [self = shared_from_this()](const error_code& failure, const auto& found) {
            if (!self->current_) return;
            if (failure) return self->broken("cannot find", failure);
            asio::async_connect(self->stream_.socket(), found, [self](const error_code& its, const tcp::endpoint&) {
                if (!self->current_) return;
                if (its) return self->broken("cannot connect to", its);
                self->connected();
            });
        });
}

void client_connection::connected() {
    error_code failure;
    stream_.socket().non_blocking(true, failure);
    if (!failure) stream_.socket().set_option(tcp::no_delay(true), failure);
    if (failure) return broken("cannot connect to", failure);
    is_open_ = true;
    if (pool_->tls() == nullptr) return send(0);
    std::unique_ptr<tls_session> session =
        pool_->tls()->session(stream_.socket().native_handle(), pool_->address().host);
    if (session == nullptr) return broken("no memory for a connection to", asio::error::no_memory);
    stream_.begin_tls(std::move(session));
    stream_.async_handshake([self = shared_from_this()](const error_code& its) {
        if (!self->current_) return;
        if (its) return self->broken("no TLS with", its);
        self->send(0);
    });
}

void client_connection::send(std::size_t already) {
    const std::string& head = current_->head;
    const std::string& body = current_->body;
    while (already < head.size() + body.size()) {
        const std::size_t of_head = std::min(already, head.size());
        const http_stream::two_parts parts{asio::buffer(head) + of_head, asio::buffer(body) + (already - of_head)};
        error_code failure;
        const std::size_t written = stream_.write_some(parts, failure);
        if (failure == asio::error::would_block) {
            stream_.async_write_some(parts,
                                     [self = shared_from_this(), already](const error_code& its, std::size_t more) {
                                         if (!self->current_) return;
                                         if (its) return self->read();
                                         self->send(already + more);
                                     });
            return;
        }
        if (failure) break;  // the server may have answered before it has read all
        already += written;
    }
    read();
}

void client_connection::read() {
    stream_.async_read_some(buffer_.prepare(read_bytes),
                            [self = shared_from_this()](const error_code& failure, std::size_t bytes) {
                                if (!self->current_) return;
                                if (failure) return self->end_of_answer(failure);
                                self->has_begun_ = true;
                                self->buffer_.commit(bytes);
                                if (!self->parse()) self->read();
                            });
}

bool client_connection::parse() {
    while (buffer_.size() != 0) {
        error_code failure;
        const std::size_t used = parser_->put(buffer_.data(), failure);
        buffer_.consume(used);
        if (failure == http::error::need_more) failure = {};
        if (failure) {
            broken("a wrong answer from", failure);
            return true;
        }
        if (parser_->is_done() && parser_->get().result_int() / 100 == 1) {  // "Continue": the answer follows
            parser_.emplace();
            parser_->body_limit(pool_->options().answer_bytes);
            parser_->eager(true);
            continue;
        }
        if (parser_->is_done()) {
            finish();
            return true;
        }
        if (used == 0) break;
    }
    return false;
}

void client_connection::end_of_answer(const error_code& failure) {
    error_code its = failure;
    if (failure == asio::error::eof && parser_->got_some()) parser_->put_eof(its);
    if (failure == asio::error::eof && !its && parser_->is_done()) return finish();
    broken("the connection is broken to", failure);
}

void client_connection::finish() {
    auto& got = parser_->get();
    http_reply made;
    made.status = static_cast<int>(got.result_int());
    const std::string length(got["Inference-Header-Content-Length"]);
    std::size_t json_bytes = 0;
    const auto [end, wrong] = std::from_chars(length.data(), length.data() + length.size(), json_bytes);
    if (!length.empty() && wrong == std::errc() && end == length.data() + length.size()) made.json_bytes = json_bytes;
    const bool keeps = parser_->keep_alive() && buffer_.size() == 0;
    made.body = std::move(got.body());
    const std::shared_ptr<exchange> what = std::exchange(current_, nullptr);
    parser_.reset();
    if (buffer_.capacity() > kept_bytes) buffer_.shrink_to_fit();
    was_used_ = true;
    pool_->answered(shared_from_this(), keeps, what, std::move(made));
}

void client_connection::broken(const std::string& what, const error_code& why) {
    std::string text = why == asio::error::eof ? "the server has closed it" : why.message();
    if (stream_.has_tls() && !stream_.tls().why_broken().empty()) text = stream_.tls().why_broken();
    const bool may_repeat = was_used_ && !has_begun_ && !current_->was_repeated;
    const std::shared_ptr<exchange> mine = std::exchange(current_, nullptr);
    pool_->broken(
        shared_from_this(), may_repeat, mine,
        std::make_exception_ptr(error(errc::io_failed, what + " " + to_string(pool_->address()) + ": " + text)));
}

}  // namespace sluice::serve
