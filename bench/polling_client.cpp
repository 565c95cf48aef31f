// SPDX-License-Identifier: Apache-2.0
// A client of a server on this machine that never sleeps: it sends one request over and over on one connection, and
// looks for the answer until it has come. With --spin-us the server does the same, and neither waits until the system
// wakes a thread.
//
//     bench_polling_client PORT FILE REQUESTS
//
// FILE has the bytes of an HTTP/1.1 request. Each answer must have the status 200 and be as long as the first one.
// Prints one line of JSON: microseconds.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace {

using clock_type = std::chrono::steady_clock;

std::size_t number(std::string_view text) {
    std::size_t value = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
    if (read.ec != std::errc() || read.ptr != text.data() + text.size())
        throw std::runtime_error("'" + std::string(text) + "' is no number");
    return value;
}

[[noreturn]] void fail(const char* what) { throw std::system_error(errno, std::generic_category(), what); }

class connection {
public:
    explicit connection(std::size_t port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
        if (socket_ < 0) fail("socket");
        sockaddr_in to{};
        to.sin_family = AF_INET;
        to.sin_port = htons(static_cast<in_port_t>(port));
        to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        if (::connect(socket_, reinterpret_cast<const sockaddr*>(&to), sizeof(to)) != 0) fail("connect");
        const int on = 1;
        if (::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0) fail("setsockopt");
    }
    connection(const connection&) = delete;  // it owns the socket
    connection& operator=(const connection&) = delete;
    ~connection() { ::close(socket_); }

    // Gives the number of bytes of the answer.
    std::size_t ask(std::string_view request) {
        if (::send(socket_, request.data(), request.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(request.size()))
            fail("send");
        answer_.clear();
        std::size_t whole = 0;
        while (whole == 0 || answer_.size() < whole) {
            const ssize_t got = ::recv(socket_, part_, sizeof(part_), MSG_DONTWAIT);
            if (got == 0) throw std::runtime_error("the server has closed the connection");
            if (got < 0 && errno != EAGAIN && errno != EINTR) fail("recv");
            if (got < 0) continue;
            answer_.append(part_, static_cast<std::size_t>(got));
            if (whole == 0) whole = length();
        }
        if (answer_.size() != whole) throw std::runtime_error("the answer is too long");
        return whole;
    }

private:
    // Of the whole answer; 0: its header has not come.
    std::size_t length() const {
        const std::size_t end = answer_.find("\r\n\r\n");
        if (end == std::string::npos) return 0;
        if (!answer_.starts_with("HTTP/1.1 200 ")) throw std::runtime_error("the answer is: " + answer_);
        constexpr std::string_view field = "\r\nContent-Length: ";
        const std::size_t at = answer_.find(field);
        if (at == std::string::npos || at > end) throw std::runtime_error("the answer has no Content-Length");
        const std::size_t from = at + field.size();
        return end + 4 + number(std::string_view(answer_).substr(from, answer_.find("\r\n", from) - from));
    }

    int socket_;
    std::string answer_;
    char part_[64 << 10];
};

double percentile(const std::vector<double>& sorted, double part) {
    return sorted[std::min(sorted.size() - 1, static_cast<std::size_t>(part * static_cast<double>(sorted.size())))];
}

}  // namespace

int main(int count, char** words) {
    if (count != 4) return std::fputs("usage: bench_polling_client PORT FILE REQUESTS\n", stderr), 2;
    try {
        std::ifstream file(words[2], std::ios::binary);
        const std::string request((std::istreambuf_iterator<char>(file)), {});
        if (!file || request.empty()) throw std::runtime_error(std::string(words[2]) + " cannot be read");
        connection server(number(words[1]));
        const std::size_t bytes = server.ask(request);
        std::vector<double> times(std::max<std::size_t>(number(words[3]), 1));
        for (double& each : times) {
            const auto begin = clock_type::now();
            if (server.ask(request) != bytes) throw std::runtime_error("the answers have different lengths");
            each = std::chrono::duration<double, std::micro>(clock_type::now() - begin).count();
        }
        std::sort(times.begin(), times.end());
        std::printf("{\"median\": %.1f, \"p99\": %.1f, \"p999\": %.1f}\n", percentile(times, 0.5),
                    percentile(times, 0.99), percentile(times, 0.999));
    } catch (const std::exception& failure) {
        std::fprintf(stderr, "bench_polling_client: %s\n", failure.what());
        return 1;
    }
}
