// SPDX-License-Identifier: Apache-2.0
#include "sluice/runtime/detail/block_launch.hpp"

#include <limits>
#include <string>

#include "runtime/block_limits.hpp"
#include "runtime/group_launch.hpp"
#include "sluice/base/error.hpp"
#include "sluice/runtime/device.hpp"

namespace sluice {

launch_blocks blocks_over(std::size_t threads, unsigned block, std::size_t shared_bytes, source_location location) {
    if (block == 0) throw error(errc::invalid_argument, "a block has at least one thread", {"blocks", {}, location});
    const std::size_t grid = threads / block + (threads % block != 0 ? 1 : 0);
    if (grid > std::numeric_limits<unsigned>::max()) {
        throw error(errc::invalid_argument,
                    std::to_string(threads) + " threads in blocks of " + std::to_string(block) + " are " +
                        std::to_string(grid) + " blocks; a launch has at most 2^32 - 1",
                    {"blocks", {}, location});
    }
    return blocks(static_cast<unsigned>(grid), block, shared_bytes, location);
}

namespace detail {
namespace {

// CUDA's limits, which hold on a CPU too.
constexpr launch_extent largest_grid{2147483647, 65535, 65535};
constexpr launch_extent largest_block{1024, 1024, 64};

void require_within(const launch_extent& size, const launch_extent& limit, const std::string& what,
                    const error_context& context) {
    if (size.x == 0 || size.y == 0 || size.z == 0)
        throw error(errc::invalid_argument, what + " of " + to_string(size) + " is empty", context);
    if (size.x > limit.x || size.y > limit.y || size.z > limit.z) {
        throw error(errc::invalid_argument,
                    what + " of " + to_string(size) + " is too large: at most " + to_string(limit), context);
    }
}

}  // namespace

void require_block(const device& on, const launch_extent& block, std::size_t shared_bytes,
                   const error_context& context) {
    require_within(block, largest_block, "a block", context);
    const std::size_t threads = std::size_t{block.x} * block.y * block.z;
    if (threads > most_block_threads) {
        throw error(errc::invalid_argument,
                    "a block of " + to_string(block) + " has " + std::to_string(threads) + " threads: at most " +
                        std::to_string(most_block_threads),
                    context);
    }
    const std::size_t most = on.properties().max_shared_bytes_per_block;
    if (shared_bytes > most) {
        throw error(errc::invalid_argument,
                    std::to_string(shared_bytes) + " bytes of shared memory: " + on.name() + " has " +
                        std::to_string(most) + " for a block",
                    context);
    }
}

void require_block_launch(stream on, const launch_blocks& over, launch_group group, std::size_t shared_bytes,
                          const error_context& context) {
    const auto refuse = [&](std::string_view why) { throw error(errc::invalid_argument, why, context); };
    if (over.shared_bytes != 0)
        refuse("the size of shared memory comes from the shared_memory<T> arguments of this kernel, not from blocks()");
    const launch_extent& cluster = over.cluster;
    if (group != launch_group::cluster && (cluster.x != 1 || cluster.y != 1 || cluster.z != 1))
        refuse("in_clusters_of is for kernels that take a const block_cluster& as their first parameter");
    if (group != launch_group::grid && over.cooperative)
        refuse("a cooperative launch is for kernels that take a const thread_grid& as their first parameter");
    require_within(over.grid, largest_grid, "a grid", context);
    require_block(on.owner(), over.block, shared_bytes, context);
    // A CPU device allocates for the group first. Elsewhere the stream checks the command.
    if (group == launch_group::none || on.owner().kind() != device_kind::cpu) return;
    launch_command like;
    like.grid = over.grid;
    like.block = over.block;
    like.shared_bytes = shared_bytes;
    like.cluster = over.cluster;
    like.cooperative = group == launch_group::grid;
    if (is_group(like)) require_group(on.owner(), like, context);
}

block_scratch::block_scratch(stream on, std::size_t bytes, const error_context& context) {
    if (bytes != 0 && on.owner().kind() == device_kind::cpu) {
        memory_ = on.allocate(bytes, {context.operation, {}, context.location});
        memory_->mark_scratch();
    }
}

}  // namespace detail
}  // namespace sluice
