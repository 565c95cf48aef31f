// SPDX-License-Identifier: Apache-2.0
// A timer of the system and no thread: some tests count threads, forbid new ones, or fork. A child process has no
// timer.
#include "support/hang_watch.h"

#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>

namespace {

char name_of_test[512];
unsigned seconds = SLUICE_TEST_SECONDS;

void say(const char* text) { static_cast<void>(!write(STDERR_FILENO, text, std::strlen(text))); }

void report(int) {
    char digits[16] = {};
    char* at = digits + sizeof(digits) - 1;
    for (unsigned left = seconds; left != 0; left /= 10) *--at = static_cast<char>('0' + left % 10);
    say("\nFAILED: the test ");
    say(name_of_test);
    say(" has not got further for ");
    say(at);
    say(" s (SLUICE_TEST_SECONDS)\n");
    std::abort();
}

bool is_on() {
    static const bool on = [] {
        if (const char* const given = std::getenv("SLUICE_TEST_SECONDS"))
            seconds = static_cast<unsigned>(std::strtoul(given, nullptr, 10));
        if (seconds != 0) std::signal(SIGALRM, &report);
        return seconds != 0;
    }();
    return on;
}

}  // namespace

extern "C" void sluice_watch_test(const char* name) {
    if (!is_on()) return;
    alarm(0);  // the handler reads the name
    std::strncpy(name_of_test, name, sizeof(name_of_test) - 1);
    alarm(seconds);
}

extern "C" void sluice_end_watch() {
    if (is_on()) alarm(0);
}
