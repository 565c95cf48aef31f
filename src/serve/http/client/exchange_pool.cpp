// SPDX-License-Identifier: Apache-2.0
#include "serve/http/client/exchange_pool.hpp"

#include <boost/asio/post.hpp>
#include <exception>
#include <utility>

#include "serve/http/client/client_connection.hpp"
#include "sluice/base/error.hpp"

namespace sluice::serve {
namespace {

std::exception_ptr has_ended() {
    return std::make_exception_ptr(error(errc::canceled, "the client has ended before the answer came"));
}

}  // namespace

exchange_pool::exchange_pool(server_address to, client_options options)
    : address_(std::move(to)), options_(std::move(options)) {
    if (options_.connections == 0) throw error(errc::invalid_argument, "a client needs a connection");
    const bool names_files = !options_.ca.empty() || !options_.certificate.empty() || !options_.key.empty();
    if (address_.has_tls)
        tls_ = tls_context::of_client(options_.ca, options_.certificate, options_.key);
    else if (names_files)
        throw error(errc::invalid_argument, "certificates are for https://, and the server is named without it");
}

void exchange_pool::run() {
    thread_ = std::thread([self = shared_from_this()] { self->io_.run(); });
}

void exchange_pool::start(std::shared_ptr<exchange> what) {
    {
        const std::lock_guard lock(end_mutex_);
        if (!has_stopped_) {
            boost::asio::post(io_, [self = shared_from_this(), what = std::move(what)] { self->begin(what); });
            return;
        }
    }
    std::exchange(what->done, nullptr)(has_ended(), {});
}

void exchange_pool::stop() {
    {
        const std::lock_guard lock(end_mutex_);
        has_stopped_ = true;
        boost::asio::post(io_, [self = shared_from_this()] { self->end_all(); });
    }
    if (thread_.get_id() == std::this_thread::get_id())
        thread_.detach();  // it owns the pool, and ends after this call
    else
        thread_.join();
}

void exchange_pool::begin(const std::shared_ptr<exchange>& what) {
    running_.insert(what);
    what->timer.expires_at(what->deadline);
    what->timer.async_wait([self = shared_from_this(), what](const boost::system::error_code& failure) {
        if (!failure) self->is_late(what);
    });
    place(what, false);
}

void exchange_pool::place(const std::shared_ptr<exchange>& what, bool needs_new) {
    if (!needs_new && !idle_.empty()) {
        const auto by = std::move(idle_.back());
        idle_.pop_back();
        return by->run(what);
    }
    if (connections_.size() >= options_.connections) return waiting_.push_back(what);
    const auto made = std::make_shared<client_connection>(shared_from_this());
    connections_.insert(made);
    made->run(what);
}

void exchange_pool::release(const std::shared_ptr<client_connection>& by, bool keeps) {
    if (!keeps) {
        by->close();
        connections_.erase(by);
    }
    if (waiting_.empty()) {
        if (keeps) idle_.push_back(by);
        return;
    }
    const std::shared_ptr<exchange> next = std::move(waiting_.front());
    waiting_.pop_front();
    keeps ? by->run(next) : place(next, true);
}

void exchange_pool::answered(const std::shared_ptr<client_connection>& by, bool keeps,
                             const std::shared_ptr<exchange>& what, http_reply reply) {
    release(by, keeps);
    end(what, nullptr, std::move(reply));
}

void exchange_pool::broken(const std::shared_ptr<client_connection>& by, bool may_repeat,
                           const std::shared_ptr<exchange>& what, std::exception_ptr why) {
    if (may_repeat) {
        what->was_repeated = true;
        waiting_.push_front(what);  // for the connection whose place becomes free now
    }
    release(by, false);
    if (!may_repeat) end(what, std::move(why));
}

void exchange_pool::is_late(const std::shared_ptr<exchange>& what) {
    if (!what->done) return;
    std::erase(waiting_, what);
    if (const auto by = what->at.lock()) release(by, false);
    end(what, std::make_exception_ptr(error(errc::timed_out, "no answer of " + to_string(address_) + " came in time")));
}

// Last: the coroutine that waits continues here.
void exchange_pool::end(const std::shared_ptr<exchange>& what, std::exception_ptr why, http_reply reply) {
    running_.erase(what);
    what->timer.cancel();
    what->at.reset();
    if (const auto done = std::exchange(what->done, nullptr)) done(std::move(why), std::move(reply));
}

void exchange_pool::end_all() {
    waiting_.clear();
    for (const auto& each : connections_) each->close();
    connections_.clear();
    idle_.clear();
    while (!running_.empty()) {
        const std::shared_ptr<exchange> each = *running_.begin();
        end(each, has_ended());
    }
    work_.reset();
}

}  // namespace sluice::serve
