// SPDX-License-Identifier: Apache-2.0
// thread_grid: the index of a kernel whose blocks all work together, and wait for each other in the middle of the
// launch (a cooperative launch). See block_kernel.hpp for the launch.
//
//     struct sum_in_two_phases {
//         SLUICE_KERNEL void operator()(const thread_grid& grid, shared_memory<float> shared, grid_memory<float> sums,
//                                       view<const float> x) const {
//             const block_part<float> all = grid.part(sums);
//             grid.for_each_block([&](const thread_block& block) { ... all[block.index()] = ...; });
//             grid.sync();
//             grid.for_each_block([&](const thread_block& block) { ... all[i] of any block ... });
//         }
//     };
//     launch(sum_in_two_phases{}, blocks(count, 256), shared_memory<float>(256), std::move(sums), x)
//
// A CPU calls such a kernel once, and for_each_block is a loop over all blocks. A GPU calls it once for each thread,
// and for_each_block calls its function once, with the thread's own block. What differs between blocks or threads
// is in for_each_block; the code between two such calls is the same for all threads of the launch, and writes
// nothing but its own variables. Inside for_each_block a block works as in thread_block.hpp. Shared memory keeps its
// contents from one for_each_block to the next.
//
// All blocks must run at the same time, so a launch may have as many as fit on the device: resident_blocks()
// (resident_blocks.hpp). sluice.hpp does not include this header, because it needs cooperative_groups.h, which is
// large.
//
// All members take constant time, but for for_each_block, which on a CPU calls its function once for each block of the
// launch, and for sync, which waits for the other threads.
#pragma once

#include <cstddef>

#include "sluice/base/block_cluster.hpp"
#include "sluice/base/thread_block.hpp"
#include "sluice/runtime/block_kernel.hpp"

#if defined(__CUDACC__)
#include <cooperative_groups.h>
#endif

namespace sluice {

inline namespace SLUICE_BOUNDS_ABI {

// A tensor that all blocks of a grid read and write: a parameter of the kernel, which gets at the elements by
// thread_grid::part. The argument is a tensor, which counts as written. What one thread writes, threads of other blocks
// see after grid.sync(). Two threads must not use one element between two sync() if one of them writes it: no check
// finds that.
template <typename T>
class grid_memory {
public:
    using element_type = T;  // of the elements

    SLUICE_KERNEL grid_memory(T* data, std::size_t size) : data_(data), size_(size) {}  // made by the launch
    SLUICE_KERNEL std::size_t size() const { return size_; }                            // in elements

private:
    friend class thread_grid;

    T* data_;
    std::size_t size_;
};

class thread_grid {
public:
    // Along the three dimensions: the blocks of the launch, the threads of a block.
    SLUICE_KERNEL const block_extent& shape() const { return shape_; }
    SLUICE_KERNEL const block_extent& block_shape() const { return block_shape_; }  // the threads of a block
    // The number of blocks, and of threads in each.
    SLUICE_KERNEL std::size_t blocks() const { return shape_.count(); }
    // The number of threads in each block.
    SLUICE_KERNEL unsigned threads() const { return static_cast<unsigned>(block_shape_.count()); }

    // All elements of a grid_memory; and the address of the first, for code that is not checked.
    template <typename T>
    SLUICE_KERNEL block_part<T> part(const grid_memory<T>& of) const {
        return {of.data_, of.size_};
    }
    // The address of its first element; accesses through it are not checked.
    template <typename T>
    SLUICE_KERNEL T* data(const grid_memory<T>& of) const {
        return of.data_;
    }

    // Calls f(thread_block) for each block: on a GPU, each thread for its own block. Not to be called inside itself
    // (see sync).
    template <typename Function>
    SLUICE_KERNEL void for_each_block(const Function& f) const {
#if defined(__CUDA_ARCH__)
        f(thread_block({blockIdx.x, blockIdx.y, blockIdx.z}, shape_, block_shape_, shared_));
#else
        inside_.require_outside("for_each_block");
        inside_.now = true;
        std::byte* shared = shared_;
        for (unsigned z = 0; z < shape_.z; ++z) {
            for (unsigned y = 0; y < shape_.y; ++y) {
                for (unsigned x = 0; x < shape_.x; ++x, shared += shared_step_)
                    f(thread_block({x, y, z}, shape_, block_shape_, shared));
            }
        }
        inside_.now = false;
#endif
    }
    // All threads of the launch come here before any continues, and see what the others wrote before. Not to be called
    // inside for_each_block: a CPU device and the simulator refuse that with errc::invalid_argument.
    SLUICE_KERNEL void sync() const {
        inside_.require_outside("sync");
#if defined(__CUDA_ARCH__)
        cooperative_groups::this_grid().sync();
#endif
    }

    // Made by the launch. On a CPU `shared` is that of all blocks, `shared_step` bytes each.
    SLUICE_KERNEL thread_grid(const block_extent& shape, const block_extent& block_shape, std::byte* shared,
                              std::size_t shared_step)
        : shape_(shape), block_shape_(block_shape), shared_(shared), shared_step_(shared_step) {}

private:
    block_extent shape_;
    block_extent block_shape_;
    std::byte* shared_;
    std::size_t shared_step_;
    mutable detail::inside_blocks inside_;
};

}  // namespace SLUICE_BOUNDS_ABI

namespace detail {

template <typename T>
struct bound_argument<grid_memory<T>, tensor<T>> {
    static constexpr argument_use use = argument_use::written;
    static grid_memory<T> bind(const tensor<T>& to, const error_context& context) {
        require_held(to, context);
        return {to.device_data(), to.size()};
    }
    static storage* memory(const tensor<T>& to) { return to.memory(); }
};

inline namespace SLUICE_LAUNCH_ABI {

#if defined(__CUDACC__)
template <typename Closure>
__global__ void __launch_bounds__(1024) launch_grid_on_device(const __grid_constant__ Closure closure) {
    extern __shared__ __align__(128) std::byte sluice_shared_memory[];
#if SLUICE_CHECK_BOUNDS
    post_notice(closure.notice);
#endif
    closure.run(thread_grid(closure.grid, closure.shape, sluice_shared_memory, 0));
}
#endif

template <typename Kernel, typename Values>
struct grid_body : group_body<Kernel, Values> {
    using closure = group_closure<Kernel, Values>;
    static constexpr launch_group group = launch_group::grid;
    static std::size_t scratch_bytes(const launch_blocks& over, std::size_t shared_bytes) {
        return shared_step(shared_bytes) * extent_of(over.grid).count();
    }

    static const void* device_function() {
#if defined(__CUDACC__)
        return reinterpret_cast<const void*>(&launch_grid_on_device<closure>);
#else
        return nullptr;
#endif
    }

    static void run_on_host(const void* erased) {
        const auto& all = *static_cast<const closure*>(erased);
        all.run(thread_grid(all.grid, all.shape, all.scratch, all.step));
    }

    static launch_command command(closure& all, std::size_t shared_bytes) {
        launch_command made = grid_body::command_of(all, shared_bytes);
        made.cooperative = true;
        made.device_function = device_function();
        made.host_function = &run_on_host;
        return made;
    }
};

template <typename Kernel, typename Values>
struct body_of_index<thread_grid, Kernel, Values> {
    using type = grid_body<Kernel, Values>;
};

}  // namespace SLUICE_LAUNCH_ABI

template <>
inline constexpr bool is_block_index<thread_grid> = true;

}  // namespace detail

}  // namespace sluice
