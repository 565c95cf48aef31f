// SPDX-License-Identifier: Apache-2.0
#include "cuda/small_copy.hpp"

#include <algorithm>
#include <cstdint>
#include <span>

#include "sluice/base/kernel.hpp"

namespace sluice::cuda {
namespace {

// For larger copies, the speed of the copy engines outweighs the hand-over to them (H200).
constexpr std::size_t most_bytes = std::size_t{512} << 10;
constexpr unsigned threads = 256;

// Each thread copies words of 16 bytes. The rest is copied byte by byte, and so is everything at unaligned addresses.
__global__ void __launch_bounds__(threads) copy_on_device(const __grid_constant__ small_copy_closure all) {
    dependency_trigger();
    if (!all.works_first) dependency_wait();
    const auto addresses = reinterpret_cast<std::uintptr_t>(all.to) | reinterpret_cast<std::uintptr_t>(all.from);
    const std::size_t words = addresses % sizeof(uint4) == 0 ? all.bytes / sizeof(uint4) : 0;
    const std::size_t thread = std::size_t{blockIdx.x} * threads + threadIdx.x;
    const std::size_t all_threads = std::size_t{gridDim.x} * threads;
    for (std::size_t i = thread; i < words; i += all_threads)
        static_cast<uint4*>(all.to)[i] = static_cast<const uint4*>(all.from)[i];
    for (std::size_t i = words * sizeof(uint4) + thread; i < all.bytes; i += all_threads)
        static_cast<unsigned char*>(all.to)[i] = static_cast<const unsigned char*>(all.from)[i];
    if (all.works_first) dependency_wait();  // it ends after the kernels before it all the same
}

// The same for fills: each row of blocks fills one area.
__global__ void __launch_bounds__(threads) fill_on_device(const __grid_constant__ small_fill_closure all) {
    dependency_trigger();
    if (!all.works_first) dependency_wait();
    const small_fill_closure::area& area = all.areas[blockIdx.y];
    const unsigned four = area.value * 0x01010101u;
    const std::size_t words =
        reinterpret_cast<std::uintptr_t>(area.to) % sizeof(uint4) == 0 ? area.bytes / sizeof(uint4) : 0;
    const std::size_t thread = std::size_t{blockIdx.x} * threads + threadIdx.x;
    const std::size_t all_threads = std::size_t{gridDim.x} * threads;
    for (std::size_t i = thread; i < words; i += all_threads)
        static_cast<uint4*>(area.to)[i] = uint4{four, four, four, four};
    for (std::size_t i = words * sizeof(uint4) + thread; i < area.bytes; i += all_threads)
        static_cast<unsigned char*>(area.to)[i] = static_cast<unsigned char>(area.value);
    if (all.works_first) dependency_wait();
}

launch_command launch_of(const void* kernel, std::size_t bytes, const void* closure, std::size_t closure_bytes) {
    launch_command made;
    made.device_function = kernel;
    const std::size_t words = (bytes + sizeof(uint4) - 1) / sizeof(uint4);
    made.grid.x = static_cast<unsigned>(std::max<std::size_t>(1, (words + threads - 1) / threads));
    made.block.x = threads;
    made.closure = closure;
    made.closure_bytes = closure_bytes;
    made.early_start = true;
    return made;
}

}  // namespace

bool is_small_fill(const fill_command& fill) noexcept { return fill.bytes != 0 && fill.bytes <= most_bytes; }

bool is_small_copy(const copy_command& copy) noexcept {
    return copy.direction != copy_direction::device_to_device && copy.host_owner == nullptr && copy.bytes <= most_bytes;
}

launch_command small_copy(const small_copy_closure& closure) {
    return launch_of(reinterpret_cast<const void*>(&copy_on_device), closure.bytes, &closure, sizeof(closure));
}
launch_command small_fill(const small_fill_closure& closure) {
    std::size_t most = 0;
    for (const small_fill_closure::area& each : std::span(closure.areas, closure.count))
        most = std::max(most, each.bytes);
    launch_command made = launch_of(reinterpret_cast<const void*>(&fill_on_device), most, &closure, sizeof(closure));
    made.grid.y = closure.count;
    return made;
}

}  // namespace sluice::cuda
