// SPDX-License-Identifier: Apache-2.0
// The failures that the tester has found, with the seeds that reproduce them.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

namespace sluice::stress {

// Thread safety: all members may be called on any thread.
class report {
public:
    // Prints the failure with the seed that reproduces it.
    void failed(std::uint64_t seed, std::string_view location, std::string_view why);
    void count(std::string_view what, std::uint64_t more = 1);

    std::uint64_t failures() const noexcept { return failures_.load(); }
    // All counts in one line.
    std::string counted() const;

private:
    std::atomic<std::uint64_t> failures_{0};
    mutable std::mutex mutex_;
    std::map<std::string, std::uint64_t, std::less<>> counts_;
    const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};

}  // namespace sluice::stress
