// SPDX-License-Identifier: Apache-2.0
// What the calls of one front end of gRPC share.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "serve/grpc/answer_watch.hpp"
#include "serve/served_hosts.hpp"
#include "sluice/serve/grpc_front.hpp"

namespace sluice::serve {

class stream_reactor;

struct grpc_state {
    static constexpr std::size_t codes = 17;  // OK to UNAUTHENTICATED

    // `its_options` has a budget.
    grpc_state(server& its_models, grpc_options its_options, log_sink its_log)
        : models(its_models),
          options(std::move(its_options)),
          log(std::move(its_log)),
          hosts(options.address, options.host_names),
          answers(options.write_time) {}

    // A request has failed through no fault of its own: for the log, at most one line a second.
    void note_failure(const std::string& why) {
        if (!log) return;
        std::size_t count = 0;
        {
            const std::lock_guard lock(mutex);
            ++failures;
            const auto now = std::chrono::steady_clock::now();
            if (now - failure_logged < std::chrono::seconds(1)) return;
            failure_logged = now;
            count = std::exchange(failures, 0);
        }
        log({log_level::error,
             "request_failed",
             std::to_string(count) + " requests over gRPC have failed, the last one: " + why,
             {}});
    }

    server& models;
    const grpc_options options;
    const log_sink log;
    const served_hosts hosts;
    answer_watch answers;
    std::atomic<std::size_t> in_flight{0};                    // requests that are not answered, and loads
    std::array<std::atomic<std::uint64_t>, codes> replies{};  // by status
    std::atomic<std::uint64_t> wrong_traceparents{0};
    std::mutex mutex;  // of what follows
    std::chrono::steady_clock::time_point failure_logged{};
    std::size_t failures = 0;  // that the log does not have
    std::vector<std::weak_ptr<stream_reactor>> streams;
};

}  // namespace sluice::serve
