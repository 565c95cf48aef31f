// SPDX-License-Identifier: Apache-2.0
#include "serve/http/loop.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <boost/asio/write.hpp>
#include <boost/system/system_error.hpp>
#include <cerrno>
#include <cstdint>
#include <exception>
#include <future>
#include <utility>

#include "serve/http/connection.hpp"
#include "serve/http/reply.hpp"
#include "sluice/serve/served_model.hpp"

namespace sluice::serve {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

// How exact the times of slow clients are, and how soon it is noticed that a client has left.
constexpr std::chrono::milliseconds tick_time{50};
// At the end a connection without a request stays open for this time, so that a request that is on its way gets an
// answer (503) instead of a reset.
constexpr std::chrono::milliseconds quiet_time{500};
constexpr std::size_t most_looks = 100;  // for a connection that makes room; each asks the system

// A client above the limit learns it at once; whether the answer arrives is not waited for.
void refuse_connection(tcp::socket socket, connection_limits::refusal why, const std::string& date) {
    const bool is_of_client = why == connection_limits::refusal::too_many_of_client;
    reply made = is_of_client ? error_reply(429, "there are too many connections from this address")
                              : error_reply(503, "there are too many connections");
    made.retry = true;
    std::string text;
    append_head(text, made, false, date);
    text += made.body;
    boost::system::error_code ignored;
    socket.non_blocking(true, ignored);
    socket.write_some(asio::buffer(text), ignored);
    socket.shutdown(tcp::socket::shutdown_send, ignored);
}

}  // namespace

loop::loop(std::shared_ptr<front_state> state, tcp protocol, int bound)
    : state_(std::move(state)), reader_(state_->options.json_bytes), date_(http_date()) {
    acceptor_.assign(protocol, bound);
    event_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (event_ < 0) throw boost::system::system_error(errno, boost::system::system_category());
    try {
        has_answers_.assign(event_);
    } catch (...) {
        ::close(event_);
        throw;
    }
}

void loop::listen() {
    acceptor_.listen(4096);
    acceptor_.non_blocking(true);
}

void loop::start() {
    accept();
    wait_for_answers();
    tick();
    std::promise<void> has_id;
    thread_ = std::thread([this, ready = has_id.get_future()]() mutable {
        ready.wait();
        run();
    });
    id_ = thread_.get_id();
    has_id.set_value();
}

// An exception is std::bad_alloc: of Asio, or of what begins something on this thread. Each connection catches its own.
void loop::run() noexcept {
    while (true) {
        try {
            if (!ticks_ && !ends_) tick();
            if (!ticks_ && !ends_) {  // there is no memory for a timer
                io_.run_for(tick_time);
            } else {
                run_events();
                if (ends_) return;
            }
        } catch (const std::exception&) {
            note_failure("the server lacks memory");
        }
        if (io_.stopped()) io_.restart();
    }
}

// Sleeps only where nothing has happened for spin_time.
void loop::run_events() {
    const auto spin_time = state_->options.spin_time;
    if (spin_time.count() == 0) {
        io_.run();
        return;
    }
    clock::time_point sleeps_at = clock::now() + spin_time;
    while (!io_.stopped()) {
        std::size_t events = io_.poll();
        if (events == 0 && clock::now() >= sleeps_at) events = io_.run_one();
        if (events != 0) sleeps_at = clock::now() + spin_time;
    }
}

void loop::run_soon(std::shared_ptr<served_model> model) {
    asio::post(io_, [model = std::move(model)] { model->run_waiting(); });
}

void loop::send_soon(std::shared_ptr<connection> answered) noexcept {
    const std::shared_ptr<loop> self =
        weak_from_this().lock();  // the connection may be gone before the event is written
    hand_over<connection>::link& at = answered->answered();
    if (!answered_.push(at, std::move(answered))) return;
    const std::uint64_t one = 1;
    static_cast<void>(::write(event_, &one, sizeof(one)) == sizeof(one));  // it cannot be full
}

void loop::wait_for_answers() {
    has_answers_.async_read_some(asio::buffer(&events_, sizeof(events_)),
                                 [self = shared_from_this(), wait = in_flight(hears_)](
                                     const boost::system::error_code& failure, std::size_t) mutable {
                                     wait.is_over();
                                     if (failure || self->ends_) return;
                                     self->send_answers();
                                     self->wait_for_answers();  // where that fails, the next tick tries again
                                 });
}

void loop::send_answers() {
    answered_.take([](connection& each) { each.send_answer(); });
}

void loop::accept() {
    acceptor_.async_accept([self = shared_from_this(), wait = in_flight(accepts_)](
                               const boost::system::error_code& failure, tcp::socket socket) mutable {
        wait.is_over();
        if (failure || self->ends_) return;  // no descriptors are left, for instance: the next tick tries again
        self->take(std::move(socket));       // also where a drain has begun: its client may have sent a request
        if (self->acceptor_.is_open()) self->accept();  // where that fails, the next tick tries again
    });
}

void loop::take(tcp::socket socket) {
    boost::system::error_code failure;
    const tcp::endpoint from = socket.remote_endpoint(failure);
    if (failure) return;  // the client has gone
    std::shared_ptr<connection> made;
    try {
        using limits = connection_limits;
        limits::entry entry = state_->limits.enter(from.data());
        if (entry.why == limits::refusal::too_many && close_longest_idle()) entry = state_->limits.enter(from.data());
        const bool only_health = entry.why == limits::refusal::too_many;
        if (only_health) entry = state_->limits.enter(from.data(), state_->options.health_connections);
        if (!entry.its) {
            if (state_->certificates) return;  // nothing can be said before the handshake
            return refuse_connection(std::move(socket), entry.why, date_);
        }
        made = std::make_shared<connection>(shared_from_this(), std::move(socket), std::move(entry.its), only_health);
        made->turn() = idle_.insert(idle_.end(), made.get());
        connections_.emplace(made.get(), made);
    } catch (const std::exception&) {  // it closes without an answer: there is nothing that could send one
        if (made && made->turn()) idle_.erase(*made->turn());
        note_failure("the server lacks memory for a connection");
        return;
    }
    made->start();
}

// Who says nothing makes room for who may. A request that has arrived is not lost.
bool loop::close_longest_idle() noexcept {
    std::size_t looks = 0;
    for (connection* const each : idle_) {
        if (looks++ == most_looks) return false;
        if (each->has_input()) continue;
        const std::shared_ptr<connection> longest = connections_.find(each)->second;  // which leaves the lists
        longest->close();
        return true;
    }
    return false;
}

void loop::note_idle(connection& its) noexcept {
    idle_.splice(idle_.end(), its.is_listed_as_busy() ? busy_ : idle_, *its.turn());
}
void loop::note_busy(connection& its) noexcept { busy_.splice(busy_.end(), idle_, *its.turn()); }

void loop::forget(const connection& closed) noexcept {
    const auto found = connections_.find(&closed);
    if (found == connections_.end()) return;
    (closed.is_listed_as_busy() ? busy_ : idle_).erase(*found->second->turn());
    connections_.erase(found);
}

void loop::note_failure(std::string_view why) noexcept {
    ++failures_;
    try {
        last_failure_ = why;
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): the one before is logged instead
    }
}

void loop::log_failures() {
    if (failures_ == 0 || now_ - logged_ < std::chrono::seconds(1)) return;
    logged_ = now_;
    const std::size_t count = std::exchange(failures_, 0);
    if (!state_->log) return;
    state_->log({log_level::error,
                 "request_failed",
                 std::to_string(count) + " requests have failed, the last one: " + last_failure_,
                 {}});
}

void loop::tick() noexcept {
    now_ = clock::now();
    if (has_to_end_) return close_all();
    try {
        look();
    } catch (const std::exception&) {
        note_failure("the server lacks memory");  // the next tick does the rest
    }
    try {
        wait_for_tick();
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): run() does it
    }
}

void loop::look() {
    date_ = http_date();
    log_failures();
    send_answers();  // those of which it has not heard, where there was no memory
    look_for_clients();
    close_idle(false);
    if (!hears_) wait_for_answers();
    if (!pieces_.is_empty() && !runs_) run_pieces_soon();
    if (acceptor_.is_open() && !accepts_) accept();
    if (state_->certificates && state_->certificates->is_due(now_))
        asio::post(state_->loading, [state = state_] { state->certificates->look(); });
    if (state_->is_draining) {
        if (drain_began_ == clock::time_point{}) drain_began_ = now_;
        if (acceptor_.is_open()) accept_waiting();
        if (now_ - drain_began_ >= quiet_time) close_idle(true);
        is_empty_ = connections_.empty() && !accepts_;
    }
}

void loop::wait_for_tick() {
    timer_.expires_after(tick_time);
    timer_.async_wait(
        [self = shared_from_this(), wait = in_flight(ticks_)](const boost::system::error_code& failure) mutable {
            if (failure) return;  // another wait has begun
            wait.is_over();
            if (!self->ends_) self->tick();
        });
}

// A turn is what happens until all that is ready now has happened.
piece_queue& loop::pieces() {
    if (!runs_) run_pieces_soon();
    return pieces_;
}

void loop::run_pieces_soon() {
    asio::post(io_, [self = shared_from_this(), wait = in_flight(runs_)]() mutable {
        wait.is_over();
        self->pieces_.run_some();
        if (!self->pieces_.is_empty() && !self->runs_) self->run_pieces_soon();  // where that fails, the next tick
    });
}

// Connections that the system has accepted for us are not reset: their requests get an answer.
void loop::accept_waiting() {
    boost::system::error_code failure;
    while (true) {
        tcp::socket socket(io_);
        acceptor_.accept(socket, failure);
        if (failure) break;
        take(std::move(socket));
    }
    acceptor_.close(failure);
}

void loop::look_for_clients() {
    for (auto next = connections_.begin(); next != connections_.end();) {
        const std::shared_ptr<connection> each = (next++)->second;  // which may leave the map
        each->look_for_client();
        each->end_hold(now_);
    }
}

void loop::close_idle(bool also_fresh) {
    for (auto next = connections_.begin(); next != connections_.end();) {
        const std::shared_ptr<connection> each = (next++)->second;  // which leaves the map where it closes
        if (each->is_late(now_) || (also_fresh && each->is_idle())) each->give_up();
    }
}

void loop::begin_drain() noexcept {
    try {
        post([self = shared_from_this()] {
            if (!self->ends_) self->look();
        });
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): the next tick sees that the front end drains
    }
}

// NOLINTNEXTLINE(bugprone-exception-escape): cancel() throws what Asio's queue of timers reports, which is nothing
void loop::close_all() noexcept {
    if (std::exchange(ends_, true)) return;  // the handler of a timer that has expired may be queued after this
    boost::system::error_code ignored;
    acceptor_.close(ignored);
    has_answers_.cancel(ignored);
    timer_.cancel();
    while (!connections_.empty()) {
        const std::shared_ptr<connection> each = connections_.begin()->second;
        if (each->has_request()) ++cut_;
        each->close();
    }
    pieces_.clear();
    has_closed_ = true;
    has_closed_.notify_all();
}

std::size_t loop::end() noexcept {
    has_to_end_ = true;
    try {
        asio::post(io_, [this] { close_all(); });
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): the next tick does it
    }
    has_closed_.wait(false);
    {
        const std::lock_guard lock(end_mutex_);
        has_ended_ = true;
    }
    thread_.join();  // nothing is in flight any more
    answered_.close();
    return cut_;
}

}  // namespace sluice::serve
