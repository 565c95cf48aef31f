// SPDX-License-Identifier: Apache-2.0
// Engines whose workers are the tests' program, and what tests do with them.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "io/support/temporary_directory.hpp"
#include "serve/workers/trouble.hpp"
#include "sluice/nn/any_tensor.hpp"
#include "sluice/serve/worker_engine.hpp"

namespace sluice::serve::testing {

// `workers` that compute, and `spares`; small hatches, so that messages take several turns.
inline worker_engine_options peers(std::size_t workers, std::size_t spares) {
    return {.workers = workers,
            .spares = spares,
            .engine = {.device = "cpu", .machine = {.cpu_workers = 1, .cuda = false}},
            .hatches = 4,
            .hatch_bytes = 4096,
            .command = {SLUICE_WORKER_PEER}};
}

// The lines of a log, from any thread.
class kept_lines {
public:
    log_sink sink() {
        return [this](const log_line& line) {
            const std::lock_guard lock(mutex_);
            lines_.push_back(line);
        };
    }
    // The messages of this event.
    std::vector<std::string> of(const std::string& event) const {
        const std::lock_guard lock(mutex_);
        std::vector<std::string> found;
        for (const log_line& each : lines_)
            if (each.event == event) found.push_back(each.message);
        return found;
    }

private:
    mutable std::mutex mutex_;
    std::vector<log_line> lines_;
};

inline nn::any_tensor row_with(float number) { return {std::vector<float>{number, 2}, {1, 2}}; }

inline void write_trouble(const std::filesystem::path& file, const std::string& word) { std::ofstream(file) << word; }

// A model of the tests' program.
class trouble {
public:
    explicit trouble(worker_engine& engine, const std::string& word = "fine") : model_(load(engine, word)) {}

    const loaded_model& model() const { return *model_; }
    std::vector<nn::any_tensor> run(float number) const { return model_->run({row_with(number)}); }
    bool answers(float number) const {
        const auto got = run(number);
        return got.size() == 1 && got[0].shape() == std::vector<std::size_t>{1, 2} &&
               got[0].values<float>()[0] == number;
    }
    std::filesystem::path file() const { return folder_ / "a.trouble"; }

private:
    std::shared_ptr<const loaded_model> load(worker_engine& engine, const std::string& word) {
        write_trouble(file(), word);
        return engine.load({"a", 1, file()}, {});
    }

    io::testing::temporary_directory folder_;
    std::shared_ptr<const loaded_model> model_;
};

inline void wait_until(const std::function<bool()>& holds) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!holds()) {
        if (std::chrono::steady_clock::now() > end) FAIL() << "it has not happened";
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
}

}  // namespace sluice::serve::testing
