// SPDX-License-Identifier: Apache-2.0
// One thread that takes requests: it listens, and has its own connections.
//
// Memory may run out anywhere. What a connection lacks it for ends that connection (connection::lacks_memory). What
// the loop itself has lost, the waits for connections, for answers and for the next tick, it begins again.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>

#include "serve/http/front_state.hpp"
#include "serve/http/hand_over.hpp"
#include "serve/http/infer_body.hpp"
#include "serve/piece_queue.hpp"
#include "sluice/serve/infer_call.hpp"

namespace sluice::serve {

class connection;

class loop final : public lent_thread, public std::enable_shared_from_this<loop> {
public:
    using clock = std::chrono::steady_clock;

    // Takes a socket that is bound, unless it throws boost::system::system_error.
    loop(std::shared_ptr<front_state> state, boost::asio::ip::tcp protocol, int bound);

    void listen();  // throws the same
    void start();   // the thread

    // On any thread. The thread ends when the connections do.
    void begin_drain() noexcept;
    // Closes all connections, waits for the thread, and gives the number of requests that were cut off.
    std::size_t end() noexcept;
    // Whether the thread has no connections any more. After begin_drain().
    bool is_empty() const noexcept { return is_empty_; }

    bool is_this_thread() const noexcept { return std::this_thread::get_id() == id_; }
    // Runs `what` on this thread, unless it has ended.
    template <typename Function>
    void post(Function&& what) {
        const std::lock_guard lock(end_mutex_);
        if (!has_ended_) boost::asio::post(io_, std::forward<Function>(what));
    }
    void run_soon(std::shared_ptr<served_model> model) override;
    // On any other thread: sends the answer of a connection on this one. It takes no lock that this thread takes.
    void send_soon(std::shared_ptr<connection> answered) noexcept;

    // For connections, on this thread.
    front_state& state() const noexcept { return *state_; }
    infer_body_reader& reader() noexcept { return reader_; }
    const std::string& date() const noexcept { return date_; }
    clock::time_point now() const noexcept { return now_; }  // of the last tick
    void forget(const connection& closed) noexcept;
    // A request of the connection begins, or it waits for one.
    void note_busy(connection& its) noexcept;
    void note_idle(connection& its) noexcept;
    // For work that would hold up other connections. Throws std::bad_alloc.
    piece_queue& pieces();
    // A request has failed through no fault of its own: for the log, at most one line a second.
    void note_failure(std::string_view why) noexcept;

private:
    // Whether a wait is in flight: Asio has its handler, until it has run or was lost.
    class in_flight {
    public:
        explicit in_flight(bool& is) noexcept : is_(&is) { is = true; }
        in_flight(in_flight&& from) noexcept : is_(std::exchange(from.is_, nullptr)) {}
        in_flight& operator=(in_flight&&) = delete;  // the handler has it
        ~in_flight() { is_over(); }
        void is_over() noexcept {
            if (is_ != nullptr) *std::exchange(is_, nullptr) = false;
        }

    private:
        bool* is_;
    };

    void run() noexcept;
    void run_events();
    void accept();
    void wait_for_answers();
    void send_answers();
    void take(boost::asio::ip::tcp::socket socket);
    bool close_longest_idle() noexcept;
    void tick() noexcept;
    void look();
    void wait_for_tick();
    void run_pieces_soon();
    void accept_waiting();
    void look_for_clients();
    void close_idle(bool also_fresh);
    void close_all() noexcept;
    void log_failures();

    std::shared_ptr<front_state> state_;
    boost::asio::io_context io_{1};
    boost::asio::ip::tcp::acceptor acceptor_{io_};
    boost::asio::steady_timer timer_{io_};
    hand_over<connection> answered_;
    // An event that says that there are some. It is not closed before the loop goes: any thread may write to it.
    boost::asio::posix::stream_descriptor has_answers_{io_};
    int event_ = -1;            // its descriptor
    std::uint64_t events_ = 0;  // since it was read last
    infer_body_reader reader_;
    piece_queue pieces_;
    std::string date_;
    clock::time_point now_ = clock::now();
    clock::time_point drain_began_{};
    std::size_t failures_ = 0;  // that the log does not have
    std::string last_failure_;
    clock::time_point logged_{};
    bool ends_ = false;
    bool accepts_ = false;  // a wait for connections is in flight
    bool ticks_ = false;    // the wait for the next tick is
    bool runs_ = false;     // the next turn of the pieces is
    bool hears_ = false;    // the wait for answers is
    std::size_t cut_ = 0;   // requests, by end()
    std::atomic<bool> has_to_end_{false};
    std::atomic<bool> has_closed_{false};  // all connections, after has_to_end_
    std::unordered_map<const connection*, std::shared_ptr<connection>> connections_;
    std::list<connection*> idle_, busy_;  // the one that has been idle longest comes first
    std::thread thread_;
    std::thread::id id_;  // its; also after its end
    std::atomic<bool> is_empty_{false};
    std::mutex end_mutex_;
    bool has_ended_ = false;
};

}  // namespace sluice::serve
