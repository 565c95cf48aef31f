// SPDX-License-Identifier: Apache-2.0
// A client that sends what a test says, byte for byte, and reads what comes.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace sluice::serve::testing {

struct http_answer {
    int status = 0;  // 0: the connection ended before an answer was whole
    std::string head;
    std::string body;

    // The value of a field; empty when it is not there.
    std::string field(std::string_view name) const {
        const std::size_t at = head.find("\r\n" + std::string(name) + ": ");
        if (at == std::string::npos) return {};
        const std::size_t begin = at + 4 + name.size();
        return head.substr(begin, head.find("\r\n", begin) - begin);
    }
};

// Takes one answer from `received`, to which more() appends; it gives false at the end.
template <typename More>
http_answer read_answer(std::string& received, const More& more, bool has_body = true) {
    http_answer got;
    while (received.find("\r\n\r\n") == std::string::npos)
        if (!more()) return got;
    const std::size_t head = received.find("\r\n\r\n") + 2;
    got.head = received.substr(0, head);
    received.erase(0, head + 2);
    const std::string length = got.field("Content-Length");
    std::size_t bytes = 0;
    std::from_chars(length.data(), length.data() + length.size(), bytes);
    if (!has_body) bytes = 0;
    while (received.size() < bytes)
        if (!more()) return got;
    got.body = received.substr(0, bytes);
    received.erase(0, bytes);
    std::from_chars(got.head.data() + 9, got.head.data() + 12, got.status);
    return got;
}

class raw_client {
public:
    // Waits for an answer at most for this time.
    explicit raw_client(unsigned short port, std::chrono::seconds at_most = std::chrono::seconds(20))
        : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        sockaddr_in to{};
        to.sin_family = AF_INET;
        to.sin_port = htons(port);
        to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        const timeval limit{at_most.count(), 0};
        ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
        if (::connect(socket_, reinterpret_cast<const sockaddr*>(&to), sizeof(to)) != 0)
            throw std::system_error(errno, std::generic_category(), "connect");
    }
    raw_client(raw_client&& other) noexcept
        : socket_(std::exchange(other.socket_, -1)), received_(std::move(other.received_)) {}
    raw_client& operator=(raw_client&&) = delete;
    ~raw_client() {
        if (socket_ != -1) ::close(socket_);
    }

    // False: the server has closed.
    bool send(std::string_view text) {
        while (!text.empty()) {
            const ssize_t sent = ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL);
            if (sent < 0) return false;
            text.remove_prefix(static_cast<std::size_t>(sent));
        }
        return true;
    }
    void end_of_input() { ::shutdown(socket_, SHUT_WR); }
    // Closing sends a reset.
    void reset() {
        const linger at_once{1, 0};
        ::setsockopt(socket_, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
        ::close(std::exchange(socket_, -1));
    }

    http_answer receive(bool has_body = true) {
        return read_answer(received_, [this] { return more(); }, has_body);
    }
    http_answer ask(std::string_view text) {
        send(text);
        return receive();
    }
    int socket() const { return socket_; }
    // Whether the server closes, with nothing more to read.
    bool is_closed() { return received_.empty() && !more(); }

private:
    bool more() {
        char text[65536];
        const ssize_t got = ::recv(socket_, text, sizeof(text), 0);
        if (got <= 0) return false;
        received_.append(text, static_cast<std::size_t>(got));
        return true;
    }

    int socket_;
    std::string received_;
};

inline std::string get_request(std::string_view path) {
    return "GET " + std::string(path) + " HTTP/1.1\r\nHost: localhost\r\n\r\n";
}
inline std::string post_request(std::string_view path, std::string_view body, std::string_view fields = {}) {
    return "POST " + std::string(path) + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" +
           std::string(fields) + "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + std::string(body);
}
// One row [value, value] for a fake_model.
inline std::string infer_request(float value, std::string_view path = "/v2/models/m/infer") {
    const std::string number = std::to_string(value);
    return post_request(
        path, R"({"inputs":[{"name":"x","datatype":"FP32","shape":[1,2],"data":[)" + number + "," + number + "]}]}");
}

}  // namespace sluice::serve::testing
