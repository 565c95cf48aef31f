// SPDX-License-Identifier: Apache-2.0
#include "stress/report.hpp"

#include <cstdio>

namespace sluice::stress {

void report::failed(std::uint64_t seed, std::string_view location, std::string_view why) {
    ++failures_;
    const std::chrono::duration<double> after = std::chrono::steady_clock::now() - began_;
    const std::lock_guard lock(mutex_);
    std::printf("FAILED after %.1f s, seed %llu, %.*s: %.*s\n", after.count(), static_cast<unsigned long long>(seed),
                static_cast<int>(location.size()), location.data(), static_cast<int>(why.size()), why.data());
    std::fflush(stdout);
}

void report::count(std::string_view what, std::uint64_t more) {
    const std::lock_guard lock(mutex_);
    const auto found = counts_.find(what);
    if (found != counts_.end()) {
        found->second += more;
    } else {
        counts_.emplace(what, more);
    }
}

std::string report::counted() const {
    const std::lock_guard lock(mutex_);
    std::string all;
    for (const auto& [what, count] : counts_) all += (all.empty() ? "" : ", ") + std::to_string(count) + ' ' + what;
    return all;
}

}  // namespace sluice::stress
