// SPDX-License-Identifier: Apache-2.0
// A server that does on each connection what a test says, one connection after the other.
#pragma once

#include <poll.h>

#include <atomic>
#include <functional>
#include <string>
#include <string_view>
#include <thread>

#include "serve/support/raw_client.hpp"

namespace sluice::serve::testing {

class scripted_server {
public:
    // Calls `act` for each connection, with its number from 0, and closes it then.
    explicit scripted_server(std::function<void(int socket, int connection)> act)
        : act_(std::move(act)), listens_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        sockaddr_in at{};
        at.sin_family = AF_INET;
        at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof(at);
        if (::bind(listens_, reinterpret_cast<const sockaddr*>(&at), sizeof(at)) != 0 || ::listen(listens_, 16) != 0 ||
            ::getsockname(listens_, reinterpret_cast<sockaddr*>(&at), &size) != 0)
            throw std::system_error(errno, std::generic_category(), "listen");
        port_ = ntohs(at.sin_port);
        thread_ = std::thread([this] { serve(); });
    }
    scripted_server(const scripted_server&) = delete;  // it owns the thread
    scripted_server& operator=(const scripted_server&) = delete;
    ~scripted_server() {
        ends_ = true;
        thread_.join();
        ::close(listens_);
    }

    std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
    int connections() const { return connections_; }

    // Reads a request: its header, and what has come with it. Empty: the client has closed.
    static std::string read(int socket) {
        std::string text;
        while (text.find("\r\n\r\n") == std::string::npos) {
            char part[65536];
            const ssize_t got = ::recv(socket, part, sizeof(part), 0);
            if (got <= 0) return {};
            text.append(part, static_cast<std::size_t>(got));
        }
        return text;
    }
    static void write(int socket, std::string_view text) { ::send(socket, text.data(), text.size(), MSG_NOSIGNAL); }

private:
    void serve() {
        while (!ends_) {
            pollfd look{listens_, POLLIN, 0};
            if (::poll(&look, 1, 20) <= 0) continue;
            const int socket = ::accept4(listens_, nullptr, nullptr, SOCK_CLOEXEC);
            if (socket == -1) continue;
            act_(socket, connections_++);
            ::close(socket);
        }
    }

    std::function<void(int, int)> act_;
    int listens_;
    unsigned short port_ = 0;
    std::atomic<int> connections_{0};
    std::atomic<bool> ends_{false};
    std::thread thread_;
};

}  // namespace sluice::serve::testing
