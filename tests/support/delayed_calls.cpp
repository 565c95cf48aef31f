// SPDX-License-Identifier: Apache-2.0
// Sleeps at random around calls of the C library that threads and processes use to talk to each other: locks, wake-ups,
// sockets, files, and free(), which is called nearly everywhere. A test that expects an order of events which nothing
// ensures then fails in one of a few runs, instead of one of thousands. For LD_PRELOAD; scripts/with_delays compiles it
// and runs programs with it.
//
// DELAYED_CALLS_ONE_IN: one call of this many is delayed; locks are delayed less often, free() still less.
// DELAYED_CALLS_MOST_US: a delay is shorter than this. DELAYED_CALLS_SEED: other delays. A seed does not repeat a run:
// which thread makes which call is up to the system.
#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdlib>

namespace {

std::uint64_t number_of(const char* name, std::uint64_t otherwise) {
    const char* const text = std::getenv(name);
    return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

std::uint64_t one_in = 0, most_us = 0, seed = 0;
std::atomic<bool> is_ready{false};  // set once the numbers above are read
std::atomic<std::uint64_t> threads{0};

[[gnu::tls_model("initial-exec")]] constinit thread_local std::uint64_t state = 0;
[[gnu::tls_model("initial-exec")]] constinit thread_local bool is_delaying = false;

[[gnu::constructor]] void read_numbers() {
    one_in = number_of("DELAYED_CALLS_ONE_IN", 60);
    most_us = number_of("DELAYED_CALLS_MOST_US", 20'000);
    seed = number_of("DELAYED_CALLS_SEED", 1);
    is_ready = one_in != 0 && most_us != 0;
}

// xorshift, for each thread of each process another one.
std::uint64_t next_number() {
    if (state == 0) {
        state =
            seed * 0x9E3779B97F4A7C15u ^ ++threads * 0xD1B54A32D192ED03u ^ static_cast<std::uint64_t>(getpid()) << 20;
        state |= 1;
    }
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state >> 20;
}

// One of one_in * `rarity` times.
void sometimes_sleep(std::uint64_t rarity) {
    if (!is_ready.load(std::memory_order_relaxed) || is_delaying || next_number() % (one_in * rarity) != 0) return;
    is_delaying = true;
    const int error = errno;
    const auto us = static_cast<long>(next_number() % most_us);
    const timespec time{us / 1'000'000, us % 1'000'000 * 1000};
    nanosleep(&time, nullptr);
    errno = error;
    is_delaying = false;
}

// The function that has this name without this library.
template <typename Function>
Function* original(std::atomic<Function*>& known, const char* name) {
    Function* found = known.load(std::memory_order_relaxed);
    if (found == nullptr) {
        found = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
        known.store(found, std::memory_order_relaxed);
    }
    return found;
}

}  // namespace

// A function that calls the original one, now and then with a delay before it or after it.
#define DELAYED(result, name, parameters, arguments, rarity)                    \
    extern "C" result name parameters {                                         \
        static constinit std::atomic<result(*) parameters> known{nullptr};      \
        sometimes_sleep(rarity);                                                \
        const result got = original<result parameters>(known, #name) arguments; \
        sometimes_sleep(rarity);                                                \
        return got;                                                             \
    }

DELAYED(int, pthread_mutex_lock, (pthread_mutex_t * lock) noexcept, (lock), 4)
DELAYED(int, pthread_mutex_unlock, (pthread_mutex_t * lock) noexcept, (lock), 4)
DELAYED(int, pthread_cond_signal, (pthread_cond_t * wake) noexcept, (wake), 1)
DELAYED(int, pthread_cond_broadcast, (pthread_cond_t * wake) noexcept, (wake), 1)
DELAYED(int, epoll_wait, (int from, epoll_event* events, int most, int ms), (from, events, most, ms), 1)
DELAYED(int, poll, (pollfd * of, nfds_t count, int ms), (of, count, ms), 1)
DELAYED(ssize_t, read, (int from, void* to, size_t size), (from, to, size), 1)
DELAYED(ssize_t, write, (int to, const void* from, size_t size), (to, from, size), 1)
DELAYED(ssize_t, send, (int to, const void* from, size_t size, int flags), (to, from, size, flags), 1)
DELAYED(ssize_t, recv, (int from, void* to, size_t size, int flags), (from, to, size, flags), 1)
DELAYED(ssize_t, sendmsg, (int to, const msghdr* what, int flags), (to, what, flags), 1)
DELAYED(ssize_t, recvmsg, (int from, msghdr* what, int flags), (from, what, flags), 1)
DELAYED(int, close, (int what), (what), 1)

// Waits and wake-ups of std::atomic.
extern "C" long syscall(long number, ...) noexcept {
    using function = long(long, ...);
    static constinit std::atomic<function*> known{nullptr};
    va_list list;
    va_start(list, number);
    long given[6];
    for (long& each : given) each = va_arg(list, long);
    va_end(list);
    if (number == SYS_futex) sometimes_sleep(1);
    return original<function>(known, "syscall")(number, given[0], given[1], given[2], given[3], given[4], given[5]);
}

extern "C" void free(void* memory) noexcept {
    static constinit std::atomic<void (*)(void*)> known{nullptr};
    original<void(void*)>(known, "free")(memory);
    sometimes_sleep(16);
}
