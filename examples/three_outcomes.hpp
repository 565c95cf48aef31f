// SPDX-License-Identifier: Apache-2.0
// The pipelines of three_outcomes: some succeed, some fail, and some recover from a failure.
#pragma once

#include <chrono>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

#include "sluice/sluice.hpp"

namespace three_outcomes {

using namespace sluice;
using namespace std::chrono_literals;

inline auto numbers() { return upload(std::vector<float>{1, 2, 3}).and_then(download); }

// Host code in stream order; it may throw.
inline auto checked_sum(float limit) {
    return numbers().and_then([limit](auto landed) {
        const auto add_up = [limit](std::vector<float> values) {
            float sum = 0;
            for (const float each : values) sum += each;
            if (sum > limit) throw std::range_error("the sum is over the limit");
            return sum;
        };
        return host_call(add_up, std::move(landed));
    });
}

// More memory than any device has.
inline auto too_much() {
    return zeros<float>({std::size_t{1} << 50}).transform([](tensor<float>) { return 0.f; });
}

template <typename Operation>
std::string outcome_of(Operation operation, scheduling_policy& pool) {
    try {
        const float value = sync(std::move(operation), pool);
        char text[32];
        std::snprintf(text, sizeof(text), "%g", static_cast<double>(value));
        return std::string("the value ") + text;
    } catch (const error& failure) {  // from Sluice: a device_error, out_of_memory, a deadline ...
        return "an error: " + failure.code().message();
    } catch (const std::exception& failure) {  // from the code in the pipeline
        return std::string("an exception: ") + failure.what();
    }
}

inline std::vector<std::string> describe_all(scheduling_policy& pool) {
    std::vector<std::string> reported;
    reported.push_back("a sum: " + outcome_of(checked_sum(10), pool));
    reported.push_back("a sum over the limit: " + outcome_of(checked_sum(5), pool));
    reported.push_back("too much memory: " + outcome_of(too_much(), pool));

    // Recovers inside the pipeline, where the failure happens: no thread has to wait for it.
    auto recovered = checked_sum(5).or_else([](std::exception_ptr) { return value(-1.f); });
    reported.push_back("recovered: " + outcome_of(std::move(recovered), pool));
    int attempts = 0;
    auto tried_again = retry(3, [&] { return checked_sum(++attempts < 3 ? 5.f : 10.f); });
    reported.push_back("retried: " + outcome_of(std::move(tried_again), pool));
    reported.push_back("in time: " + outcome_of(timeout(checked_sum(10), 10s), pool));
    reported.push_back("too late: " + outcome_of(timeout_at(checked_sum(10), std::chrono::steady_clock::now()), pool));
    return reported;
}

}  // namespace three_outcomes
