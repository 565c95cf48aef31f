// SPDX-License-Identifier: Apache-2.0
// The port of gRPC: accepts its connections and hands them to gRPC, through relays that watch them. gRPC's own listener
// stops for good when it accepts a connection at a moment without a free descriptor; this one waits until there are
// some again.
#pragma once

#include <grpcpp/server_builder.h>
#include <sys/socket.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "serve/connection_limits.hpp"
#include "serve/grpc/relay.hpp"
#include "sluice/io/file_descriptor.hpp"

namespace sluice::serve {

class grpc_listener {
public:
    using acceptor = std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor>;

    // Binds and listens; connections wait. Throws error: errc::invalid_argument for what is no address,
    // errc::io_failed.
    grpc_listener(const std::string& address, unsigned short port, bool shares_port);
    grpc_listener(const grpc_listener&) = delete;  // its thread uses it
    grpc_listener& operator=(const grpc_listener&) = delete;
    ~grpc_listener() { stop(); }

    unsigned short port() const noexcept { return port_; }
    // From now on connections go to gRPC, whose server runs, through `relays` threads. Throws std::system_error.
    void start(acceptor to, std::size_t relays, const grpc_relay::options& how,
               std::unique_ptr<connection_limits> limits);
    // Hands over the connections that the system has completed, and closes the port. Blocks for a moment.
    void stop() noexcept;
    // After stop(): ends the connections that gRPC still has. What it has written arrives; a call that it has not
    // answered ends without a status, which clients and balancers take for "try another server".
    void end_connections() noexcept;

    std::size_t connections() const { return limits_ ? limits_->size() : 0; }
    std::uint64_t refused() const noexcept { return refused_; }  // connections above a limit
    std::uint64_t abusers() const noexcept;                      // connections that were ended for what they did

private:
    void work();
    bool accept_waiting();  // false: it cannot accept now, most often because no descriptor is free
    bool has_pair() noexcept;
    void hand_over(int accepted, const sockaddr* from);
    bool end_longest_idle() noexcept;

    acceptor to_;
    io::file_descriptor socket_;
    io::file_descriptor ends_;  // readable when the thread has to end
    unsigned short port_ = 0;
    std::atomic<std::uint64_t> refused_{0};
    std::unique_ptr<connection_limits> limits_;  // before the relays, whose connections have places there
    std::vector<std::unique_ptr<grpc_relay>> relays_;
    std::size_t next_relay_ = 0;  // of the thread
    // For the next connection: the relay's end, and gRPC's. They are there before it is accepted, which would otherwise
    // have to be dropped where no descriptors are left.
    io::file_descriptor relays_end_;
    int grpcs_end_ = -1;  // owned by this until gRPC has it
    std::thread thread_;
};

}  // namespace sluice::serve
