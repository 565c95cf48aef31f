// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

namespace sluice::detail {

// How many cores' time the control groups of a process allow it: the smallest limit of its group and of the groups
// around it, `cpu.max` of version 2 and `cpu.cfs_quota_us` of version 1 (the kernel's documentation:
// admin-guide/cgroup-v2 and scheduler/sched-bwc). Container engines and Kubernetes limit a container's processors so.
// Infinity: no limit, or none that can be read.
//
// groups: the process's groups, /proc/self/cgroup. mounted: where the control groups are, /sys/fs/cgroup; in a
// container that is often the group of the container, and the path in `groups` does not exist there.
double core_quota(const std::filesystem::path& groups, const std::filesystem::path& mounted);

}  // namespace sluice::detail
