// SPDX-License-Identifier: Apache-2.0
// control_loop: a loop at 1 kHz whose controller stays on the GPU. Each millisecond the host sends a measurement and
// gets a command, some microseconds later and without a launch.
//
//     control_loop                                            four seconds of simulated time, as fast as it goes
//     control_loop --seconds 10 --histogram latencies.svg     at 1 kHz; prints and draws how long the answers took
#include <sluice/drawing/line_chart.hpp>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <thread>

#include "control_loop.hpp"

namespace {

using namespace control_loop;
using clock_type = std::chrono::steady_clock;

struct options {
    double seconds = 0;
    const char* histogram = nullptr;
};

bool read_options(int count, char** words, options& into) {
    for (int i = 1; i < count; i += 2) {
        if (i + 1 == count) return false;
        if (std::strcmp(words[i], "--seconds") == 0) {
            char* end = nullptr;
            into.seconds = std::strtod(words[i + 1], &end);
            if (*end != 0 || !(into.seconds >= 0.01 && into.seconds <= 86400)) return false;
        } else if (std::strcmp(words[i], "--histogram") == 0) {
            into.histogram = words[i + 1];
        } else {
            return false;
        }
    }
    return into.histogram == nullptr || into.seconds > 0;
}

// How many answers took up to each of these times: twelve to a decade.
line_chart histogram_of(const std::vector<double>& microseconds) {
    constexpr double steps[] = {1, 1.2, 1.5, 1.8, 2.2, 2.7, 3.3, 3.9, 4.7, 5.6, 6.8, 8.2};
    line_chart made{.title = std::to_string(microseconds.size()) + " answers",
                    .x_label = "up to this time (µs)",
                    .y_label = "answers",
                    .series = {{.name = "host to host, at 1 kHz"}}};
    double before = 0;
    for (double decade = 0.01; decade < 1e6; decade *= 10) {
        for (const double step : steps) {
            const double upto = step * decade;
            const auto count =
                std::ranges::count_if(microseconds, [&](double each) { return each > before && each <= upto; });
            before = upto;
            if (count > 0) made.series[0].points.push_back({upto, double(count)});
        }
    }
    return made;
}

void run_in_time(const resident_kernel<controller>& control, const options& how) {
    pendulum rod(0.3f);
    std::vector<double> times;
    auto due = clock_type::now();
    const auto end = due + std::chrono::duration_cast<clock_type::duration>(std::chrono::duration<double>(how.seconds));
    for (; due < end; due += std::chrono::milliseconds(1)) {
        // A thread that sleeps wakes too late now and then: the last part of the wait spins.
        std::this_thread::sleep_until(due - std::chrono::microseconds(200));
        while (clock_type::now() < due) {
        }
        const reading now = rod.measure();
        const auto begin = clock_type::now();
        const command given = control.ask(now);
        times.push_back(std::chrono::duration<double, std::micro>(clock_type::now() - begin).count());
        rod.apply(given);
    }
    std::ranges::sort(times);
    const auto quantile = [&](double part) { return times[std::size_t(part * double(times.size() - 1))]; };
    std::printf("%zu answers: median %.2f us, 99 %% %.2f us, 99.9 %% %.2f us, the latest %.2f us\n", times.size(),
                quantile(0.5), quantile(0.99), quantile(0.999), times.back());
    if (how.histogram == nullptr) return;
    std::ofstream file(how.histogram);
    const line_chart chart = histogram_of(times);
    write_line_charts("Answers of the controller", {&chart, 1}, file);
    if (!file.flush()) throw std::runtime_error(std::string("cannot write ") + how.histogram);
}

}  // namespace

int main(int count, char** words) try {
    options how;
    if (!read_options(count, words, how)) {
        std::fputs("usage: control_loop [--seconds 0.01...86400 [--histogram FILE.svg]]\n", stderr);
        return 2;
    }
    setenv("CUDA_MODULE_LOADING", "EAGER", 1);  // before CUDA is used: see sluice/nn/resident.hpp
    runtime machine;
    const resident_kernel control(machine.default_device(), controller{});
    for (const std::string& each : balance([&](const reading& now) { return control.ask(now); }))
        std::puts(each.c_str());
    if (how.seconds > 0) run_in_time(resident_kernel(machine.default_device(), controller{}), how);
} catch (const std::exception& failure) {
    std::fprintf(stderr, "control_loop: %s\n", failure.what());
    return 1;
}
