// SPDX-License-Identifier: Apache-2.0
// peer_process: another process, which runs interprocess_peer.cpp, for tests of memory between processes. It is started
// as a new program: a process that was forked after CUDA's start must not use CUDA.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "conformance/support/interprocess_channel.hpp"

extern char** environ;

namespace sluice::conformance {

// Destroyed before it has ended, it is killed.
class peer_process {
public:
    // `what` is one of the peer's tasks.
    explicit peer_process(std::string what) {
        int ends[2] = {-1, -1};
        if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
            throw std::system_error(errno, std::generic_category(), "socketpair");
        socket_ = ends[0];
        const timeval at_most{.tv_sec = 60, .tv_usec = 0};  // a peer that hangs fails the test
        ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &at_most, sizeof(at_most));
        // The peer's end may have any number: above the peer's descriptor, so that the copy is not closed on exec.
        const int theirs = ::fcntl(ends[1], F_DUPFD_CLOEXEC, peer_descriptor + 1);
        ::close(ends[1]);
        std::string program = SLUICE_INTERPROCESS_PEER;
        char* arguments[] = {program.data(), what.data(), nullptr};
        posix_spawn_file_actions_t actions;
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_adddup2(&actions, theirs, peer_descriptor);
        const int failure = ::posix_spawn(&pid_, program.c_str(), &actions, nullptr, arguments, environ);
        posix_spawn_file_actions_destroy(&actions);
        ::close(theirs);
        if (failure == 0) return;
        ::close(socket_);
        throw std::system_error(failure, std::generic_category(), program);
    }
    peer_process(const peer_process&) = delete;  // owns the process
    peer_process& operator=(const peer_process&) = delete;
    ~peer_process() {
        ::close(socket_);
        if (pid_ == -1) return;
        ::kill(pid_, SIGKILL);
        ::waitpid(pid_, nullptr, 0);
    }

    template <typename T>
    void send(const T& value) const {
        send_to(socket_, value);
    }
    // Throws when the peer has ended, or says nothing for a minute.
    template <typename T>
    T receive() const {
        return receive_from<T>(socket_);
    }
    std::string answer() const { return std::string(receive<short_text>().view()); }

    // Blocks until it has ended; its exit status, or -1 when a signal ended it. Once only.
    int wait() {
        int status = 0;
        while (::waitpid(pid_, &status, 0) == -1 && errno == EINTR) {
        }
        pid_ = -1;
        return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    }

private:
    int socket_ = -1;
    pid_t pid_ = -1;
};

}  // namespace sluice::conformance
