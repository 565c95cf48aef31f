// SPDX-License-Identifier: Apache-2.0
// Runs random programs in every possible way and compares the results bit for bit with a plain evaluation on the host.
//
//     stress [--seconds N] [--threads N] [--seed S] [--sessions N] [--only NAME] [--without NAME] [--device NAME]
//            [--stuck N] [--or-skip CODE]
//
// A session is generated from its seed, and each further session adds one to the seed. A failure names its session's
// seed; `--seed S --sessions 1` with the same number of threads repeats that session. Several threads do not run the
// same way each time: `--again` with more --sessions repeats the same seed. NAME is programs, inner, simulated,
// launchable, host-driven or deep; `--without` also takes features of programs: control, inner, pointers, selection.
// Exits with 1 when something failed; with CODE when there is no such device, unless SLUICE_REQUIRE_GPU is set. A
// session that takes longer than `--stuck`, 600 seconds, is stuck: the process prints its seed and ends.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>

#include "sluice/runtime/device.hpp"
#include "stress/sessions.hpp"

namespace {

using namespace sluice::stress;

struct settings {
    session_options session;
    double seconds = 10;
    std::uint64_t sessions = 0;  // 0: as many as fit in the time
    bool again = false;
    std::set<std::string> only, without;
    std::string device = "auto";
    double stuck = 600;            // seconds
    std::optional<int> skip_code;  // where the device is absent

    bool runs(const std::string& name) const {
        return (only.empty() || only.contains(name)) && !without.contains(name);
    }
};

settings read_settings(int count, char** words) {
    settings made;
    made.session.seed = std::random_device{}();
    const auto refuse = [](const std::string& why) {
        std::fprintf(stderr, "stress: %s; the options are at the top of tests/stress/main.cpp\n", why.c_str());
        std::exit(2);
    };
    for (int i = 1; i < count; ++i) {
        const std::string word = words[i];
        if (word == "--again") {
            made.again = true;
            continue;
        }
        if (i + 1 == count) refuse("'" + word + "' is not an option, or its value is missing");
        const std::string value = words[++i];
        if (word == "--seconds") {
            made.seconds = std::stod(value);
        } else if (word == "--threads") {
            made.session.threads = std::stoul(value);
        } else if (word == "--seed") {
            made.session.seed = std::stoull(value);
        } else if (word == "--sessions") {
            made.sessions = std::stoull(value);
        } else if (word == "--only") {
            made.only.insert(value);
        } else if (word == "--without") {
            made.without.insert(value);
            made.session.control &= value != "control";
            made.session.inner &= value != "inner";
            made.session.pointers &= value != "pointers";
            made.session.selection &= value != "selection";
        } else if (word == "--device") {
            made.device = value;
        } else if (word == "--stuck") {
            made.stuck = std::stod(value);
        } else if (word == "--or-skip") {
            made.skip_code = std::stoi(value);
        } else {
            refuse("'" + word + "' is not an option");
        }
    }
    return made;
}

// Prints the seed of the current session when the process dies.
std::atomic<std::uint64_t> seed_now{0};
void print_seed() {
    char text[] = "FAILED: died in the session of seed 00000000000000000000\n";
    std::uint64_t rest = seed_now;
    for (char* digit = text + sizeof text - 3; rest != 0; rest /= 10) *digit-- = static_cast<char>('0' + rest % 10);
    static_cast<void>(!write(STDOUT_FILENO, text, sizeof text - 1));
}
extern "C" void __sanitizer_set_death_callback(void (*callback)()) __attribute__((weak));
void print_seed_on_death() {
    if (__sanitizer_set_death_callback != nullptr) {
        __sanitizer_set_death_callback(print_seed);
        return;
    }
    for (const int which : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL}) {
        struct sigaction last = {};
        last.sa_handler = [](int signal) {
            print_seed();
            raise(signal);
        };
        last.sa_flags = SA_RESETHAND | SA_NODEFER;
        sigaction(which, &last, nullptr);
    }
}

// Ends the process when a session is stuck.
class watch {
public:
    explicit watch(double limit) : limit_(limit), thread_([this](const std::stop_token& stop) { run(stop); }) {}

    void begins(std::uint64_t seed) {
        const std::lock_guard lock(mutex_);
        seed_now = seed;
        began_ = std::chrono::steady_clock::now();
    }

private:
    void run(const std::stop_token& stop) {
        std::unique_lock lock(mutex_);
        while (!stop.stop_requested()) {
            changed_.wait_for(lock, stop, std::chrono::seconds(1), [] { return false; });
            if (std::chrono::steady_clock::now() - began_ < limit_) continue;
            std::printf("FAILED: the session of seed %llu is stuck\n",
                        static_cast<unsigned long long>(seed_now.load()));
            std::fflush(stdout);
            std::_Exit(1);
        }
    }

    const std::chrono::duration<double> limit_;
    std::mutex mutex_;
    std::condition_variable_any changed_;
    std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
    std::jthread thread_;
};

void run_session(sluice::device& on, const settings& with, const session_options& session, report& found) {
    // Expensive sessions run less often.
    const std::uint64_t turn = session.seed;
    if (with.runs("programs")) run_programs(on, session, found);
    if (with.runs("simulated")) simulate_programs(session, found);
    if (with.runs("inner") && session.inner && (turn % 4 == 2 || !with.only.empty())) run_inner(on, session, found);
    if (with.runs("host-driven") && (turn % 4 == 0 || !with.only.empty())) run_host_driven(on, session, found);
    if (with.runs("launchable") && (turn % 8 == 0 || !with.only.empty())) run_launchable(on, session, found);
    if (with.runs("deep") && (turn % 16 == 0 || !with.only.empty())) run_deep(on, session, found);
}

bool has_device(const sluice::runtime& machine, const std::string& name) {
    const auto all = machine.devices();
    return std::ranges::any_of(all, [&](const sluice::device* each) { return each->name() == name; });
}

}  // namespace

int main(int count, char** words) {
    const settings with = read_settings(count, words);
    std::printf("stress --seed %llu --threads %zu\n", static_cast<unsigned long long>(with.session.seed),
                with.session.threads);
    std::fflush(stdout);
    sluice::runtime machine({.cpu_workers = 3});
    if (with.skip_code && std::getenv("SLUICE_REQUIRE_GPU") == nullptr && !has_device(machine, with.device)) {
        std::printf("skipped: there is no device %s\n", with.device.c_str());
        return *with.skip_code;
    }
    sluice::device& on = machine.find(with.device);
    print_seed_on_death();
    report found;
    watch stuck(with.stuck);
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(with.seconds);
    session_options session = with.session;
    std::uint64_t done = 0;
    while (with.sessions != 0 ? done < with.sessions : std::chrono::steady_clock::now() < end) {
        stuck.begins(session.seed);
        run_session(on, with, session, found);
        ++done;
        if (!with.again) ++session.seed;
        if (found.failures() > 20) break;
    }
    std::printf("%llu sessions: %s; %llu failures\n", static_cast<unsigned long long>(done), found.counted().c_str(),
                static_cast<unsigned long long>(found.failures()));
    if (found.failures() != 0) {
        std::printf(
            "to run one again: stress --seed SEED --sessions 1 --threads %zu (--sessions 100 --again for what "
            "does not fail each time)\n",
            with.session.threads);
    }
    return found.failures() != 0 ? 1 : 0;
}
