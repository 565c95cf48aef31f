// SPDX-License-Identifier: Apache-2.0
#include "sluice/serve/client.hpp"

#include <coroutine>
#include <exception>
#include <utility>

#include "serve/http/client/exchange_pool.hpp"
#include "serve/http/client/infer_message.hpp"
#include "sluice/base/error.hpp"
#include "sluice/base/printable.hpp"

namespace sluice::serve {

class client::implementation {
public:
    implementation(std::string_view server, client_options options)
        : pool_(std::make_shared<exchange_pool>(parse_server_address(server), std::move(options))) {
        pool_->run();
    }
    implementation(const implementation&) = delete;
    implementation& operator=(const implementation&) = delete;
    ~implementation() { pool_->stop(); }

    const std::shared_ptr<exchange_pool>& pool() const noexcept { return pool_; }

private:
    std::shared_ptr<exchange_pool> pool_;
};

namespace {

// One request, awaited.
class reply_wait {
public:
    reply_wait(std::shared_ptr<exchange_pool> pool, std::string head, std::string body, std::chrono::milliseconds time)
        : pool_(std::move(pool)), head_(std::move(head)), body_(std::move(body)), time_(time) {}

    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> waiter) {
        const std::shared_ptr<exchange_pool> pool = pool_;  // this may end before start() returns
        pool->start(std::make_shared<exchange>(pool->context(), std::move(head_), std::move(body_),
                                               std::chrono::steady_clock::now() + time_,
                                               [this, waiter](std::exception_ptr failure, http_reply reply) {
                                                   failure_ = std::move(failure);
                                                   reply_ = std::move(reply);
                                                   waiter.resume();
                                               }));
    }
    http_reply await_resume() {
        if (failure_) std::rethrow_exception(failure_);
        return std::move(reply_);
    }

private:
    std::shared_ptr<exchange_pool> pool_;
    std::string head_, body_;
    std::chrono::milliseconds time_;
    std::exception_ptr failure_;
    http_reply reply_;
};

std::string head_of(const exchange_pool& pool, std::string_view method, const std::string& path) {
    std::string head = std::string(method) + " " + path + " HTTP/1.1\r\nHost: " + to_string(pool.address()) + "\r\n";
    if (!pool.options().token.empty()) head += "Authorization: Bearer " + pool.options().token + "\r\n";
    return head;
}

void require_token(const std::string& token) {
    for (const char each : token)
        if (each <= ' ' || each == 127)
            throw error(errc::invalid_argument, "a token has no spaces and no control characters");
}

void require_deadline(std::chrono::milliseconds deadline) {
    if (deadline <= deadline.zero() || deadline > std::chrono::hours(1))
        throw error(errc::invalid_argument, "a deadline is above 0 and at most an hour");
}

task<infer_answer> ask(std::shared_ptr<exchange_pool> pool, infer_request request) {
    require_deadline(request.deadline);
    infer_message message = write_infer_request(request);
    std::string head = head_of(*pool, "POST", message.path) +
                       "Content-Type: application/octet-stream\r\nInference-Header-Content-Length: " +
                       std::to_string(message.json_bytes) +
                       "\r\nContent-Length: " + std::to_string(message.body.size()) + "\r\n\r\n";
    reply_wait wait(std::move(pool), std::move(head), std::move(message.body), request.deadline);
    const http_reply got = co_await wait;
    if (got.status != 200) throw refusal_of_reply(got.status, got.body);
    co_return read_infer_answer(got.body, got.json_bytes);
}

task<bool> ask_ready(std::shared_ptr<exchange_pool> pool, std::chrono::milliseconds deadline) {
    require_deadline(deadline);
    std::string head = head_of(*pool, "GET", "/v2/health/ready") + "\r\n";
    reply_wait wait(std::move(pool), std::move(head), {}, deadline);
    try {
        const http_reply got = co_await wait;
        co_return got.status == 200;
    } catch (const error&) {
        co_return false;
    }
}

}  // namespace

client::client(std::string_view server, client_options options) {
    require_token(options.token);
    made_ = std::make_shared<implementation>(server, std::move(options));
}
client::~client() = default;

task<infer_answer> client::infer(infer_request request) { return ask(made_->pool(), std::move(request)); }
task<bool> client::is_ready(std::chrono::milliseconds deadline) { return ask_ready(made_->pool(), deadline); }

}  // namespace sluice::serve
