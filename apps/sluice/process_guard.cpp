// SPDX-License-Identifier: Apache-2.0
#include "process_guard.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>

#include "error_report.hpp"
#include "exit_status.hpp"
#include "sluice/io/process_files.hpp"

namespace sluice::app {
namespace {

static_assert(std::atomic<bool>::is_always_lock_free);
std::atomic<bool> has_guard{false};
std::atomic<bool> is_over{false};  // a guard was destroyed: the command has completed
std::atomic<bool> was_requested{false};
std::atomic<bool> removes_on_request{false};
struct sigaction bus_before{};

std::atomic<bool> is_ending{false};  // a handler writes the last line and ends the process

// Several threads may run handlers at the same time: only the first one writes its line. The handlers that call this
// block all other signals on their thread, so the thread that waits here is never the one that writes.
void begin_to_end() noexcept {
    while (is_ending.exchange(true)) ::pause();
}

void stop(int signal) {
    const int error_before = errno;
    if (is_over) {  // the report is written, or being written: "interrupted" would be wrong (mpirun ends its ranks by a
                    // signal)
        io::remove_known_temporaries();
        std::signal(signal, SIG_DFL);
        std::raise(signal);
        return;
    }
    if (has_guard && !was_requested.exchange(true)) {
        if (removes_on_request) io::remove_known_temporaries();
        errno = error_before;
        return;
    }
    begin_to_end();
    io::remove_known_temporaries();
    write_error_from_handler("interrupted", "", interrupted);
    ::_exit(interrupted);
}

void die_of(int signal) {
    io::remove_known_temporaries();
    std::raise(signal);  // its action is the default one again (SA_RESETHAND)
}

void lose_mapped_page(int signal, siginfo_t* info, void*) {
    const bool is_fault = info->si_code > 0;  // else a process has sent it
    const char* const file = is_fault ? io::mapped_file_at(info->si_addr) : nullptr;
    if (file != nullptr) {
        begin_to_end();
        io::remove_known_temporaries();
        write_error_from_handler(file, ": the file became shorter while it was read, or its disk failed", bad_input);
        ::_exit(bad_input);
    }
    io::remove_known_temporaries();
    ::sigaction(SIGBUS, &bus_before, nullptr);  // a fault is raised again, for the handler before ours
    if (!is_fault) std::raise(signal);
}

// Writing to a standard output that was closed stays an error; what is written to a closed standard error is dropped.
void open_standard_descriptors() noexcept {
    constexpr std::array modes{O_WRONLY, O_RDONLY, O_WRONLY};
    for (int descriptor = 0; descriptor < 3; ++descriptor) {
        if (::fcntl(descriptor, F_GETFD) != -1 || errno != EBADF) continue;
        // The lowest that is free is given, which is this one.
        if (::open("/dev/null", modes[static_cast<std::size_t>(descriptor)]) != descriptor) ::_exit(failed);
    }
}

sigset_t ignored_here{};  // empty

void take(int signal, void (*handler)(int), int flags) noexcept {
    struct sigaction before{};
    if (::sigaction(signal, nullptr, &before) != 0 || before.sa_handler != SIG_DFL) return;
    if (handler == SIG_IGN) sigaddset(&ignored_here, signal);
    struct sigaction action{};
    action.sa_handler = handler;
    action.sa_flags = flags;
    sigfillset(&action.sa_mask);
    ::sigaction(signal, &action, nullptr);
}

void take_bus_error() noexcept {
    struct sigaction action{};
    action.sa_sigaction = lose_mapped_page;
    action.sa_flags = SA_SIGINFO;
    sigfillset(&action.sa_mask);
    struct sigaction before{};
    ::sigaction(SIGBUS, &action, &before);
    const bool was_ours = (before.sa_flags & SA_SIGINFO) != 0 && before.sa_sigaction == lose_mapped_page;
    if (!was_ours) bus_before = before;
}

}  // namespace

void guard_process() noexcept {
    open_standard_descriptors();
    static const int at_exit = std::atexit([] { io::remove_known_temporaries(); });
    static_cast<void>(at_exit);
    for (const int signal : {SIGHUP, SIGINT, SIGTERM}) take(signal, stop, SA_RESTART);
    for (const int signal : {SIGPIPE, SIGXFSZ}) take(signal, SIG_IGN, 0);
    for (const int signal :
         {SIGQUIT, SIGILL, SIGTRAP, SIGABRT, SIGFPE, SIGSEGV, SIGSYS, SIGXCPU, SIGALRM, SIGUSR1, SIGUSR2, SIGVTALRM}) {
        take(signal, die_of, static_cast<int>(SA_RESETHAND));
    }
    take_bus_error();
}

sigset_t ignored_by_guard() noexcept { return ignored_here; }

signal_guard::signal_guard() noexcept {
    was_requested = false;
    removes_on_request = false;
    is_over = false;
    has_guard = true;
}

signal_guard::~signal_guard() {
    is_over = true;
    has_guard = false;
}

bool signal_guard::requested() const noexcept { return was_requested; }

void signal_guard::check() const {
    if (requested()) throw interruption();
}

void signal_guard::remove_files_on_request(bool yes) noexcept {
    removes_on_request = yes;
    if (yes && requested()) io::remove_known_temporaries();
}

}  // namespace sluice::app
