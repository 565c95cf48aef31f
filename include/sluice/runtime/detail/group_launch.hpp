// SPDX-License-Identifier: Apache-2.0
// The two forms of a launch whose blocks work together in clusters, a loop on the CPU and a __global__ function on the
// GPU; and what such a launch has in common with one whose blocks all work together (thread_grid.hpp). See
// block_kernel.hpp.
#pragma once

#include <cstddef>
#include <type_traits>

#include "sluice/base/block_cluster.hpp"
#include "sluice/runtime/detail/block_launch.hpp"

namespace sluice::detail {

// From the shared memory of a block to that of the next one, on a CPU.
inline std::size_t shared_step(std::size_t shared_bytes) {
    constexpr std::size_t alignment = 128;  // the largest of a shared_memory
    return (shared_bytes + alignment - 1) / alignment * alignment;
}

inline namespace SLUICE_LAUNCH_ABI {

template <typename Kernel, typename Values>
struct group_closure {
    block_extent grid;
    block_extent shape;
    block_extent cluster;
    unsigned step;       // on a CPU, in bytes
    std::byte* scratch;  // on a CPU
    Values values;
    Kernel kernel;
#if SLUICE_CHECK_BOUNDS && defined(__CUDACC__)
    access_notice notice = {};
#endif

    template <typename Group>
    SLUICE_KERNEL void run(const Group& group) const {
        values.apply([&](const auto&... each) { kernel(group, each...); });
    }
};

#if defined(__CUDACC__)
// A block may reach the shared memory of another one from the first to the last instruction of the kernel's own code.
template <typename Closure>
__global__ void __launch_bounds__(1024) launch_clusters_on_device(const __grid_constant__ Closure closure) {
    extern __shared__ __align__(128) std::byte sluice_shared_memory[];
#if SLUICE_CHECK_BOUNDS
    post_notice(closure.notice);
#endif
    const block_extent& size = closure.cluster;
    const block_cluster cluster({blockIdx.x / size.x, blockIdx.y / size.y, blockIdx.z / size.z}, closure.grid, size,
                                closure.shape, sluice_shared_memory, 0);
    cluster.sync();
    closure.run(cluster);
    cluster.sync();
}
#endif

// What both kinds have in common.
template <typename Kernel, typename Values>
struct group_body {
    using closure = group_closure<Kernel, Values>;
    static_assert(std::is_trivially_copyable_v<closure>, "launch: kernels and their arguments are copied byte by byte");
    static_assert(alignof(closure) <= alignof(std::max_align_t),
                  "launch: kernels and their arguments are not over-aligned");
    static_assert(sizeof(closure) <= largest_closure<closure>,
                  "launch: a kernel and its arguments take at most 4096 bytes");

    static closure make(const launch_blocks& over, std::byte* scratch, std::size_t shared_bytes, const Values& values,
                        const Kernel& kernel) {
        return {extent_of(over.grid),
                extent_of(over.block),
                extent_of(over.cluster),
                static_cast<unsigned>(shared_step(shared_bytes)),
                scratch,
                values,
                kernel};
    }

protected:
    static launch_command command_of(closure& all, std::size_t shared_bytes) {
        launch_command made;
        made.grid = {all.grid.x, all.grid.y, all.grid.z};
        made.block = {all.shape.x, all.shape.y, all.shape.z};
        made.shared_bytes = shared_bytes;
        made.may_fail = true;  // on a CPU, sync() inside for_each_block
        set_closure(made, all);
        return made;
    }
};

template <typename Kernel, typename Values>
struct cluster_body : group_body<Kernel, Values> {
    using closure = group_closure<Kernel, Values>;
    static constexpr launch_group group = launch_group::cluster;
    // One cluster runs after the other.
    static std::size_t scratch_bytes(const launch_blocks& over, std::size_t shared_bytes) {
        return shared_step(shared_bytes) * extent_of(over.cluster).count();
    }

    static const void* device_function() {
#if defined(__CUDACC__)
        return reinterpret_cast<const void*>(&launch_clusters_on_device<closure>);
#else
        return nullptr;
#endif
    }

    static void run_on_host(const void* erased) {
        const auto& all = *static_cast<const closure*>(erased);
        const block_extent &grid = all.grid, &size = all.cluster;
        for (unsigned z = 0; z < grid.z / size.z; ++z) {
            for (unsigned y = 0; y < grid.y / size.y; ++y) {
                for (unsigned x = 0; x < grid.x / size.x; ++x)
                    all.run(block_cluster({x, y, z}, grid, size, all.shape, all.scratch, all.step));
            }
        }
    }

    static launch_command command(closure& all, std::size_t shared_bytes) {
        launch_command made = cluster_body::command_of(all, shared_bytes);
        made.cluster = {all.cluster.x, all.cluster.y, all.cluster.z};
        made.device_function = device_function();
        made.host_function = &run_on_host;
        return made;
    }
};

template <typename Index, typename Kernel, typename Values>
struct body_of_index {};
template <typename Kernel, typename Values>
struct body_of_index<thread_block, Kernel, Values> {
    using type = block_body<Kernel, Values>;
};
template <typename Kernel, typename Values>
struct body_of_index<block_cluster, Kernel, Values> {
    using type = cluster_body<Kernel, Values>;
};
template <typename Kernel, typename Values>
using body_of = typename body_of_index<typename kernel_signature<Kernel>::index, Kernel, Values>::type;

}  // namespace SLUICE_LAUNCH_ABI

template <typename Kernel, typename Values>
inline constexpr bool can_clear_padding<group_closure<Kernel, Values>> =
    can_clear_padding<Kernel> && can_clear_padding<Values>;

// A kernel for a launch over blocks. thread_grid.hpp adds its index.
template <typename Index>
inline constexpr bool is_block_index = std::is_same_v<Index, thread_block> || std::is_same_v<Index, block_cluster>;
template <typename Kernel>
concept is_block_kernel =
    requires { typename kernel_signature<Kernel>::index; } && is_block_index<typename kernel_signature<Kernel>::index>;

}  // namespace sluice::detail
