// SPDX-License-Identifier: Apache-2.0
#include "child_program.hpp"

#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "process_guard.hpp"
#include "sluice/base/error.hpp"
#include "sluice/base/printable.hpp"

namespace sluice::app {
namespace {

constexpr int forwarded[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};

// During its lifetime this thread takes these signals by sigwaitinfo() only.
class held_signals {
public:
    held_signals() {
        ::sigemptyset(&held_);
        for (const int each : forwarded) ::sigaddset(&held_, each);
        ::sigaddset(&held_, SIGCHLD);
        ::pthread_sigmask(SIG_BLOCK, &held_, &before_);
        // Were SIGCHLD ignored, the end of the program would be lost.
        struct sigaction by_default{};
        by_default.sa_handler = SIG_DFL;
        ::sigaction(SIGCHLD, &by_default, &child_before_);
    }
    held_signals(const held_signals&) = delete;  // restores the mask once
    held_signals& operator=(const held_signals&) = delete;
    ~held_signals() {
        ::sigaction(SIGCHLD, &child_before_, nullptr);
        ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    }

    const sigset_t& held() const noexcept { return held_; }
    const sigset_t& before() const noexcept { return before_; }

private:
    sigset_t held_{}, before_{};
    struct sigaction child_before_{};
};

pid_t start(const std::vector<std::string>& words, const sigset_t& mask) {
    std::vector<std::string> kept = words;
    std::vector<char*> argv;
    for (std::string& each : kept) argv.push_back(each.data());
    argv.push_back(nullptr);
    posix_spawnattr_t attributes{};
    ::posix_spawnattr_init(&attributes);
    const sigset_t by_default = ignored_by_guard();
    ::posix_spawnattr_setsigdefault(&attributes, &by_default);
    ::posix_spawnattr_setsigmask(&attributes, &mask);
    ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
    pid_t pid = 0;
    const int failed = ::posix_spawnp(&pid, argv.front(), nullptr, &attributes, argv.data(), environ);
    ::posix_spawnattr_destroy(&attributes);
    if (failed != 0) {
        throw error(errc::invalid_argument,
                    "cannot start " + in_quotes(words.front()) + ": " + std::generic_category().message(failed),
                    {"check"});
    }
    return pid;
}

program_end end_of(int status) {
    if (WIFSIGNALED(status)) {
        const int signal = WTERMSIG(status);
        return {128 + signal, "signal " + std::to_string(signal) + " ended the program"};
    }
    const int code = WEXITSTATUS(status);
    return {code, code == 0 ? std::string() : "the program ended with status " + std::to_string(code)};
}

}  // namespace

program_end run_program(const std::vector<std::string>& words) {
    const held_signals signals;
    const pid_t pid = start(words, signals.before());
    for (;;) {
        int status = 0;
        if (::waitpid(pid, &status, WNOHANG) == pid) return end_of(status);
        siginfo_t came{};
        const int signal = ::sigwaitinfo(&signals.held(), &came);
        // A terminal sends its signals to the program too, which may take a second one for an order to end at once.
        if (signal > 0 && signal != SIGCHLD && came.si_code <= 0) ::kill(pid, signal);
    }
}

}  // namespace sluice::app
