// SPDX-License-Identifier: Apache-2.0
// What a launch requests besides grid and block, in the driver's form: its cluster, and that all blocks run at the same
// time. Both are attributes of a launch and of a node of a graph.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>

#include "cuda/api/driver.hpp"
#include "runtime/group_launch.hpp"

namespace sluice::cuda::api {

class group_attributes {
public:
    // Throws errc::unsupported for a kernel of ours in clusters whose code is for GPUs without them: it would stop.
    group_attributes(CUfunc_st* kernel, const launch_command& command, const error_context& context) {
        const launch_extent& size = command.cluster;
        if (size.x != 1 || size.y != 1 || size.z != 1) {
            if (command.function == nullptr) require_code_for_clusters(kernel, context);
            CUlaunchAttribute& cluster = all_[count_++];
            cluster.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
            cluster.value.clusterDim.x = size.x;
            cluster.value.clusterDim.y = size.y;
            cluster.value.clusterDim.z = size.z;
        }
        if (command.cooperative) {
            CUlaunchAttribute& together = all_[count_++];
            together.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
            together.value.cooperative = 1;
        }
    }
    // Of a launch on a stream only: in a graph, edges say it.
    void add_early_start() {
        CUlaunchAttribute& early = all_[count_++];
        early.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
        early.value.programmaticStreamSerializationAllowed = 1;
    }

    CUlaunchAttribute* begin() noexcept { return all_.data(); }
    unsigned size() const noexcept { return count_; }
    std::span<const CUlaunchAttribute> all() const noexcept { return {all_.data(), count_}; }

private:
    static void require_code_for_clusters(CUfunc_st* kernel, const error_context& context) {
        static const auto get = driver_function<decltype(&cuFuncGetAttribute)>("cuFuncGetAttribute");
        int version = 0;
        check_driver(get(&version, CU_FUNC_ATTRIBUTE_PTX_VERSION, kernel), "cuFuncGetAttribute", context);
        if (version >= 90) return;
        throw error(errc::unsupported,
                    "the kernel was compiled for sm_" + std::to_string(version) +
                        ", which has no clusters: compile it for sm_90 or later",
                    context);
    }

    std::array<CUlaunchAttribute, 3> all_{};
    unsigned count_ = 0;
};

inline CUlaunchConfig configuration_of(const launch_command& command, CUstream_st* stream) {
    CUlaunchConfig made{};
    made.gridDimX = command.grid.x;
    made.gridDimY = command.grid.y;
    made.gridDimZ = command.grid.z;
    made.blockDimX = command.block.x;
    made.blockDimY = command.block.y;
    made.blockDimZ = command.block.z;
    made.sharedMemBytes = static_cast<unsigned>(command.shared_bytes);
    made.hStream = stream;
    return made;
}

}  // namespace sluice::cuda::api
