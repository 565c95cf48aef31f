// SPDX-License-Identifier: Apache-2.0
#include "runtime/core_quota.hpp"

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>
#include <string_view>

namespace sluice::detail {
namespace {

namespace fs = std::filesystem;

constexpr double no_limit = std::numeric_limits<double>::infinity();

// Version 2: "200000 100000", the time in each period, or "max 100000".
double quota_of_version_2(const fs::path& group) {
    std::ifstream file(group / "cpu.max");
    double time = 0, period = 0;
    return file >> time >> period && time > 0 && period > 0 ? time / period : no_limit;
}

// Version 1: the time is -1 where there is no limit.
double quota_of_version_1(const fs::path& group) {
    std::ifstream times(group / "cpu.cfs_quota_us"), periods(group / "cpu.cfs_period_us");
    double time = 0, period = 0;
    return times >> time && periods >> period && time > 0 && period > 0 ? time / period : no_limit;
}

// The smallest quota of the groups on the path and of the group at which it begins.
double smallest_quota(fs::path mounted, std::string_view path, double (*quota_of)(const fs::path&)) {
    double smallest = quota_of(mounted);
    for (const fs::path& part : fs::path(path).relative_path()) {
        mounted /= part;
        smallest = std::min(smallest, quota_of(mounted));
    }
    return smallest;
}

// Whether a list "cpu,cpuacct" has the controller "cpu".
bool has_cpu(std::string_view controllers) {
    return ("," + std::string(controllers) + ",").find(",cpu,") != std::string::npos;
}

}  // namespace

double core_quota(const fs::path& groups, const fs::path& mounted) {
    double smallest = no_limit;
    std::ifstream file(groups);
    for (std::string line; std::getline(file, line);) {  // "0::/group" or "4:cpu,cpuacct:/group"
        const std::size_t controllers_at = line.find(':') + 1, path_at = line.find(':', controllers_at) + 1;
        if (controllers_at == 0 || path_at == 0) continue;
        const std::string_view whole = line;
        const std::string_view path = whole.substr(path_at);
        const std::string_view controllers = whole.substr(controllers_at, path_at - 1 - controllers_at);
        if (controllers.empty()) {
            smallest = std::min(smallest, smallest_quota(mounted, path, quota_of_version_2));
        } else if (has_cpu(controllers)) {
            smallest = std::min(smallest, smallest_quota(mounted / "cpu", path, quota_of_version_1));
        }
    }
    return smallest;
}

}  // namespace sluice::detail
