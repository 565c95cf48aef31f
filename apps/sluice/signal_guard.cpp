#include "signal_guard.hpp"

#include <limits.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

#include "exit_status.hpp"

namespace sluice::app {
namespace {

using handler = void (*)(int);

volatile std::sig_atomic_t stop_asked = 0;

volatile std::sig_atomic_t has_file = 0;
char file_to_remove[PATH_MAX];  // set while has_file is 0

void ask_to_stop(int) {
    stop_asked = 1;
    if (has_file != 0) ::unlink(file_to_remove);
}

// A signal that was ignored (nohup, background jobs) stays so.
handler take_over(int signal) {
    const handler before = std::signal(signal, ask_to_stop);
    if (before == SIG_IGN) std::signal(signal, SIG_IGN);
    return before;
}

}  // namespace

signal_guard::signal_guard() : interrupt_(take_over(SIGINT)), terminate_(take_over(SIGTERM)) { stop_asked = 0; }

signal_guard::~signal_guard() {
    std::signal(SIGINT, interrupt_);
    std::signal(SIGTERM, terminate_);
}

bool signal_guard::asked() const noexcept { return stop_asked != 0; }

void signal_guard::check() const {
    if (asked()) throw interruption();
}

void signal_guard::remove_when_asked(const std::filesystem::path& file) noexcept {
    has_file = 0;
    if (file.native().size() >= sizeof file_to_remove) return;
    std::strcpy(file_to_remove, file.c_str());
    has_file = 1;
    if (asked()) ::unlink(file_to_remove);  // it was asked too early for the handler
}

void signal_guard::remove_nothing() noexcept { has_file = 0; }

}  // namespace sluice::app
