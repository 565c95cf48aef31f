#include "cuda/small_copy.hpp"

#include <cstdint>

#include "sluice/runtime/kernel.hpp"

namespace sluice::cuda {
namespace {

// From here on the engines' rate counts for more than the hand-over (H200).
constexpr std::size_t most_bytes = std::size_t{512} << 10;
constexpr unsigned threads = 256;

// A word of 16 bytes a thread; what does not fill one goes byte by byte, and so does all where addresses are odd.
__global__ void __launch_bounds__(threads) copy_on_device(const __grid_constant__ small_copy_closure all) {
    dependency_trigger();
    dependency_wait();
    const auto addresses = reinterpret_cast<std::uintptr_t>(all.to) | reinterpret_cast<std::uintptr_t>(all.from);
    const std::size_t words = addresses % sizeof(uint4) == 0 ? all.bytes / sizeof(uint4) : 0;
    const std::size_t thread = std::size_t{blockIdx.x} * threads + threadIdx.x;
    const std::size_t all_threads = std::size_t{gridDim.x} * threads;
    for (std::size_t i = thread; i < words; i += all_threads)
        static_cast<uint4*>(all.to)[i] = static_cast<const uint4*>(all.from)[i];
    for (std::size_t i = words * sizeof(uint4) + thread; i < all.bytes; i += all_threads)
        static_cast<unsigned char*>(all.to)[i] = static_cast<const unsigned char*>(all.from)[i];
}

}  // namespace

bool is_small_copy(const copy_command& copy) noexcept {
    return copy.direction != copy_direction::device_to_device && copy.host_owner == nullptr && copy.bytes <= most_bytes;
}

launch_command small_copy(const small_copy_closure& closure) {
    launch_command made;
    made.device_function = reinterpret_cast<const void*>(&copy_on_device);
    const std::size_t words = (closure.bytes + sizeof(uint4) - 1) / sizeof(uint4);
    made.grid.x = static_cast<unsigned>((words + threads - 1) / threads);
    made.block.x = threads;
    made.closure = &closure;
    made.closure_bytes = sizeof(closure);
    made.early_start = true;
    return made;
}

}  // namespace sluice::cuda
