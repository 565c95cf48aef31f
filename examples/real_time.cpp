// SPDX-License-Identifier: Apache-2.0
// real_time: a control loop with a network in it. Each period has a due time; the loop sleeps until then, writes what
// the sensors say into the network's input, runs it, and reads the command from its output. Nothing in a period
// allocates, locks or calls the system, but for the sleep.
//
//     real_time [--model FILE] [--periods N] [--hertz N] [--core N] [--priority N] [--json]
//
// With --core the thread stays on that core; with --priority (1 to 99) it is scheduled as SCHED_FIFO, which needs the
// right for it (CAP_SYS_NICE, or ulimit -r), and its memory is locked. What the system refuses is said, and the loop
// runs without it. Times go to standard error, with --json to standard output.
#include <sched.h>
#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/nn/network.hpp"
#include "sluice/nn/onnx.hpp"
#include "sluice/runtime/runtime.hpp"
#include "sluice/runtime/scheduling_policy.hpp"
#include "sluice/runtime/sync.hpp"

namespace {

using namespace sluice;

struct options {
    std::string model = SLUICE_SOURCE_DIR "/models/digits.onnx";
    std::size_t periods = 2'000;
    std::uint64_t hertz = 1'000;
    int core = -1;
    int priority = 0;
    bool json = false;
};

options read_options(int count, char** arguments) {
    options made;
    for (int i = 1; i < count; ++i) {
        const std::string_view name = arguments[i];
        if (name == "--json") {
            made.json = true;
            continue;
        }
        if (i + 1 == count) throw std::invalid_argument(std::string(name) + " has no value");
        const char* const value = arguments[++i];
        if (name == "--model") {
            made.model = value;
            continue;
        }
        char* end = nullptr;
        const long number = std::strtol(value, &end, 10);
        if (end == value || *end != '\0' || number < 0)
            throw std::invalid_argument(std::string(name) + " takes a number");
        if (name == "--periods") {
            made.periods = static_cast<std::size_t>(number);
        } else if (name == "--hertz") {
            made.hertz = static_cast<std::uint64_t>(number);
        } else if (name == "--core") {
            made.core = static_cast<int>(number);
        } else if (name == "--priority") {
            made.priority = static_cast<int>(number);
        } else {
            throw std::invalid_argument("there is no option " + std::string(name));
        }
    }
    if (made.periods == 0 || made.hertz == 0) throw std::invalid_argument("--periods and --hertz are at least 1");
    return made;
}

// Says what the system refused: a late period is then no surprise.
void take_core_and_priority(const options& how) {
    if (how.core >= 0) {
        cpu_set_t cores;
        CPU_ZERO(&cores);
        CPU_SET(how.core, &cores);
        if (sched_setaffinity(0, sizeof(cores), &cores) != 0) {
            std::fprintf(stderr, "not on core %d: %s\n", how.core, std::strerror(errno));
        }
    }
    if (how.priority > 0) {
        if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0) {
            std::fprintf(stderr, "memory may be paged: %s\n", std::strerror(errno));
        }
        sched_param at{};
        at.sched_priority = how.priority;
        if (sched_setscheduler(0, SCHED_FIFO, &at) != 0) {
            std::fprintf(stderr, "not SCHED_FIFO: %s\n", std::strerror(errno));
        }
    }
}

std::uint64_t nanoseconds() {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

void sleep_until(std::uint64_t due) {
    const timespec at{.tv_sec = static_cast<time_t>(due / 1'000'000'000),
                      .tv_nsec = static_cast<long>(due % 1'000'000'000)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, nullptr) == EINTR) {
    }
}

// Times of up to 100 ms in steps of 100 ns, and what is above. Counting allocates nothing.
class histogram {
public:
    void add(std::uint64_t time) {
        counts_[std::min<std::size_t>(time / step, counts_.size() - 1)] += 1;
        worst_ = std::max(worst_, time);
        ++all_;
    }
    // The time, in microseconds, that this share of the periods does not exceed.
    double quantile(double share) const {
        const auto rank = static_cast<std::uint64_t>(std::ceil(share * static_cast<double>(all_)));
        std::uint64_t seen = 0;
        for (std::size_t i = 0; i + 1 < counts_.size(); ++i) {
            seen += counts_[i];
            if (seen >= rank) return std::min(static_cast<double>((i + 1) * step), static_cast<double>(worst_)) / 1e3;
        }
        return worst();
    }
    double worst() const { return static_cast<double>(worst_) / 1e3; }

private:
    static constexpr std::uint64_t step = 100;  // ns
    std::array<std::uint64_t, 1'000'001> counts_{};
    std::uint64_t worst_ = 0, all_ = 0;
};

// How late the thread woke, how long the period's work took, and when the command was there after it was due.
struct timings {
    histogram late, work, done;
};

void print(const char* what, const histogram& of, bool json) {
    const char* const form =
        json ? "{\"runtime\": \"sluice\", \"what\": \"%s\", \"p50_us\": %.1f, \"p99_us\": %.1f, \"p99_99_us\": %.1f, "
               "\"worst_us\": %.1f}\n"
             : "%-8s p50 %8.1f us   p99 %8.1f us   p99.99 %8.1f us   worst %8.1f us\n";
    std::fprintf(json ? stdout : stderr, form, what, of.quantile(0.5), of.quantile(0.99), of.quantile(0.9999),
                 of.worst());
}

void control(const options& how) {
    runtime machine({.cpu_workers = 1, .cuda = false});
    single_stream on(machine.find("cpu:0"));
    const nn::network policy = sync(nn::make_network(nn::load_onnx(how.model)), on);
    std::vector<nn::input_shape> shapes;
    for (const nn::value_info& each : policy.inputs()) {
        nn::input_shape& one = shapes.emplace_back(nn::input_shape{each.name, {}});
        if (!each.shape) throw std::invalid_argument("the model says no shape for " + each.name);
        for (const nn::dimension& length : *each.shape) one.shape.push_back(length.length.value_or(1));
    }
    nn::prepared step = policy.prepare(shapes);
    const std::span<float> sensors = step.input<float>(0);
    const std::span<const float> command = step.output<float>(0);

    const auto times = std::make_unique<timings>();
    take_core_and_priority(how);
    step.run();  // this thread's scratch memory is made here
    const std::uint64_t period = 1'000'000'000 / how.hertz;
    std::uint64_t due = nanoseconds() + period;
    std::size_t commands = 0;
    for (std::size_t i = 0; i < how.periods; ++i, due += period) {
        sleep_until(due);
        const std::uint64_t woke = nanoseconds();
        std::ranges::fill(sensors, static_cast<float>(i % 16));
        step.run();
        if (std::isfinite(command[0])) ++commands;  // where a robot would move
        const std::uint64_t done = nanoseconds();
        times->late.add(woke - due);
        times->work.add(done - woke);
        times->done.add(done - due);
    }
    if (!how.json) std::printf("%zu commands in %zu periods\n", commands, how.periods);
    print("woke", times->late, how.json);
    print("work", times->work, how.json);
    print("done", times->done, how.json);
}

}  // namespace

int main(int count, char** arguments) try {
    control(read_options(count, arguments));
} catch (const std::exception& failure) {
    std::fprintf(stderr, "real_time: %s\n", failure.what());
    return 1;
}
