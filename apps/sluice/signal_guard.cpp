#include "signal_guard.hpp"

#include <csignal>

#include "exit_status.hpp"

namespace sluice::app {
namespace {

using handler = void (*)(int);

volatile std::sig_atomic_t stop_asked = 0;

void ask_to_stop(int) { stop_asked = 1; }

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

}  // namespace sluice::app
