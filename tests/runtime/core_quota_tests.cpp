// SPDX-License-Identifier: Apache-2.0
#include "runtime/core_quota.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

#include "io/support/temporary_directory.hpp"

namespace sluice::core_quota_tests {
namespace {

constexpr double no_limit = std::numeric_limits<double>::infinity();

// Folders as the system has them for control groups.
class core_quotas : public ::testing::Test {
protected:
    void limit(const std::string& group, const std::string& cpu_max) const { write(group + "/cpu.max", cpu_max); }
    void limit_version_1(const std::string& group, const std::string& quota, const std::string& period) const {
        write(group + "/cpu.cfs_quota_us", quota);
        write(group + "/cpu.cfs_period_us", period);
    }
    double quota_of_process_in(const std::string& groups) const {
        return detail::core_quota(folder_.write("groups", groups), folder_ / "mounted");
    }

private:
    void write(const std::string& name, const std::string& text) const {
        const std::filesystem::path file = folder_ / "mounted" / name;
        std::filesystem::create_directories(file.parent_path());
        std::ofstream(file) << text << '\n';
    }

    const io::testing::temporary_directory folder_;
};

}  // namespace

TEST_F(core_quotas, are_the_time_of_each_period) {
    limit("pod", "150000 100000");
    EXPECT_EQ(quota_of_process_in("0::/pod\n"), 1.5);
}

TEST_F(core_quotas, are_the_smallest_of_the_groups_around_the_process) {
    limit("pod", "200000 100000");
    limit("pod/container", "max 100000");
    EXPECT_EQ(quota_of_process_in("0::/pod/container\n"), 2);
    limit("pod/container", "50000 100000");
    EXPECT_EQ(quota_of_process_in("0::/pod/container\n"), 0.5);
    limit("pod", "20000 100000");
    EXPECT_EQ(quota_of_process_in("0::/pod/container\n"), 0.2);
    EXPECT_EQ(quota_of_process_in("0::/another\n"), no_limit);
}

TEST_F(core_quotas, are_at_the_top_in_a_container_that_sees_its_own_group_there) {
    limit(".", "300000 100000");
    EXPECT_EQ(quota_of_process_in("0::/\n"), 3);
    EXPECT_EQ(quota_of_process_in("0::/a/path/of/the/host\n"), 3);
    EXPECT_EQ(quota_of_process_in("0::/../outside\n"), 3);
}

TEST_F(core_quotas, of_version_1_are_those_of_its_controller_cpu) {
    limit_version_1("cpu/docker/container", "250000", "100000");
    EXPECT_EQ(quota_of_process_in("9:name=systemd:/\n4:cpu,cpuacct:/docker/container\n0::/\n"), 2.5);
    EXPECT_EQ(quota_of_process_in("4:cpuacct,cpu:/docker/container\n"), 2.5);
    EXPECT_EQ(quota_of_process_in("3:cpuset:/docker/container\n2:cpuacct:/docker/container\n"), no_limit);
    limit_version_1("cpu/docker/container", "-1", "100000");
    EXPECT_EQ(quota_of_process_in("4:cpu:/docker/container\n"), no_limit);
}

TEST_F(core_quotas, are_none_where_nothing_can_be_read) {
    EXPECT_EQ(quota_of_process_in("0::/pod\n"), no_limit);
    EXPECT_EQ(quota_of_process_in(""), no_limit);
    limit("pod", "max 100000");
    EXPECT_EQ(quota_of_process_in("0::/pod\n"), no_limit);
    for (const char* const odd : {"", "100000", "0 100000", "100000 0", "-5 100000", "many 100000", "nan nan"}) {
        limit("pod", odd);
        EXPECT_EQ(quota_of_process_in("0::/pod\n"), no_limit) << odd;
    }
    limit("pod", "100000 100000");
    for (const char* const odd : {"no colon", "one:colon", ":", "::", "\n\n"})
        EXPECT_EQ(quota_of_process_in(odd), no_limit) << odd;
    EXPECT_EQ(detail::core_quota("/no/such/file", "/no/such/folder"), no_limit);
}

}  // namespace sluice::core_quota_tests
