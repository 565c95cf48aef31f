// SPDX-License-Identifier: Apache-2.0
// block_cluster: the index of a kernel whose blocks work together in clusters, and reach each other's shared memory.
// See block_kernel.hpp for the launch.
//
//     struct cluster_sums {
//         SLUICE_KERNEL void operator()(const block_cluster& cluster, shared_memory<float> shared, view<const float> x,
//                                       disjoint_blocks<float> sums) const {
//             cluster.for_each_block([&](const thread_block& block) { ... sum_of(block, block.part(shared), x); });
//             cluster.sync();
//             cluster.for_each_block([&](const thread_block& block) {
//                 ... cluster.part(shared, rank)[0] ...  // of the block with this rank in the cluster
//             });
//         }
//     };
//     launch(cluster_sums{}, blocks(64, 256).in_clusters_of(4), shared_memory<float>(256), x, std::move(sums))
//
// A CPU calls such a kernel once for each cluster, and for_each_block is a loop over the blocks of the cluster. A GPU
// calls it once for each thread, and for_each_block calls its function once, with the thread's own block. What differs
// between blocks or threads is in for_each_block; the code between two such calls is the same for all threads of
// the cluster, and writes nothing but its own variables. Inside for_each_block a block works as in thread_block.hpp.
//
// Shared memory keeps its contents from one for_each_block to the next. All blocks of a cluster have started before the
// kernel's code begins, and the shared memory of each lasts until the last block has ended, so that no sync() is needed
// at the beginning and at the end.
//
// All members take constant time, but for for_each_block, which on a CPU calls its function once for each block of the
// cluster, and for sync, which waits for the other threads.
#pragma once

#include <cstddef>

#include "sluice/base/detail/access.hpp"
#include "sluice/base/thread_block.hpp"

namespace sluice {

namespace detail {
// Throws errc::invalid_argument: on a CPU that would be wrong without a sign.
[[noreturn]] void throw_inside_blocks(const char* call);

// On a CPU: whether for_each_block is running.
struct inside_blocks {
    bool now = false;

    SLUICE_KERNEL void require_outside([[maybe_unused]] const char* call) const {
#if !defined(__CUDA_ARCH__)
        if (now) throw_inside_blocks(call);
#endif
    }
};

// (What a rank counts; next to the values of `accessed`.)
inline constexpr accessed block_of_cluster{static_cast<unsigned>(accessed::tile_number) + 1};
}  // namespace detail

inline namespace SLUICE_BOUNDS_ABI {

class block_cluster {
public:
    // The cluster's position among the clusters of the launch, and its number: x first.
    SLUICE_KERNEL const block_extent& position() const { return position_; }
    // The cluster's number among the clusters of the launch: x first.
    SLUICE_KERNEL std::size_t index() const {
        return position_.x +
               std::size_t{grid_.x / shape_.x} * (position_.y + std::size_t{grid_.y / shape_.y} * position_.z);
    }
    // Along the three dimensions: the blocks of the launch, the blocks of a cluster, the threads of a block.
    SLUICE_KERNEL const block_extent& grid() const { return grid_; }
    SLUICE_KERNEL const block_extent& shape() const { return shape_; }              // the blocks of a cluster
    SLUICE_KERNEL const block_extent& block_shape() const { return block_shape_; }  // the threads of a block
    // The number of blocks in the cluster, and of threads in each.
    SLUICE_KERNEL unsigned blocks() const { return static_cast<unsigned>(shape_.count()); }
    // The number of threads in each block.
    SLUICE_KERNEL unsigned threads() const { return static_cast<unsigned>(block_shape_.count()); }
    // The number of a block of this cluster in the cluster: x first.
    SLUICE_KERNEL unsigned rank(const thread_block& block) const {
        const block_extent& at = block.position();
        return at.x % shape_.x + shape_.x * (at.y % shape_.y + shape_.y * (at.z % shape_.z));
    }

    // Calls f(thread_block) for each block of the cluster: on a GPU, each thread for its own block. Not to be called
    // inside itself (see sync).
    template <typename Function>
    SLUICE_KERNEL void for_each_block(const Function& f) const {
#if defined(__CUDA_ARCH__)
        f(thread_block({blockIdx.x, blockIdx.y, blockIdx.z}, grid_, block_shape_, shared_));
#else
        inside_.require_outside("for_each_block");
        inside_.now = true;
        unsigned rank = 0;
        for (unsigned z = 0; z < shape_.z; ++z) {
            for (unsigned y = 0; y < shape_.y; ++y) {
                for (unsigned x = 0; x < shape_.x; ++x, ++rank) f(block_at({x, y, z}, rank));
            }
        }
        inside_.now = false;
#endif
    }
    // All threads of the cluster come here before any continues, and see what the others wrote before. Not to be called
    // inside for_each_block: a CPU device and the simulator refuse that with errc::invalid_argument.
    SLUICE_KERNEL void sync() const {
        inside_.require_outside("sync");
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
        asm volatile("barrier.cluster.arrive;\nbarrier.cluster.wait;" ::: "memory");
#elif defined(__CUDA_ARCH__)
        if (blocks() != 1) __trap();  // the launch refuses code that was compiled for a GPU without clusters
        __syncthreads();
#endif
    }

    // The elements of a shared_memory in the block with this rank; and the address of the first, for code that is not
    // checked. With SLUICE_CHECK_BOUNDS a rank beyond the cluster stops the command with an error.
    template <typename T>
    SLUICE_KERNEL block_part<T> part(const shared_memory<T>& of, detail::index_as<unsigned> rank) const {
        const auto known = detail::within(rank, blocks(), detail::block_of_cluster);
        return {data(of, static_cast<unsigned>(known)), of.size()};
    }
    // The address of its first element; accesses through it are not checked.
    template <typename T>
    SLUICE_KERNEL T* data(const shared_memory<T>& of, unsigned rank) const {
        return thread_block({}, grid_, block_shape_, shared_of(rank)).data(of);
    }

    // Made by the launch. On a CPU `shared` is that of all blocks of the cluster, `shared_step` bytes each.
    SLUICE_KERNEL block_cluster(const block_extent& position, const block_extent& grid, const block_extent& shape,
                                const block_extent& block_shape, std::byte* shared, std::size_t shared_step)
        : position_(position),
          grid_(grid),
          shape_(shape),
          block_shape_(block_shape),
          shared_(shared),
          shared_step_(shared_step) {}

private:
    SLUICE_KERNEL std::byte* shared_of(unsigned rank) const {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
        std::byte* there = nullptr;
        asm("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(shared_), "r"(rank));
        return there;
#elif defined(__CUDA_ARCH__)
        if (rank != 0) __trap();
        return shared_;
#else
        return shared_ + rank * shared_step_;
#endif
    }
    SLUICE_KERNEL thread_block block_at(const block_extent& in_cluster, unsigned rank) const {
        const block_extent at{position_.x * shape_.x + in_cluster.x, position_.y * shape_.y + in_cluster.y,
                              position_.z * shape_.z + in_cluster.z};
        return {at, grid_, block_shape_, shared_of(rank)};
    }

    block_extent position_;
    block_extent grid_;
    block_extent shape_;
    block_extent block_shape_;
    std::byte* shared_;
    std::size_t shared_step_;
    mutable detail::inside_blocks inside_;
};

}  // namespace SLUICE_BOUNDS_ABI

}  // namespace sluice
