// SPDX-License-Identifier: Apache-2.0
// A library for beside_torch.py: pipelines of Sluice on two threads, until they are stopped, in a process in which
// PyTorch captures CUDA graphs.
#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "cuda/other_code.hpp"

namespace {

using namespace sluice;
using namespace sluice::other_code;

struct work {
    gpu_machine with;
    std::atomic<bool> stops{false};
    std::atomic<long> good{0};
    std::string failures[2];
    std::thread threads[2];
};
std::unique_ptr<work> current;
std::string report;

}  // namespace

// Null, or why it could not begin.
extern "C" const char* sluice_beside_begin() {
    try {
        current = std::make_unique<work>();
    } catch (const std::exception& failure) {
        report = failure.what();
        return report.c_str();
    }
    work& all = *current;
    const auto run = [&all](std::string& failure, bool waits) {
        failure = failure_of([&] {
            for (std::size_t i = 0; !all.stops; ++i, ++all.good) {
                if (waits) {
                    require_right(all.with.pool, 1000 + 1000 * (i % 500));
                } else if (sync_wait(awaited(all.with.pool, 3)) != 6) {
                    throw std::runtime_error("a wrong result");
                }
                if (waits && i % 500 == 0) all.with.gpu.trim();
            }
        });
    };
    all.threads[0] = std::thread(run, std::ref(all.failures[0]), true);
    all.threads[1] = std::thread(run, std::ref(all.failures[1]), false);
    return nullptr;
}

// The number of right results, or -1 with the reason in *why.
extern "C" long sluice_beside_end(const char** why) {
    current->stops = true;
    for (std::thread& each : current->threads) each.join();
    report = current->failures[0] + current->failures[1];
    *why = report.c_str();
    const long good = report.empty() ? current->good.load() : -1;
    current.reset();
    return good;
}
