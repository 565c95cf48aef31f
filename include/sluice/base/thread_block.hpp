// SPDX-License-Identifier: Apache-2.0
// thread_block: the index of a kernel whose threads work together in blocks, with shared memory and sync. See
// runtime/block_kernel.hpp for the launch.
//
// Such a kernel is called once for each block on a CPU, and once for each thread of each block on a GPU. What differs
// between the threads is in for_each_thread; the code between two such calls is the same for all threads of the
// block, and writes nothing but its own variables. Threads pass values to each other in shared memory, across a sync():
//
//     block.for_each_thread([&](const block_thread& t) { part[t.index()] = x[t.index()]; });
//     block.sync();
//     block.for_each_thread([&](const block_thread& t) { ... part[t.index() + 1] ... });
//
// Within one for_each_thread the order of the threads is unspecified, and sync() must not be called. A variable that is
// declared outside has one value for the block on a CPU and one for each thread on a GPU: what a thread is to remember
// until the next for_each_thread belongs into shared memory.
//
// All members take constant time, but for for_each_thread, which on a CPU calls its function once for each thread of
// the block, and for sync, which waits for the other threads.
#pragma once

#include <cstddef>

#include "sluice/base/detail/access.hpp"
#include "sluice/base/kernel.hpp"

namespace sluice {

inline namespace SLUICE_BOUNDS_ABI {

// A position in a grid or block, or its size.
struct block_extent {
    unsigned x = 1, y = 1, z = 1;  // along each dimension

    // The number of positions: the product of the three.
    SLUICE_KERNEL std::size_t count() const { return std::size_t{x} * y * z; }
};

// One thread of a block, inside for_each_thread.
class block_thread {
public:
    // Its position in the block.
    SLUICE_KERNEL unsigned x() const { return at_.x; }
    SLUICE_KERNEL unsigned y() const { return at_.y; }  // along the second dimension
    SLUICE_KERNEL unsigned z() const { return at_.z; }  // along the third dimension
    // Its number in the block: x first.
    SLUICE_KERNEL unsigned index() const { return number_; }
    // Its place among all threads of the launch, by number, for a disjoint_view.
    SLUICE_KERNEL index_1d flat() const { return flat_; }
    // The same by row (y) and column (x), for a disjoint_matrix.
    SLUICE_KERNEL index_2d at() const { return in_matrix_; }

private:
    friend class thread_block;
    SLUICE_KERNEL block_thread(const block_extent& at, unsigned number, index_1d flat, index_2d in_matrix)
        : at_(at), number_(number), flat_(flat), in_matrix_(in_matrix) {}

    block_extent at_;
    unsigned number_;
    index_1d flat_;
    index_2d in_matrix_;
};

// `count` elements that the threads of a block share while the block runs: an argument of the launch and a parameter of
// the kernel, which gets at them by thread_block::part, or as a plain pointer by thread_block::data. Their first values
// are unspecified.
template <typename T>
class shared_memory {
public:
    using element_type = T;  // of the elements

    explicit shared_memory(std::size_t count) : count_(count) {}  // `count`: the elements of each block
    SLUICE_KERNEL std::size_t size() const { return count_; }     // the number of elements

private:
    friend class thread_block;
    template <typename>
    friend struct shared_memory_layout;

    std::size_t count_;
    std::size_t offset_ = 0;  // in bytes, in the block's shared memory
};

// Elements that the threads of a block share: those of a shared_memory (thread_block::part), or the block's own of a
// tensor (disjoint_blocks::part). With SLUICE_CHECK_BOUNDS an index beyond the size stops the command with an error.
template <typename T>
class block_part {
public:
    using element_type = T;  // of the elements

    SLUICE_KERNEL block_part(T* data, std::size_t size) : data_(data), size_(size) {}  // made by part()

    // The element at this index, from 0.
    SLUICE_KERNEL T& operator[](detail::element_index i) const {
        return data_[detail::within(i, size_, detail::accessed::part_element)];
    }
    SLUICE_KERNEL std::size_t size() const { return size_; }  // the number of elements
    SLUICE_KERNEL T* data() const { return data_; }           // the first element; accesses through it are not checked

private:
    T* data_;
    std::size_t size_;
};

class thread_block {
public:
    // The block's position in the grid, and its number: x first.
    SLUICE_KERNEL const block_extent& position() const { return position_; }
    // The block's number in the grid: x first.
    SLUICE_KERNEL std::size_t index() const {
        return position_.x + std::size_t{grid_.x} * (position_.y + std::size_t{grid_.y} * position_.z);
    }
    // The number of blocks, and of threads in each, along the three dimensions.
    SLUICE_KERNEL const block_extent& grid() const { return grid_; }
    SLUICE_KERNEL const block_extent& shape() const { return shape_; }  // the threads of each block
    // The number of threads in each block.
    SLUICE_KERNEL unsigned threads() const { return static_cast<unsigned>(shape_.count()); }

    // The elements of a shared_memory; and the address of the first, for code that is not checked.
    template <typename T>
    SLUICE_KERNEL block_part<T> part(const shared_memory<T>& of) const {
        return {data(of), of.size()};
    }
    // The address of its first element; accesses through it are not checked.
    template <typename T>
    SLUICE_KERNEL T* data(const shared_memory<T>& of) const {
        return reinterpret_cast<T*>(shared_ + of.offset_);
    }

    // Calls f(block_thread) for each thread of the block: on a GPU, each thread for itself.
    template <typename Function>
    SLUICE_KERNEL void for_each_thread(const Function& f) const {
#if defined(__CUDA_ARCH__)
        f(thread({threadIdx.x, threadIdx.y, threadIdx.z}));
#else
        for (unsigned z = 0; z < shape_.z; ++z) {
            for (unsigned y = 0; y < shape_.y; ++y) {
                for (unsigned x = 0; x < shape_.x; ++x) f(thread({x, y, z}));
            }
        }
#endif
    }
    // All threads of the block come here before any continues, and see what the others wrote before.
    SLUICE_KERNEL void sync() const {
#if defined(__CUDA_ARCH__)
        __syncthreads();
#endif
    }

    // Made by the launch.
    SLUICE_KERNEL thread_block(const block_extent& position, const block_extent& grid, const block_extent& shape,
                               std::byte* shared)
        : position_(position), grid_(grid), shape_(shape), shared_(shared) {}

private:
    SLUICE_KERNEL block_thread thread(const block_extent& at) const {
        const unsigned number = at.x + shape_.x * (at.y + shape_.y * at.z);
        return {at, number, detail::index_maker::one(index() * threads() + number),
                detail::index_maker::two(std::size_t{position_.y} * shape_.y + at.y,
                                         std::size_t{position_.x} * shape_.x + at.x)};
    }

    block_extent position_;
    block_extent grid_;
    block_extent shape_;
    std::byte* shared_;
};

}  // namespace SLUICE_BOUNDS_ABI

}  // namespace sluice
