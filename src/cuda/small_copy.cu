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
// That many bytes of several rows are copied by threads of their own: more blocks would only queue.
constexpr std::size_t most_row_bytes = std::size_t{8} << 20;

// Copies rows in words. Neighbouring threads copy neighbouring words of a row.
template <typename Word>
__device__ void copy_rows(const small_copy_closure& all, std::size_t thread, std::size_t all_threads) {
    const std::size_t in_row = all.bytes / sizeof(Word);
    const std::size_t words = in_row * all.rows.count;
    for (std::size_t i = thread; i < words; i += all_threads) {
        const std::size_t row = i / in_row;
        const auto* const from = static_cast<const unsigned char*>(all.from) + row * all.rows.source_pitch;
        auto* const to = static_cast<unsigned char*>(all.to) + row * all.rows.destination_pitch;
        reinterpret_cast<Word*>(to)[i - row * in_row] = reinterpret_cast<const Word*>(from)[i - row * in_row];
    }
}

// Each thread copies words of 16 bytes. The rest is copied byte by byte, and so is everything at unaligned addresses.
// Several rows are copied in the largest words to which all of them are aligned, and which divide them.
__global__ void __launch_bounds__(threads) copy_on_device(const __grid_constant__ small_copy_closure all) {
    dependency_trigger();
    if (!all.works_first) dependency_wait();
    const auto addresses = reinterpret_cast<std::uintptr_t>(all.to) | reinterpret_cast<std::uintptr_t>(all.from);
    const std::size_t thread = std::size_t{blockIdx.x} * threads + threadIdx.x;
    const std::size_t all_threads = std::size_t{gridDim.x} * threads;
    if (all.rows.count != 1) {
        const std::size_t steps = addresses | all.bytes | all.rows.source_pitch | all.rows.destination_pitch;
        if (steps % sizeof(uint4) == 0) {
            copy_rows<uint4>(all, thread, all_threads);
        } else if (steps % sizeof(unsigned) == 0) {
            copy_rows<unsigned>(all, thread, all_threads);
        } else {
            copy_rows<unsigned char>(all, thread, all_threads);
        }
    } else {
        const std::size_t words = addresses % sizeof(uint4) == 0 ? all.bytes / sizeof(uint4) : 0;
        for (std::size_t i = thread; i < words; i += all_threads)
            static_cast<uint4*>(all.to)[i] = static_cast<const uint4*>(all.from)[i];
        for (std::size_t i = words * sizeof(uint4) + thread; i < all.bytes; i += all_threads)
            static_cast<unsigned char*>(all.to)[i] = static_cast<const unsigned char*>(all.from)[i];
    }
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
    if (copy.host_owner != nullptr) return false;
    return copy.rows.count != 1 || (copy.direction != copy_direction::device_to_device && copy.bytes <= most_bytes);
}

launch_command small_copy(const small_copy_closure& closure) {
    const std::size_t bytes = std::min(closure.bytes * closure.rows.count, most_row_bytes);
    return launch_of(reinterpret_cast<const void*>(&copy_on_device), bytes, &closure, sizeof(closure));
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
