// SPDX-License-Identifier: Apache-2.0
// What a launch of a module's function needs in every build.
#include "sluice/cuda/detail/module_launch.hpp"

#include <string>

#include "sluice/cuda/kernel_module.hpp"

namespace sluice {
namespace {

std::string text_of(const launch_extent& extent) {
    return std::to_string(extent.x) + " x " + std::to_string(extent.y) + " x " + std::to_string(extent.z);
}

bool is_within(const launch_extent& extent, const launch_extent& limit) noexcept {
    return extent.x <= limit.x && extent.y <= limit.y && extent.z <= limit.z;
}

}  // namespace

namespace detail {

bool check_launch(const checked_function& function, const launch_blocks& over, const error_context& context) {
    const function_limits& limits = function.limits;
    const auto refuse = [&](const std::string& why) { throw error(errc::invalid_argument, why, context); };
    const std::size_t threads = std::size_t{over.block.x} * over.block.y * over.block.z;
    if (threads == 0) refuse("a block of " + text_of(over.block) + " has no threads");
    if (!is_within(over.block, limits.max_block)) {
        refuse("a block of " + text_of(over.block) + " threads exceeds this GPU's limit of " +
               text_of(limits.max_block));
    }
    if (threads > limits.max_threads) {
        refuse("a block of " + std::to_string(threads) + " threads exceeds this function's limit of " +
               std::to_string(limits.max_threads));
    }
    if (!is_within(over.grid, limits.max_grid)) {
        refuse("a grid of " + text_of(over.grid) + " blocks exceeds this GPU's limit of " + text_of(limits.max_grid));
    }
    if (over.shared_bytes > limits.max_shared_bytes) {
        refuse(std::to_string(over.shared_bytes) + " bytes of dynamic shared memory exceed this function's limit of " +
               std::to_string(limits.max_shared_bytes));
    }
    return over.grid.x != 0 && over.grid.y != 0 && over.grid.z != 0;
}

}  // namespace detail
}  // namespace sluice
