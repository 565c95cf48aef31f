// SPDX-License-Identifier: Apache-2.0
// grpc_relay: a thread between clients and gRPC. It passes bytes on, and what a client makes gRPC keep is counted
// before gRPC gets it (http2_watch). It speaks TLS, so gRPC does not.
//
// Each direction of a connection has one buffer, and nothing is read before its last bytes are passed on.
//
// Thread safety: all members may be called on any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "serve/connection_limits.hpp"
#include "serve/tls/certificate_watch.hpp"
#include "sluice/io/file_descriptor.hpp"
#include "sluice/serve/request_budget.hpp"

namespace sluice::serve {

class relayed_connection;

class grpc_relay {
public:
    struct options {
        std::shared_ptr<request_budget> budget;
        std::shared_ptr<certificate_watch> certificates;  // empty: no TLS
        std::chrono::milliseconds handshake_time{10'000};
    };

    // Starts the thread. Throws std::system_error.
    explicit grpc_relay(options how);
    grpc_relay(const grpc_relay&) = delete;  // its thread knows its address
    grpc_relay& operator=(const grpc_relay&) = delete;
    ~grpc_relay();

    // Takes the client's socket, and the end of a pair of which gRPC has the other one. `place` is held until the
    // connection ends. False: memory lacks, and the connection has ended.
    bool take(io::file_descriptor client, io::file_descriptor to_grpc, std::shared_ptr<connection_limits::place> place);
    // Ends the connection that has been silent longest of those without an open stream: it makes room for another one.
    // False: there is none. Blocks until the thread has done it. On one thread at a time.
    bool end_longest_idle() noexcept;
    // Passes on what gRPC has written, and ends all connections. Blocks until that is done.
    void end() noexcept;

    std::uint64_t abusers() const noexcept { return abusers_; }  // connections that were ended for what they did

private:
    void work();
    void wake() noexcept;
    void adopt_new();
    void make_room() noexcept;
    void look_at_times();
    void serve(const std::shared_ptr<relayed_connection>& one);
    void drop(relayed_connection& one) noexcept;

    const options options_;
    io::file_descriptor events_;  // of epoll
    io::file_descriptor wakes_;   // readable when there is something new
    std::atomic<bool> ends_{false};
    std::atomic<std::uint64_t> abusers_{0};
    std::mutex mutex_;
    std::vector<std::shared_ptr<relayed_connection>> new_;  // under the mutex, as the next three
    std::condition_variable made_room_;
    bool has_to_make_room_ = false;
    bool has_made_room_ = false;  // the last time
    // By the descriptors of both their ends. Of the thread.
    std::unordered_map<int, std::shared_ptr<relayed_connection>> connections_;
    std::vector<std::shared_ptr<relayed_connection>> again_;          // whose turn was over; of the thread
    std::vector<std::byte> room_ = std::vector<std::byte>(64 << 10);  // for what is read; of the thread
    std::thread thread_;
};

}  // namespace sluice::serve
