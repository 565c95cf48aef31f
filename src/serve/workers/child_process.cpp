// SPDX-License-Identifier: Apache-2.0
#include "serve/workers/child_process.hpp"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "serve/workers/given_descriptors.hpp"
#include "sluice/base/error.hpp"
#include "sluice/base/printable.hpp"
#include "sluice/io/file_descriptor.hpp"

namespace sluice::serve {
namespace {

// A copy above those that the process gets, so that none of them is overwritten before it is copied.
io::file_descriptor moved_up(int descriptor) {
    io::file_descriptor made(::fcntl(descriptor, F_DUPFD_CLOEXEC, given_memory + 1));
    if (!made)
        throw error(errc::io_failed, "no descriptors for a worker process: " + std::generic_category().message(errno));
    return made;
}

struct spawn_setup {
    spawn_setup(int control, int memory) {
        ::posix_spawn_file_actions_init(&actions);
        ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
        ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
        ::posix_spawn_file_actions_adddup2(&actions, control, given_control);
        ::posix_spawn_file_actions_adddup2(&actions, memory, given_memory);
#if defined(__GLIBC__)
#if __GLIBC_PREREQ(2, 34)  // else the process closes them itself, a little later
        ::posix_spawn_file_actions_addclosefrom_np(&actions, given_memory + 1);
#endif
#endif
        ::posix_spawnattr_init(&attributes);
        sigset_t all{}, blocked{};
        ::sigfillset(&all);
        ::sigemptyset(&blocked);
        for (const int each : {SIGHUP, SIGINT, SIGTERM}) ::sigaddset(&blocked, each);
        ::posix_spawnattr_setsigdefault(&attributes, &all);
        ::posix_spawnattr_setsigmask(&attributes, &blocked);
        ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
    }
    spawn_setup(const spawn_setup&) = delete;  // it is freed once
    spawn_setup& operator=(const spawn_setup&) = delete;
    ~spawn_setup() {
        ::posix_spawn_file_actions_destroy(&actions);
        ::posix_spawnattr_destroy(&attributes);
    }

    posix_spawn_file_actions_t actions{};
    posix_spawnattr_t attributes{};
};

std::string words_of_end(int status) {
    if (WIFSIGNALED(status)) {
        const int signal = WTERMSIG(status);
        const char* const name = ::sigdescr_np(signal);
        return "signal " + std::to_string(signal) + (name ? " (" + std::string(name) + ")" : "") + " ended it";
    }
    return "it ended with status " + std::to_string(WEXITSTATUS(status));
}

}  // namespace

child_process::child_process(const std::vector<std::string>& command, int control, int memory) {
    const io::file_descriptor high_control = moved_up(control), high_memory = moved_up(memory);
    const spawn_setup setup(high_control.get(), high_memory.get());
    std::vector<std::string> kept = command;
    std::vector<char*> words;
    words.reserve(kept.size() + 1);
    for (std::string& each : kept) words.push_back(each.data());
    words.push_back(nullptr);
    const int failed = ::posix_spawn(&id_, words.front(), &setup.actions, &setup.attributes, words.data(), environ);
    if (failed == 0) return;
    throw error(errc::io_failed, "cannot start the worker process " + in_quotes(command.front()) + ": " +
                                     std::generic_category().message(failed));
}

child_process::~child_process() {
    kill();
    if (!is_reaped_) ::waitpid(id_, nullptr, WNOHANG);
}

void child_process::kill() noexcept {
    if (!is_reaped_) ::kill(id_, SIGKILL);
}

std::optional<std::string> child_process::look_for_end() {
    if (!is_reaped_) {
        int status = 0;
        const pid_t got = ::waitpid(id_, &status, WNOHANG);
        is_reaped_ = got == id_ || (got < 0 && errno == ECHILD);  // where SIGCHLD is ignored, the system has reaped it
        if (got == id_) return words_of_end(status);
    }
    return is_reaped_ ? std::optional<std::string>("it has ended") : std::nullopt;
}

}  // namespace sluice::serve
