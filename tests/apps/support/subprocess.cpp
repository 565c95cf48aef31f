// SPDX-License-Identifier: Apache-2.0
#include "apps/support/subprocess.hpp"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <ostream>
#include <system_error>
#include <utility>

namespace sluice::app::testing {
namespace {

// How the tool is started: what its descriptors are, and all signals as they are by default, whatever the runner of
// the tests ignores.
class spawn_settings {
public:
    spawn_settings() {
        posix_spawn_file_actions_init(&actions_);
        posix_spawnattr_init(&attributes_);
        sigset_t all;
        sigfillset(&all);
        posix_spawnattr_setsigdefault(&attributes_, &all);
        posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGDEF);
    }
    spawn_settings(const spawn_settings&) = delete;  // owns C structures
    spawn_settings& operator=(const spawn_settings&) = delete;
    ~spawn_settings() {
        posix_spawnattr_destroy(&attributes_);
        posix_spawn_file_actions_destroy(&actions_);
    }

    void open(int descriptor, const std::string& path, int flags) {
        posix_spawn_file_actions_addopen(&actions_, descriptor, path.c_str(), flags, 0600);
    }
    int spawn(pid_t& pid, const std::vector<char*>& argv) const {
        return posix_spawnp(&pid, argv.front(), &actions_, &attributes_, argv.data(), environ);
    }

private:
    posix_spawn_file_actions_t actions_{};
    posix_spawnattr_t attributes_{};
};

}  // namespace

std::ostream& operator<<(std::ostream& to, const outcome& what) {
    return to << "exit code " << what.exit_code << ", signal " << what.signal << "\nstdout: " << what.out
              << "\nstderr: " << what.err;
}

command_line tool_command(const std::vector<std::string>& arguments) {
    command_line command{{SLUICE_TOOL}};
    command.words.insert(command.words.end(), arguments.begin(), arguments.end());
    return command;
}

tool_process::tool_process(const command_line& command) {
    std::vector<std::string> all = command.words;
    std::vector<char*> argv;
    for (std::string& each : all) argv.push_back(each.data());
    argv.push_back(nullptr);

    spawn_settings settings;
    settings.open(STDIN_FILENO, "/dev/null", O_RDONLY);
    settings.open(STDOUT_FILENO, (streams_ / "out").string(), O_WRONLY | O_CREAT);
    settings.open(STDERR_FILENO, (streams_ / "err").string(), O_WRONLY | O_CREAT);
    const int failure = settings.spawn(pid_, argv);
    if (failure != 0) throw std::system_error(failure, std::generic_category(), argv.front());
}

tool_process::~tool_process() {
    if (pid_ == -1) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
}

void tool_process::send(int signal) const {
    if (::kill(pid_, signal) != 0) throw std::system_error(errno, std::generic_category(), "kill");
}

bool tool_process::has_ended() const {
    siginfo_t state{};
    return ::waitid(P_PID, static_cast<id_t>(pid_), &state, WEXITED | WNOHANG | WNOWAIT) == 0 && state.si_pid == pid_;
}

outcome tool_process::wait() {
    int status = 0;
    rusage used{};
    while (::wait4(pid_, &status, 0, &used) == -1) {
        if (errno != EINTR) throw std::system_error(errno, std::generic_category(), "wait4");
    }
    pid_ = -1;
    outcome came;
    if (WIFEXITED(status)) came.exit_code = WEXITSTATUS(status);
    if (WIFSIGNALED(status)) came.signal = WTERMSIG(status);
    came.out = io::testing::read_file(streams_ / "out");
    came.err = io::testing::read_file(streams_ / "err");
    came.peak_memory_bytes = static_cast<std::size_t>(used.ru_maxrss) * 1024;
    return came;
}

}  // namespace sluice::app::testing
