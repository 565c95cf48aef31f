// SPDX-License-Identifier: Apache-2.0
// The two forms of a launch over blocks, a loop on the CPU and a __global__ function on the GPU; and what its arguments
// are besides those of other launches. See block_kernel.hpp. For kernels of clusters and grids: group_launch.hpp.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <type_traits>

#include "sluice/base/error.hpp"
#include "sluice/base/thread_block.hpp"
#include "sluice/runtime/blocks.hpp"
#include "sluice/runtime/detail/closure.hpp"
#include "sluice/runtime/launch.hpp"

namespace sluice {

inline namespace SLUICE_BOUNDS_ABI {

// A tensor of which each block may access its own elements: as many for each block, as far as they go.
template <typename T>
class disjoint_blocks {
public:
    using element_type = T;

    SLUICE_KERNEL disjoint_blocks(T* data, std::size_t size) : data_(data), size_(size) {}

    // The block's elements; the address of the first, for code that is not checked; and their number.
    SLUICE_KERNEL block_part<T> part(const thread_block& block) const { return {of(block), size_of(block)}; }
    SLUICE_KERNEL T* of(const thread_block& block) const { return data_ + first(block); }
    SLUICE_KERNEL std::size_t size_of(const thread_block& block) const {
        const std::size_t left = size_ - first(block), each = per_block(block);
        return left < each ? left : each;
    }
    SLUICE_KERNEL std::size_t size() const { return size_; }

private:
    SLUICE_KERNEL std::size_t per_block(const thread_block& block) const {
        return (size_ + block.grid().count() - 1) / block.grid().count();
    }
    SLUICE_KERNEL std::size_t first(const thread_block& block) const {
        const std::size_t begin = block.index() * per_block(block);
        return begin < size_ ? begin : size_;
    }

    T* data_;
    std::size_t size_;
};

// Places the pieces of shared memory one after the other.
template <typename T>
struct shared_memory_layout {
    static void place(T&, std::size_t&) {}
};
template <typename T>
struct shared_memory_layout<shared_memory<T>> {
    static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= 128);
    static void place(shared_memory<T>& piece, std::size_t& bytes) {
        constexpr std::size_t too_many = std::size_t{1} << 40;  // refused later, without an overflow before
        piece.offset_ = (bytes + alignof(T) - 1) / alignof(T) * alignof(T);
        bytes = piece.offset_ + (piece.count_ < too_many ? piece.count_ : too_many) * sizeof(T);
    }
};

}  // namespace SLUICE_BOUNDS_ABI

namespace detail {

inline block_extent extent_of(const launch_extent& size) { return {size.x, size.y, size.z}; }

template <typename T>
struct bound_argument<disjoint_blocks<T>, tensor<T>> {
    static constexpr argument_use use = argument_use::written;
    static disjoint_blocks<T> bind(const tensor<T>& to, const error_context& context) {
        require_held(to, context);
        return {to.device_data(), to.size()};
    }
    static storage* memory(const tensor<T>& to) { return to.memory(); }
};

inline std::size_t lay_out_shared_memory(kernel_values<>&, std::size_t bytes = 0) { return bytes; }
template <typename First, typename... Rest>
std::size_t lay_out_shared_memory(kernel_values<First, Rest...>& values, std::size_t bytes = 0) {
    shared_memory_layout<First>::place(values.first, bytes);
    return lay_out_shared_memory(values.rest, bytes);
}

// Which blocks of a launch know of each other.
enum class launch_group : unsigned char { none, cluster, grid };

// Throws errc::invalid_argument for what no GPU takes, or more shared memory than the device has, or a cluster or a
// cooperative launch that the kernel's index does not go with. (The limits of those: require_group.)
void require_block_launch(stream on, const launch_blocks& over, launch_group group, std::size_t shared_bytes,
                          const error_context& context);

// On a CPU device, the memory that the blocks share; elsewhere none.
class block_scratch {
public:
    block_scratch(stream on, std::size_t bytes, const error_context& context);

    std::byte* data() const noexcept { return memory_ ? static_cast<std::byte*>(memory_->data()) : nullptr; }
    storage* memory() const noexcept { return memory_.get(); }
    // Without the last access, that of the scratch memory, when there is none.
    template <std::size_t Count>
    std::span<const memory_access> named(const std::array<memory_access, Count>& all) const noexcept {
        return std::span(all).first(memory_ ? Count : Count - 1);
    }

private:
    storage_ref memory_;
};

template <std::size_t Count>
std::array<memory_access, Count + 1> with_scratch(const std::array<memory_access, Count>& used,
                                                  const block_scratch& scratch) {
    std::array<memory_access, Count + 1> all{};
    for (std::size_t i = 0; i < Count; ++i) all[i] = used[i];
    all[Count] = {scratch.memory(), access_mode::write};
    return all;
}

inline namespace SLUICE_LAUNCH_ABI {

template <typename Kernel, typename Values>
struct block_closure {
    block_extent grid;
    block_extent shape;
    std::byte* scratch;  // on a CPU
    Values values;
    Kernel kernel;
#if SLUICE_CHECK_BOUNDS && defined(__CUDACC__)
    access_notice notice = {};
#endif

    SLUICE_KERNEL void run(const block_extent& position, std::byte* shared) const {
        const thread_block block(position, grid, shape, shared);
        values.apply([&](const auto&... each) { kernel(block, each...); });
    }
};

#if defined(__CUDACC__)
template <typename Closure>
__global__ void __launch_bounds__(1024) launch_blocks_on_device(const __grid_constant__ Closure closure) {
    extern __shared__ __align__(128) std::byte sluice_shared_memory[];
#if SLUICE_CHECK_BOUNDS
    post_notice(closure.notice);
#endif
    closure.run({blockIdx.x, blockIdx.y, blockIdx.z}, sluice_shared_memory);
}
#endif

template <typename Kernel, typename Values>
struct block_body {
    using closure = block_closure<Kernel, Values>;
    static_assert(std::is_trivially_copyable_v<closure>, "launch: kernels and their arguments are copied byte by byte");
    static_assert(alignof(closure) <= alignof(std::max_align_t),
                  "launch: kernels and their arguments are not over-aligned");
    static_assert(sizeof(closure) <= largest_closure<closure>,
                  "launch: a kernel and its arguments take at most 4096 bytes");

    static constexpr launch_group group = launch_group::none;
    // One block runs after the other.
    static std::size_t scratch_bytes(const launch_blocks&, std::size_t shared_bytes) { return shared_bytes; }

    static closure make(const launch_blocks& over, std::byte* scratch, std::size_t, const Values& values,
                        const Kernel& kernel) {
        return {extent_of(over.grid), extent_of(over.block), scratch, values, kernel};
    }

    static const void* device_function() {
#if defined(__CUDACC__)
        return reinterpret_cast<const void*>(&launch_blocks_on_device<closure>);
#else
        return nullptr;
#endif
    }

    static void run_on_host(const void* erased) {
        const auto& all = *static_cast<const closure*>(erased);
        for (unsigned z = 0; z < all.grid.z; ++z) {
            for (unsigned y = 0; y < all.grid.y; ++y) {
                for (unsigned x = 0; x < all.grid.x; ++x) all.run({x, y, z}, all.scratch);
            }
        }
    }

    static launch_command command(closure& all, std::size_t shared_bytes) {
        launch_command made;
        made.device_function = device_function();
        made.grid = {all.grid.x, all.grid.y, all.grid.z};
        made.block = {all.shape.x, all.shape.y, all.shape.z};
        made.shared_bytes = shared_bytes;
        made.may_fail = SLUICE_CHECK_BOUNDS != 0;
        made.host_function = &run_on_host;
        set_closure(made, all);
        return made;
    }
};

}  // namespace SLUICE_LAUNCH_ABI

template <typename Kernel, typename Values>
inline constexpr bool can_clear_padding<block_closure<Kernel, Values>> =
    can_clear_padding<Kernel> && can_clear_padding<Values>;

}  // namespace detail
}  // namespace sluice
