// SPDX-License-Identifier: Apache-2.0
#include "serve/http/connection.hpp"

#include <poll.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/error.hpp>
#include <utility>
#include <vector>

#include "serve/front_clients.hpp"
#include "serve/http/endpoints.hpp"
#include "serve/http/header_check.hpp"
#include "serve/http/infer_answer.hpp"
#include "serve/request_checks.hpp"
#include "sluice/base/printable.hpp"
#include "sluice/serve/request_timeline.hpp"

namespace sluice::serve {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;

constexpr std::size_t read_bytes = 16 << 10;
constexpr std::size_t long_read_bytes = 64 << 10;  // of a long body
constexpr std::size_t kept_bytes = 1 << 20;        // of one buffer, between requests, where memory is free
constexpr std::size_t own_bytes = 4 * read_bytes;  // of a buffer: each connection has them, and they do not count
// Of a chunked body: the lines of its chunks may have this many bytes for each of the body, and in addition as many as
// a header.
constexpr std::size_t framing_of_a_byte = 16;
// Of an answer: a client that takes fewer in write_time for long is closed, though there is progress.
constexpr std::size_t least_written_bytes = 1 << 20;
constexpr std::chrono::milliseconds linger_time{2000};
constexpr std::chrono::milliseconds hold_margin{200};  // who has sent by then, before the end of a hold, has not waited
constexpr int most_doublings = 3;                      // of Retry-After, which is a second at first
constexpr int most_steps = 16;                         // requests of one connection before others have their turn
constexpr int client_has_left = 499;                   // counted, never sent
constexpr std::string_view go_on = "HTTP/1.1 100 Continue\r\n\r\n";
constexpr std::string_view no_memory =
    "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: 53\r\n"
    "Retry-After: 1\r\nConnection: close\r\n\r\n"
    R"({"error":"there is not enough memory for a request"})"
    "\n";

std::string text_of(message_fault fault) {
    switch (fault) {
        case message_fault::field_twice: return "a field of the header that must be there once is there twice";
        case message_fault::no_host: return "a request of HTTP/1.1 needs the field Host";
        case message_fault::bad_length: return "Content-Length is no number of bytes";
        case message_fault::transfer_coding: return "of transfer codings, only chunked is supported";
        case message_fault::bad_json_length: return "Inference-Header-Content-Length is no number of bytes";
        case message_fault::too_many_fields: return "the header has more than 100 fields";
        case message_fault::body_too_long: return "the body is too long";
        case message_fault::no_memory: return "the memory for requests is in use";
        case message_fault::none: break;
    }
    return {};
}

bool is_about_health(endpoint to) {
    return to == endpoint::server_live || to == endpoint::server_ready || to == endpoint::model_ready;
}

// A body may repeat the name that the path has.
void require_same_model(const infer_body& request, const route& to) {
    if (!request.model_name || *request.model_name == to.model) return;
    throw refusal(refusal_kind::bad_request, "the body is for the model " + in_quotes(*request.model_name) +
                                                 ", the path for " + in_quotes(to.model));
}

}  // namespace

connection::connection(std::shared_ptr<loop> on, tcp::socket socket, std::shared_ptr<connection_limits::place> place,
                       bool only_health)
    : loop_(std::move(on)),
      stream_(std::move(socket)),
      body_share_(loop_->state().budget),
      answer_share_(loop_->state().budget),
      place_(std::move(place)),
      only_health_(only_health) {}

void connection::expire_after(std::chrono::milliseconds time) { time_limit_ = loop::clock::now() + time; }

// Runs `step`, which is all that happens on the loop's thread for one event.
template <typename Step>
void connection::guard(const Step& step) noexcept {
    try {
        step();
    } catch (const std::exception&) {
        lacks_memory();
    }
}

// Nothing here needs memory but the wait for the client's end.
void connection::lacks_memory() noexcept {
    is_stepping_ = false;
    loop_->note_failure("the server lacks memory for a connection");
    const bool can_answer = (phase_ == phase::reading || phase_ == phase::computing) && !is_shaking_hands_;
    if (!can_answer) return close();
    reply_ = {};
    reply_.status = 503;
    note_answer();
    forget_request();
    ++loop_->state().replies[503];
    error_code failure;
    const std::size_t written = stream_.write_some({asio::buffer(no_memory), asio::const_buffer()}, failure);
    if (failure || written != no_memory.size()) return close();
    try {
        stream_.socket().cancel(failure);  // a read that has begun
        linger();
    } catch (const std::exception&) {
        close();
    }
}

void connection::start() noexcept {
    guard([this] { begin(); });
}

void connection::begin() {
    error_code failure;
    stream_.socket().non_blocking(true, failure);
    if (!failure) stream_.socket().set_option(tcp::no_delay(true), failure);
    if (failure) return close();
    begin_request();
    if (loop_->state().certificates) return shake_hands();
    read_more();
}

void connection::shake_hands() {
    const auto context = loop_->state().certificates->context();
    std::unique_ptr<tls_session> session = context->session(stream_.socket().native_handle());
    if (session == nullptr) return close();
    stream_.begin_tls(std::move(session));
    expire_after(loop_->state().options.header_time);
    is_shaking_hands_ = true;
    stream_.async_handshake([self = shared_from_this()](const error_code& failure) {
        self->guard([&] {
            if (self->phase_ != phase::reading) return;
            if (failure) return self->hands_failed();
            self->is_shaking_hands_ = false;
            self->begin_request();
            self->read_more();
        });
    });
}

void connection::hands_failed() {
    ++loop_->state().failed_handshakes;
    const bool is_plain = stream_.tls().is_plain_http();
    stream_.leave_tls();
    if (is_plain)
        return send(error_reply(400, "this port speaks HTTPS only: use a URL that begins with https://"), true);
    linger();  // the alert that says why arrives before the end
}

void connection::begin_request() {
    phase_ = phase::reading;
    loop_->note_idle(*this);
    is_listed_as_busy_ = false;
    has_begun_ = is_accepted_ = closes_ = has_asked_ = false;
    so_far = {};
    complete_at_ = {};
    route_ = {};
    client_ = nullptr;
    body_share_.count_for(loop_->state().budget);  // what stays between requests is no client's
    answer_share_.count_for(loop_->state().budget);
    framing_ = 0;
    place_->count_for({});  // the next request may be another client's
    message_.clear();
    forget_request();
    if (buffer_.size() == 0 && buffer_.capacity() > 2 * read_bytes) buffer_ = {};  // no read is running
    parser_.emplace(message_, loop_->state().options.header_bytes, loop_->state().options.body_bytes, body_share_);
    // Coarse: for each request the clock is not read.
    time_limit_ = loop_->now() + loop_->state().options.idle_time;
}

const std::shared_ptr<request_budget>& connection::budget() const noexcept {
    return client_ != nullptr ? client_->budget() : loop_->state().budget;
}

// Requests come before what may be faster for the next one.
bool connection::may_keep_memory() const noexcept {
    const request_budget& all = *budget();
    return all.bytes() <= all.most_bytes() / 2;
}

// What only the model needs of a request: there is an answer, or there will be none. Some of its memory stays for the
// next one.
void connection::forget_request() noexcept {
    model_.reset();
    inputs.clear();
    request_.clear();
    keep_body(may_keep_memory() ? kept_bytes : own_bytes);
}

void connection::keep_body(std::size_t bytes) noexcept {
    message_.clear_body(bytes);
    body_share_.hold_existing(message_.body.capacity() > own_bytes ? message_.body.capacity() : 0);
}

void connection::drop_kept() noexcept {
    keep_body(own_bytes);
    if (spare_.capacity() > own_bytes) std::string().swap(spare_);
    answer_share_.give_all();
}

void connection::keep_answer() noexcept {
    const std::size_t its = reply_.body.capacity();
    const bool keeps = its <= own_bytes || (its <= kept_bytes && may_keep_memory());
    if (keeps)
        spare_ = std::move(reply_.body);
    else
        std::string().swap(reply_.body);
    answer_share_.hold_existing(keeps && its > own_bytes ? its : 0);
}

void connection::close() noexcept {
    if (std::exchange(phase_, phase::closed) == phase::closed) return;
    has_left_ = true;  // a run for it ends between two steps
    stream_.close();
    unpacker_.reset();
    place_.reset();
    for (budget_share* const each : {&body_share_, &answer_share_}) each->give_all();
    loop_->forget(*this);
}

void connection::give_up() noexcept {
    const bool is_slow = phase_ == phase::reading && has_begun_;
    if (!is_slow) return close();
    guard([this] {
        error_code ignored;
        stream_.socket().cancel(ignored);  // the read
        send(error_reply(408, "the request did not arrive in time"), true);
    });
}

void connection::read_more() {
    const bool is_long = is_accepted_ && message_.body.size() > read_bytes;
    const auto into = buffer_.prepare(is_long ? long_read_bytes : read_bytes);
    stream_.async_read_some(into, [self = shared_from_this()](const error_code& failure, std::size_t bytes) {
        self->guard([&] {
            if (self->phase_ != phase::reading) return;
            if (failure == asio::error::eof) return self->end_of_input();
            if (failure) return self->close();
            self->buffer_.commit(bytes);
            self->step();
        });
    });
}

// The client will send no more, but may read.
void connection::end_of_input() {
    if (!has_begun_) return close();
    send(error_reply(400, "the request ends before it is complete"), true);
}

void connection::step() {
    is_stepping_ = true;
    int steps = 0;
    while (phase_ == phase::reading && buffer_.size() != 0 && steps++ < most_steps && parse()) handle();
    is_stepping_ = false;
    if (phase_ != phase::reading) return;
    const bool has_next = !has_begun_ && buffer_.size() != 0;  // after a refusal
    if (steps > most_steps || has_next) return step_soon();
    read_more();
}

void connection::step_soon() {
    asio::post(stream_.socket().get_executor(), [self = shared_from_this()] {
        self->guard([&] {
            if (self->phase_ == phase::reading) self->step();
        });
    });
}

// True: the request is complete.
bool connection::parse() {
    if (!std::exchange(has_begun_, true)) {
        loop_->note_busy(*this);
        is_listed_as_busy_ = true;
        received_at_ = loop::clock::now();
        time_limit_ = received_at_ + loop_->state().options.header_time;
    }
    while (true) {
        error_code failure;
        const std::size_t body_before = message_.body.size();
        const bool is_in_body = is_accepted_;
        const std::size_t used = parser_->put(buffer_.data(), failure);
        buffer_.consume(used);
        if (failure == http::error::need_more) failure = {};
        if (failure) {
            refuse_message(failure);
            return false;
        }
        if (parser_->is_header_done() && !is_accepted_ && !accept_header()) return false;
        if (is_in_body) {
            framing_ += used - (message_.body.size() - body_before);
            if (has_long_framing()) {
                send(error_reply(431, "the lines of the chunks and the trailer are too long for this body"), true);
                return false;
            }
        }
        if (parser_->is_done()) return true;
        if (used == 0 || buffer_.size() == 0) return false;
    }
}

// Beast waits for the end of a chunk's line, and of a trailer, however long they are. What it has not used of a body is
// a part of one of them, which is no longer than a header, however long the body is: it counts for no budget.
bool connection::has_long_framing() const noexcept {
    const std::size_t waiting = parser_->is_done() ? 0 : buffer_.size(), most = loop_->state().options.header_bytes;
    return waiting > most || framing_ + waiting > most + framing_of_a_byte * message_.body.size();
}

void connection::refuse_message(const error_code& failure) {
    const message_fault fault = parser_->fault();
    if (fault == message_fault::no_memory) {
        reply made = error_reply(503, text_of(fault));
        made.retry = true;
        return send(std::move(made), true);
    }
    int status = 400;
    if (failure == http::error::header_limit || fault == message_fault::too_many_fields) status = 431;
    if (fault == message_fault::body_too_long) status = 413;
    const std::string why = fault == message_fault::none ? failure.message() : text_of(fault);
    send(error_reply(status, "this is no request of HTTP/1.1 that is accepted: " + why), true);
}

// False: the request is refused by its header.
bool connection::accept_header() {
    route_ = find_route(message_.target);
    std::optional<std::uint64_t> length;
    if (const auto its = parser_->content_length()) length = *its;
    const front_state& state = loop_->state();
    if (state.options.clients) client_ = state.options.clients->find(message_.authorization);
    if (std::optional<reply> refused = header_refusal(message_, route_, length, state, client_)) {
        send(std::move(*refused), !parser_->is_done());  // what follows of the body is not read
        return false;
    }
    if (only_health_ && !is_about_health(route_.to)) {
        reply made =
            error_reply(503, "there are too many connections; this one is for requests for the server's health");
        made.retry = true;
        send(std::move(made), true);
        return false;
    }
    if (!is_about_health(route_.to) && !place_->count_for(message_.forwarded_for)) {
        reply made = error_reply(429, "too many requests come from one address");
        made.retry = true;
        send(std::move(made), !parser_->is_done());
        return false;
    }
    if (budget() != state.budget) {  // what the connection has kept is no part of this request
        drop_kept();
        body_share_.count_for(budget());
        answer_share_.count_for(budget());
    }
    if (length && *length > budget()->most_bytes()) {
        send(error_reply(413, "the body has " + std::to_string(*length) +
                                  " bytes; all requests of this client may have " +
                                  std::to_string(budget()->most_bytes()) + " at a time"),
             true);
        return false;
    }
    is_accepted_ = true;
    parser_->eager(true);
    if (parser_->is_done()) return true;
    expire_after(loop_->state().options.body_time);
    // Memory is taken as the body arrives; what cannot have room now need not be sent.
    const std::uint64_t more = length.value_or(0) - std::min<std::uint64_t>(length.value_or(0), body_share_.bytes());
    if (!budget()->has_room(more)) {
        reply made = error_reply(503, text_of(message_fault::no_memory));
        made.retry = true;
        send(std::move(made), true);
        return false;
    }
    if (message_.expects_continue && parser_->is_1_1() && buffer_.size() == 0) {
        stream_.write_interim(go_on);  // a client that does not get it sends the body anyway, later
    }
    return true;
}

void connection::handle() {
    phase_ = phase::computing;
    time_limit_ = loop::clock::time_point::max();
    read_trace();
    try_request([this] {
        if (message_.coding == content_coding::identity) return handle_body();
        begin_unpacking();
    });
}

// Answers with what `step` throws.
template <typename Step>
void connection::try_request(const Step& step) {
    try {
        step();
    } catch (const std::exception& failure) {
        unpacker_.reset();
        send(reply_of_failure(failure));
    }
}

// A long body takes many pieces; the loop's other connections have their turns between them. Where many come, the first
// piece waits too.
void connection::begin_unpacking() {
    const auto charge = [this](std::size_t more) {
        if (!body_share_.hold(body_share_.bytes() + more)) throw refusal::for_now("the memory for requests is in use");
    };
    charge(body_unpacker::state_bytes);
    unpacker_.emplace(message_.body, message_.coding, loop_->state().options.body_bytes, charge);
    piece_queue& pieces = loop_->pieces();
    if (pieces.has_room()) {
        const piece_queue::done first = unpack_body();
        pieces.count(first.bytes);
        if (first.is_last) return;
    }
    pieces.add([self = shared_from_this()] {
        piece_queue::done its;
        self->guard([&] {
            if (self->phase_ == phase::computing) self->try_request([&] { its = self->unpack_body(); });
        });
        return its;
    });
}

// Both bodies are there until the last piece, so both count.
piece_queue::done connection::unpack_body() {
    if (has_left_) throw refusal(refusal_kind::cancelled, "the client has left");
    const bool is_whole = unpacker_->step();
    const std::size_t bytes = unpacker_->step_bytes();
    if (!is_whole) return {.is_last = false, .bytes = bytes};
    message_.body = unpacker_->take();
    unpacker_.reset();
    body_share_.hold_existing(message_.body.capacity());
    handle_body();
    return {.is_last = true, .bytes = bytes};
}

// The request and all of its body are there.
void connection::handle_body() {
    switch (route_.to) {
        case endpoint::infer: return handle_infer();
        case endpoint::repository_load:
        case endpoint::repository_unload: return handle_load();
        case endpoint::timeline:
        case endpoint::timeline_picture: return handle_timeline();
        case endpoint::metrics:
        case endpoint::all_statistics:
        case endpoint::repository_index: return handle_listing();
        case endpoint::model_metadata:
        case endpoint::model_configuration:
            if (loop_->state().models.load_for_request(route_.model, when_loaded())) return;
            [[fallthrough]];
        default: return send(answer_of(route_, message_.body, loop_->state()));
    }
}

// Where models are loaded on demand: the request continues here when the load of its model has ended, well or not.
std::function<void()> connection::when_loaded() {
    if (!loop_->state().models.loads_on_demand()) return {};
    return [self = shared_from_this()] {
        try {
            self->loop_->post([self] {
                self->guard([&] {
                    if (self->phase_ != phase::computing) return;
                    self->try_request([&] {
                        if (self->has_left_) throw refusal(refusal_kind::cancelled, "the client has left");
                        self->handle_body();
                    });
                });
            });
        } catch (const std::exception& failure) {
            self->deliver(reply_of_failure(failure));
        }
    };
}

void connection::handle_infer() {
    // Where the model is replaced meanwhile, the request is read again for its successor.
    while (true) {
        model_ = loop_->state().models.find_for_request(route_.model, route_.version, when_loaded());
        if (!model_) return;
        if (message_.body.size() > most_read_of_refused) model_->require_room(*this);
        loop_->reader().read(message_.body, message_.json_bytes, model_->network().inputs(),
                             model_->network().outputs(), model_->network().texts(), request_,
                             {loop_->state().options.shared_memory, budget()}, model_->state());
        require_same_model(request_, route_);
        inputs.swap(request_.inputs);
        timeout = request_.timeout;
        priority = request_.priority;
        sequence = request_.sequence;
        if (sequence) {
            if (!route_.version) loop_->state().models.require_version(route_.model);
            sequence->budget = budget();
            sequence->id.client = client_ != nullptr ? client_->number() : 0;
            if (client_ != nullptr) sequence->client = client_->name();
        }
        if (model_->submit(shared_from_this(), loop_.get())) return;
        inputs.swap(request_.inputs);
    }
}

// A reset says that the client has gone. The end of its input does not: it may have closed, or still wait for the
// answer.
void connection::look_for_client() {
    if (phase_ != phase::computing || has_left_) return;
    pollfd look{stream_.socket().native_handle(), POLLRDHUP, 0};
    if (::poll(&look, 1, 0) <= 0) return;
    if ((look.revents & (POLLERR | POLLHUP)) != 0)
        has_left_ = true;
    else if ((look.revents & POLLRDHUP) != 0 && !has_asked_)
        ask_for_client();
}

// The system of a client that has closed answers any byte with a reset. A client that waits passes over "Continue", as
// HTTP/1.1 asks of it.
void connection::ask_for_client() {
    has_asked_ = true;
    if (!parser_->is_1_1()) return;
    if (!stream_.write_interim(go_on)) has_left_ = true;
}

void connection::handle_load() {
    front_state& state = loop_->state();
    if (!state.options.repository_control)
        throw refusal(refusal_kind::forbidden, "this server does not let clients load and unload models");
    const bool loads = route_.to == endpoint::repository_load;
    require_change_body(message_.body, loads);
    std::string who = client_words();
    if (!state.budget->begin_load())
        throw refusal(refusal_kind::queue_full, "too many loads wait", state.budget->loads());
    const auto load = [self = shared_from_this(), loads, who = std::move(who)] {
        reply made;
        front_state& its = self->loop_->state();
        try {
            if (loads)
                its.models.load(self->route_.model);
            else
                its.models.unload(self->route_.model);
            made.body = "{}";
            log_change(its.log, who, self->route_.model, loads, {});
        } catch (const std::exception& failure) {
            made = reply_of_failure(failure);
            log_change(its.log, who, self->route_.model, loads, failure.what());
        }
        self->loop_->state().budget->end_load();
        self->deliver(std::move(made));
    };
    try {
        asio::post(state.loading, load);
    } catch (const std::exception&) {
        state.budget->end_load();
        throw;
    }
}

std::string connection::client_words() {
    error_code failure;
    const auto peer = stream_.socket().remote_endpoint(failure);
    std::string words = words_of(client_);
    if (!failure) words += " at " + peer.address().to_string();
    if (place_->is_proxy() && !message_.forwarded_for.empty())
        words += ", a proxy, for " + in_quotes(message_.forwarded_for);
    return words;
}

void connection::handle_timeline() {
    asio::post(loop_->state().drawing, [self = shared_from_this()] {
        reply made;
        try {
            const std::vector<request_record> last = self->loop_->state().models.timeline().last();
            const bool is_picture = self->route_.to == endpoint::timeline_picture;
            made.body = is_picture ? picture_of(last) : chrome_trace_of(last);
            if (is_picture) made.content_type = "image/svg+xml";
            made.is_page = is_picture;
        } catch (const std::exception& failure) {
            made = reply_of_failure(failure);
        }
        self->deliver(std::move(made));
    });
}

// What grows with the number of models, or asks the system about each: the loop answers others meanwhile.
void connection::handle_listing() {
    asio::post(loop_->state().drawing, [self = shared_from_this()] {
        reply made;
        try {
            made = answer_of(self->route_, self->message_.body, self->loop_->state());
        } catch (const std::exception& failure) {
            made = reply_of_failure(failure);
        }
        self->deliver(std::move(made));
    });
}

void connection::make_answer(std::span<const tensor_view> outputs) {
    reply& made = made_.emplace();
    made.body = std::move(spare_);
    made.json_bytes = write_infer_answer(made.body, *model_, request_, outputs);
    if (made.json_bytes) made.content_type = "application/octet-stream";
}

bool connection::answer(std::span<const tensor_view> outputs) noexcept {
    bool is_answer = true;
    try {
        if (!made_) make_answer(outputs);
    } catch (const std::exception& failure) {
        made_ = reply_of_failure(failure);
        is_answer = false;
    }
    deliver(*std::exchange(made_, std::nullopt));
    return is_answer;
}

void connection::refuse(const refusal& why) noexcept {
    made_.reset();
    deliver(reply_of_failure(why));
}

// On any thread. On the loop's, nothing but the sending happens here: the model that calls must not be called.
void connection::deliver(reply made) noexcept {
    if (loop_->is_this_thread()) {
        guard([&] { send(std::move(made)); });
        return;
    }
    reply_ = std::move(made);
    loop_->send_soon(shared_from_this());
}

void connection::send_answer() noexcept {
    guard([this] { send(std::move(reply_)); });
}

void connection::send(reply made, bool must_close) {
    if (phase_ == phase::closed) return;
    if (made.lacks_memory) return lacks_memory();
    reply_ = std::move(made);
    closes_ = must_close || only_health_ || !parser_->keeps_connection() || loop_->state().is_draining;
    note_refusal();
    head_.clear();
    append_head(head_, reply_, !closes_, loop_->date());  // before it counts, since it may lack memory
    if (has_left_) reply_.status = client_has_left;
    if (reply_.status == 500) loop_->note_failure(printable(reply_.body, 500));
    note_answer();
    forget_request();  // before the answer is written, which may take long
    ++loop_->state().replies[static_cast<std::size_t>(reply_.status)];
    if (has_left_) return close();
    if (message_.method == http::verb::head) {
        reply_.body.clear();
    }
    phase_ = phase::writing;
    send_now();
}

// A value that is wrong is ignored, as W3C Trace Context asks: the request begins a trace of its own.
void connection::read_trace() {
    front_state& state = loop_->state();
    caller_.reset();
    if (message_.traceparents == 1) caller_ = parse_traceparent(message_.traceparent);
    if (message_.traceparents != 0 && !caller_) ++state.wrong_traceparents;
    complete_at_ = loop::clock::now();
}

void connection::note_answer() noexcept {
    const front_state& state = loop_->state();
    const auto end = loop::clock::now();
    if (route_.to == endpoint::infer && !is_strangers()) add_to_timeline(end);
    const bool is_noted = state.spans != nullptr || state.options.log_requests;
    if (!is_noted || complete_at_ == loop::clock::time_point{}) return;
    const auto time = std::chrono::duration_cast<std::chrono::microseconds>(end - std::exchange(complete_at_, {}));
    try {
        log_line line;
        if (caller_) line.trace_id = hex_text(caller_->trace);
        if (state.spans && route_.to == endpoint::infer && (!caller_ || caller_->is_sampled)) {
            const trace_id trace = caller_ ? caller_->trace : new_trace_id();
            const span_id own = new_span_id();
            record_spans(trace, own, end - time, end);
            line.trace_id = hex_text(trace);
            line.span_id = hex_text(own);
        }
        if (!state.options.log_requests || !state.log) return;
        line.event = "request";
        line.message = std::string(http::to_string(message_.method)) + " " + printable(message_.target, 200) + " " +
                       std::to_string(reply_.status) + " in " + std::to_string(time.count()) + " us";
        line.model = route_.model;
        state.log(line);
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): no memory, and the answer is what matters
    }
}

// Requests without a right token, and those beyond a limit, are left out of the timeline, so that no client can fill it
// with refusals.
bool connection::is_strangers() const noexcept {
    return !is_accepted_ && (reply_.status == 401 || reply_.status == 403 || reply_.status == 429);
}

void connection::add_to_timeline(loop::clock::time_point end) const noexcept {
    request_record what{.received = received_at_, .complete = complete_at_, .progress = so_far, .answered = end};
    what.status = reply_.status;
    what.model = short_text<128>(route_.model);
    what.id = short_text<64>(request_.id);
    if (model_) {
        what.version = model_->version();
        what.device = short_text<64>(model_->device());
    }
    loop_->state().models.timeline().add(what);
}

void connection::record_spans(const trace_id& trace, const span_id& own, loop::clock::time_point begin,
                              loop::clock::time_point end) const {
    traced_request what{.trace = trace, .span = own, .begin = begin, .end = end, .progress = so_far};
    if (caller_) what.parent = caller_->parent;
    what.path = message_.target;
    what.model = route_.model;
    if (model_) what.version = std::to_string(model_->version());
    what.status = reply_.status;
    loop_->state().spans->add(what);
}

// Most answers fit into the socket's memory, so they are written without a wait.
void connection::send_now() {
    const std::array<asio::const_buffer, 2> parts{asio::buffer(head_), asio::buffer(reply_.body)};
    error_code failure;
    const std::size_t written = stream_.write_some(parts, failure);
    if (failure && failure != asio::error::would_block) return close();
    const std::size_t all = head_.size() + reply_.body.size();
    if (!failure && written == all) return sent();
    keep_body(own_bytes);
    const auto rest = static_cast<std::chrono::milliseconds::rep>(all / least_written_bytes);
    write_limit_ = loop::clock::now() + (1 + rest) * loop_->state().options.write_time;
    send_rest(failure ? 0 : written);
}

void connection::send_rest(std::size_t already) {
    const std::size_t of_head = std::min(already, head_.size());
    const std::array<asio::const_buffer, 2> parts{asio::buffer(head_) + of_head,
                                                  asio::buffer(reply_.body) + (already - of_head)};
    expire_after(loop_->state().options.write_time);
    time_limit_ = std::min(time_limit_, write_limit_);
    answer_share_.hold_existing(reply_.body.capacity());
    stream_.async_write_some(parts, [self = shared_from_this(), already](const error_code& failure, std::size_t more) {
        self->guard([&] {
            if (self->phase_ != phase::writing) return;
            if (failure) return self->close();
            const std::size_t written = already + more;
            if (written == self->head_.size() + self->reply_.body.size()) return self->sent();
            self->send_rest(written);
        });
    });
}

void connection::sent() {
    keep_answer();
    if (closes_) return linger();
    begin_request();
    if (holds_) {
        phase_ = phase::held;
        return;
    }
    if (is_stepping_) return;  // the loop there continues
    if (buffer_.size() != 0) return step_soon();
    read_more();
}

// A client that repeats what was refused, before the time that the refusal named, is not read until then, and each time
// longer. So refusals cost the server little, however many clients repeat them. One that has waited is read at once. A
// proxy has the requests of others on its connection. Who asks for health may ask often.
void connection::note_refusal() noexcept {
    const auto now = loop::clock::now();
    const bool is_early = std::exchange(comes_early_, false) || now < retry_at_;
    holds_ = reply_.retry && is_early && !place_->is_proxy() && !is_about_health(route_.to);
    repeats_ = holds_ ? repeats_ + 1 : 0;
    if (holds_) reply_.retry_seconds = 1 << std::min(repeats_ - 1, most_doublings);
    if (reply_.retry) retry_at_ = now + std::chrono::seconds(reply_.retry_seconds);
}

bool connection::has_input() noexcept { return buffer_.size() != 0 || stream_.has_input(); }

void connection::end_hold(loop::clock::time_point now) {
    if (phase_ != phase::held) return;
    if (now < retry_at_) {
        const bool is_early = now < retry_at_ - hold_margin;
        comes_early_ = comes_early_ || (is_early && has_input());
        return;
    }
    phase_ = phase::reading;
    guard([this] {
        if (buffer_.size() != 0) return step_soon();
        read_more();
    });
}

// Closing with unread input would reset the connection, and the client could lose the answer.
void connection::linger() {
    phase_ = phase::lingering;
    expire_after(linger_time);
    stream_.async_end_output([self = shared_from_this()](const error_code& failure) {
        self->guard([&] {
            if (self->phase_ != phase::lingering) return;
            if (failure) return self->close();
            self->read_to_the_end();
        });
    });
}

// As it comes: with TLS, too, nothing of it matters.
void connection::read_to_the_end() {
    buffer_.clear();
    stream_.socket().async_read_some(buffer_.prepare(read_bytes),
                                     [self = shared_from_this()](const error_code& failure, std::size_t) {
                                         self->guard([&] {
                                             if (self->phase_ != phase::lingering) return;
                                             if (failure) return self->close();
                                             self->read_to_the_end();
                                         });
                                     });
}

}  // namespace sluice::serve
