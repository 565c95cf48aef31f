// SPDX-License-Identifier: Apache-2.0
#include "runtime/group_launch.hpp"

#include <algorithm>
#include <string>

#include "runtime/access_room.hpp"
#include "runtime/backends.hpp"
#include "sluice/base/error.hpp"
#include "sluice/runtime/device.hpp"
#include "sluice/runtime/resident_blocks.hpp"

namespace sluice::detail {
namespace {

// What a CPU device counts with: the multiprocessors of an H200, and what each of them holds.
constexpr std::size_t multiprocessors = 132;
constexpr std::size_t most_blocks = 32;
constexpr std::size_t most_warps = 64;
constexpr std::size_t shared_of_all_blocks = std::size_t{228} * 1024;
constexpr std::size_t shared_of_the_system = 1024;  // of each block

std::size_t resident_on_cpu(std::size_t threads, std::size_t shared_bytes) {
    const std::size_t warps = (threads + 31) / 32;
    const std::size_t by_shared_memory = shared_of_all_blocks / (shared_bytes + shared_of_the_system);
    return multiprocessors * std::min({most_blocks, most_warps / warps, by_shared_memory});
}

std::size_t count(const launch_extent& size) { return std::size_t{size.x} * size.y * size.z; }

void require_cluster(const device& on, const launch_command& command, const error_context& context) {
    const launch_extent &size = command.cluster, &grid = command.grid;
    const auto refuse = [&](const std::string& why) {
        throw error(errc::invalid_argument, "a cluster of " + to_string(size) + " blocks " + why, context);
    };
    const auto most = static_cast<std::size_t>(on.properties().max_blocks_per_cluster);
    if (size.x == 0 || size.y == 0 || size.z == 0) refuse("is empty");
    if (most <= 1) throw error(errc::unsupported, on.name() + " has no clusters of thread blocks", context);
    // (Each alone first: their product may not fit into a number.)
    if (size.x > most || size.y > most || size.z > most || count(size) > most)
        refuse("is too large: at most " + std::to_string(most) + " blocks on " + on.name());
    if (grid.x % size.x != 0 || grid.y % size.y != 0 || grid.z % size.z != 0) {
        refuse("does not divide the grid of " + to_string(grid) +
               ": along each dimension the grid is a multiple of the "
               "cluster");
    }
}

void require_cooperation(device& on, const launch_command& command, const error_context& context) {
    if (!on.properties().cooperative_launch)
        throw error(errc::unsupported, on.name() + " has no cooperative launches", context);
    // (No overflow: a grid has at most 2^31 blocks along x, and 2^16 along y and z.)
    const std::size_t blocks = count(command.grid);
    // One block always fits on each multiprocessor of a GPU, so no library need be asked.
    const bool fits_anyway = on.kind() == device_kind::cuda && command.cluster.x == 1 && command.cluster.y == 1 &&
                             command.cluster.z == 1 &&
                             blocks <= static_cast<std::size_t>(std::max(1, on.properties().compute_units));
    if (fits_anyway) return;
    const std::size_t most = resident_blocks(on, command, context);
    if (blocks <= most) return;
    throw error(errc::invalid_argument,
                "a cooperative launch of " + std::to_string(blocks) + " blocks: " + on.name() + " runs at most " +
                    std::to_string(most) + " of them at the same time, with " + std::to_string(count(command.block)) +
                    " threads and " + std::to_string(command.shared_bytes) + " bytes of shared memory each",
                context);
}

}  // namespace

void require_group(device& on, const launch_command& command, const error_context& context) {
    const launch_extent& size = command.cluster;
    if (size.x != 1 || size.y != 1 || size.z != 1) require_cluster(on, command, context);
    if (command.cooperative) require_cooperation(on, command, context);
}

std::size_t resident_blocks(device& on, const launch_command& like, const error_context& context) {
    if (on.kind() == device_kind::cuda) return resident_on_gpu(on, like, context);
    return resident_on_cpu(count(like.block), like.shared_bytes);
}

std::size_t resident_blocks(device& on, const occupying_kernel& kernel, const launch_extent& block,
                            std::size_t shared_bytes) {
    const error_context context{kernel.name, on.name()};
    require_block(on, block, shared_bytes, context);
    launch_command like;
    like.device_function = kernel.function;
    like.block = block;
    like.shared_bytes = kernel.is_checked ? shared_bytes_with_notice(on, shared_bytes) : shared_bytes;
    like.cooperative = kernel.waits;
    return resident_blocks(on, like, context);
}

}  // namespace sluice::detail
