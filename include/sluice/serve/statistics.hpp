// SPDX-License-Identifier: Apache-2.0
// statistics: what a model has done since it was loaded.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "sluice/serve/sequence.hpp"

namespace sluice::serve {

// How often something took how long.
struct duration_sum {
    std::uint64_t count = 0;            // how often
    std::chrono::nanoseconds total{0};  // of all times

    // Counts that it took this time, `times` times. Costs O(1).
    void add(std::chrono::nanoseconds one, std::uint64_t times = 1) noexcept {
        count += times;
        total += one * static_cast<std::int64_t>(times);
    }
};

// The batches of one number of rows.
struct batch_statistics {
    duration_sum input, infer, output;  // times of the batches, as in model_statistics
};

// What a model has done. A copy of one moment: nothing in it changes by itself.
struct model_statistics {
    // Upper bounds of the histogram of the requests' times, in microseconds; the last bucket has no bound.
    static constexpr std::array<std::uint64_t, 15> bounds_us{
        25, 50, 100, 250, 500, 1'000, 2'500, 5'000, 10'000, 25'000, 50'000, 100'000, 250'000, 1'000'000, 5'000'000};

    // The bucket of a request that took this time: the first whose bound is not below it.
    static std::size_t bucket_of(std::chrono::nanoseconds time) noexcept {
        const auto is_below = [](std::uint64_t bound, std::chrono::nanoseconds its) {
            return std::chrono::microseconds(bound) < its;
        };
        const auto* const bucket =
            std::lower_bound(bounds_us.data(), bounds_us.data() + bounds_us.size(), time, is_below);
        return static_cast<std::size_t>(bucket - bounds_us.data());
    }

    duration_sum success;                // requests that were answered, from the queue's entrance to the answer
    duration_sum fail;                   // requests that were computed and failed, or whose answer could not be written
    duration_sum queue;                  // the time that each waited
    duration_sum input;                  // joining the inputs of a batch, for each of its requests; so the two below
    duration_sum infer;                  // computing
    duration_sum output;                 // splitting and writing the answers
    std::uint64_t refused_full = 0;      // the queue was full
    std::uint64_t refused_late = 0;      // the request's time was over
    std::uint64_t cancelled = 0;         // the client had gone
    std::uint64_t delayed = 0;           // the request's time was over, and others came before it
    std::uint64_t rows = 0;              // inferences: rows of batches; of a model without batches, requests
    std::uint64_t batches = 0;           // executions
    std::uint64_t on_caller_thread = 0;  // batches that ran on the thread that took the requests
    std::chrono::system_clock::time_point last{};                // when the last batch ended
    std::chrono::steady_clock::time_point last_asked{};          // when the last request came, whatever became of it
    std::array<std::uint64_t, bounds_us.size() + 1> latency{};   // the histogram: requests by the bounds of bounds_us
    std::map<std::size_t, batch_statistics> by_rows;             // by the number of rows
    std::array<std::uint64_t, sequence_ends> ended_sequences{};  // by the value of sequence_end
    std::size_t sequences = 0;  // live now; as those that ended, of the versions before too
    std::size_t waiting = 0;    // now
    std::size_t running = 0;    // requests in batches that are computed now
};

}  // namespace sluice::serve
