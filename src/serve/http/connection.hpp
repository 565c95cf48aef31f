// SPDX-License-Identifier: Apache-2.0
// One connection: it reads requests one after the other and writes their answers in this order.
//
// All members run on the loop's thread, except answer() and refuse(), which run where the batch was computed, and
// is_wanted(). From submit() until the answer nothing else touches the request and the reply.
//
// Where memory runs out, a request is answered with 503 by a text that takes none, and the connection ends; where an
// answer has begun, it just ends.
#pragma once

#include <array>
#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <chrono>
#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>

#include "serve/budget_share.hpp"
#include "serve/connection_limits.hpp"
#include "serve/http/hand_over.hpp"
#include "serve/http/http_stream.hpp"
#include "serve/http/infer_body.hpp"
#include "serve/http/loop.hpp"
#include "serve/http/message.hpp"
#include "serve/http/reply.hpp"
#include "serve/http/routes.hpp"
#include "serve/unpack_body.hpp"
#include "sluice/serve/infer_call.hpp"
#include "sluice/serve/served_model.hpp"
#include "sluice/serve/trace_context.hpp"

namespace sluice::serve {

class connection final : public infer_call, public std::enable_shared_from_this<connection> {
public:
    // `only_health`: it is beyond the limit of connections, and answers requests for the server's health only.
    connection(std::shared_ptr<loop> on, boost::asio::ip::tcp::socket socket,
               std::shared_ptr<connection_limits::place> place, bool only_health);

    void start() noexcept;
    void close() noexcept;
    bool is_late(loop::clock::time_point now) const noexcept { return now > time_limit_; }
    // Waits for the first byte of a request.
    bool is_idle() const noexcept { return (phase_ == phase::reading || phase_ == phase::held) && !has_begun_; }
    // Of one that is idle: whether bytes have arrived that it has not looked at. Asks the system.
    bool has_input() noexcept;
    // Where the loop has it in its lists.
    std::optional<std::list<connection*>::iterator>& turn() noexcept { return turn_; }
    bool is_listed_as_busy() const noexcept { return is_listed_as_busy_; }
    // Each tick: reads again, where its client has been refused twice and Retry-After is over.
    void end_hold(loop::clock::time_point now);
    // A request was accepted, and its answer is not sent.
    bool has_request() const noexcept {
        return (phase_ == phase::reading && is_accepted_) || phase_ == phase::computing || phase_ == phase::writing;
    }
    // Each tick: looks whether the client of a request that is computed is still there.
    void look_for_client();
    // The time is over: closes, with an answer where the client has sent a part of a request.
    void give_up() noexcept;
    // By which the loop gets it when it has an answer.
    hand_over<connection>::link& answered() noexcept { return answered_; }
    void send_answer() noexcept;

    void make_answer(std::span<const tensor_view> outputs) override;
    bool answer(std::span<const tensor_view> outputs) noexcept override;
    void refuse(const refusal& why) noexcept override;
    bool is_wanted() const noexcept override { return !has_left_; }

private:
    enum class phase { reading, computing, writing, held, lingering, closed };

    template <typename Step>
    void guard(const Step& step) noexcept;
    void lacks_memory() noexcept;
    void begin();
    void shake_hands();
    void hands_failed();
    void begin_request();
    void note_refusal() noexcept;
    void step();
    void step_soon();
    bool parse();
    void read_more();
    void end_of_input();
    bool accept_header();
    bool has_long_framing() const noexcept;
    void refuse_message(const boost::system::error_code& failure);
    void handle();
    template <typename Step>
    void try_request(const Step& step);
    void handle_body();
    void begin_unpacking();
    piece_queue::done unpack_body();
    void handle_infer();
    std::function<void()> when_loaded();
    void handle_load();
    void handle_timeline();
    void handle_listing();
    void ask_for_client();
    void read_trace();
    void note_answer() noexcept;
    void add_to_timeline(loop::clock::time_point end) const noexcept;
    void record_spans(const trace_id& trace, const span_id& own, loop::clock::time_point begin,
                      loop::clock::time_point end) const;
    void deliver(reply made) noexcept;
    void send(reply made, bool must_close = false);
    void send_now();
    void send_rest(std::size_t sent);
    void sent();
    void linger();
    void read_to_the_end();
    void expire_after(std::chrono::milliseconds time);
    const std::shared_ptr<request_budget>& budget() const noexcept;  // what the request counts for
    std::string client_words();                                      // for the log
    bool may_keep_memory() const noexcept;
    void forget_request() noexcept;
    void keep_body(std::size_t bytes) noexcept;
    void keep_answer() noexcept;
    void drop_kept() noexcept;
    bool is_strangers() const noexcept;

    const std::shared_ptr<loop> loop_;  // before the stream, which ends first
    http_stream stream_;
    // What this connection makes the server keep beyond what each has, counted before it is kept.
    budget_share body_share_, answer_share_;
    boost::beast::flat_buffer buffer_;
    http_message message_;
    std::optional<message_parser> parser_;
    std::optional<body_unpacker> unpacker_;  // of message_.body, while it is unpacked
    infer_body request_;
    route route_;
    access_list::client* client_ = nullptr;  // who has the request's token; null: there are none, or it has none
    std::shared_ptr<served_model> model_;    // of the request that is computed
    reply reply_;
    std::optional<reply> made_;  // of a step of a sequence, before its answer
    std::string head_;
    std::string spare_;  // the last body's memory, for the next one
    std::shared_ptr<connection_limits::place> place_;
    const bool only_health_;
    std::optional<std::list<connection*>::iterator> turn_;
    bool is_listed_as_busy_ = false;
    phase phase_ = phase::reading;
    bool has_begun_ = false;    // the first byte of the request is there
    bool is_accepted_ = false;  // its header is there and right
    bool is_stepping_ = false;
    bool is_shaking_hands_ = false;
    hand_over<connection>::link answered_;
    bool closes_ = false;                    // after this answer
    std::atomic<bool> has_left_{false};      // the client of the request that is computed
    bool has_asked_ = false;                 // for the client, whose input has ended
    std::optional<trace_context> caller_;    // of the request
    loop::clock::time_point received_at_{};  // the first byte of the request
    loop::clock::time_point complete_at_{};  // when the whole request was there; zero where it is not
    std::size_t framing_ = 0;                // bytes of the body as it was sent that are none of the body itself
    loop::clock::time_point retry_at_{};     // of the last refusal that named a time
    int repeats_ = 0;                        // of refused requests, before their time
    bool holds_ = false;                     // after this answer
    bool comes_early_ = false;               // the next request has come while this one holds
    loop::clock::time_point time_limit_;
    loop::clock::time_point write_limit_;  // of the whole answer
};

}  // namespace sluice::serve
