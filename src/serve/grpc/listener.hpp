// SPDX-License-Identifier: Apache-2.0
// The port of gRPC: accepts its connections and hands them to gRPC. gRPC's own listener stops for good when it accepts
// a connection at a moment without a free descriptor; this one waits until there are some again.
#pragma once

#include <grpcpp/server_builder.h>
#include <sys/types.h>

#include <map>
#include <memory>
#include <string>
#include <thread>

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
    // From now on connections go to gRPC, whose server runs.
    void start(acceptor to);
    // Hands over the connections that the system has completed, and closes the port. Blocks for a moment.
    void stop() noexcept;
    // After stop(): ends the connections that gRPC still has. What it has written arrives; a call that it has not
    // answered ends without a status, which clients and balancers take for "try another server".
    void end_connections() noexcept;

private:
    void work();
    bool accept_waiting();  // false: it cannot accept now, most often because no descriptor is free
    void hand_over(int accepted);

    acceptor to_;
    io::file_descriptor socket_;
    io::file_descriptor ends_;  // readable when the thread has to end
    unsigned short port_ = 0;
    // The numbers of the descriptors that gRPC got, and which sockets they were: gRPC closes them when it likes.
    std::map<int, ino_t> handed_over_;  // used by the thread, and after it
    std::thread thread_;
};

}  // namespace sluice::serve
