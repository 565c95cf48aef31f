// SPDX-License-Identifier: Apache-2.0
// What a kernel is written with: SLUICE_KERNEL and the index types.
//
// A kernel is a function object that is written once and compiled for both CPU and GPU. Its first parameter is its
// index. Only the launcher can create an index, so a kernel cannot access an element that belongs to another index.
//
//     struct relu {
//         SLUICE_KERNEL void operator()(index_1d at, disjoint_view<float> x) const {
//             if (float* element = x.at(at)) *element = *element < 0 ? 0 : *element;
//         }
//     };
#pragma once

#include <cstddef>

#include "sluice/base/check_bounds.hpp"

#if defined(__CUDACC__)
// Before a function that kernels call, and before a kernel's call operator: the function is compiled for the host, and
// with nvcc also for GPUs.
#define SLUICE_KERNEL __host__ __device__
#else
#define SLUICE_KERNEL
#endif

// Code that nvcc compiles is in another inline namespace than the same code compiled by a host compiler: only the
// former can start kernels on a GPU, and the linker must not confuse the two. The same for code whose kernels check
// their bounds.
#if defined(__CUDACC__) && SLUICE_CHECK_BOUNDS
#define SLUICE_LAUNCH_ABI launch_with_nvcc_and_checks
#elif defined(__CUDACC__)
#define SLUICE_LAUNCH_ABI launch_with_nvcc
#elif SLUICE_CHECK_BOUNDS
#define SLUICE_LAUNCH_ABI launch_host_only_with_checks
#else
#define SLUICE_LAUNCH_ABI launch_host_only
#endif

namespace sluice {

namespace detail {
struct index_maker;
}

// Programmatic dependent launch (see each_of(...).early_start()). On a CPU, on a GPU before sm_90 and in other launches
// both functions do nothing.
//
// In a kernel that starts early: blocks until the kernels before it have ended and their writes are visible. The code
// before this call, the preamble, must not touch anything that they read or write. Costs one instruction, and the wait.
SLUICE_KERNEL inline void dependency_wait() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
// In a kernel before one that starts early: the later kernel may start once all blocks of this one have made this call
// or ended. The later kernel does not see what this one has written until it calls dependency_wait. Costs one
// instruction.
SLUICE_KERNEL inline void dependency_trigger() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// One element of a flat range.
class index_1d {
public:
    SLUICE_KERNEL std::size_t value() const { return value_; }  // its place in the range, from 0

private:
    friend struct detail::index_maker;
    SLUICE_KERNEL explicit index_1d(std::size_t value) : value_(value) {}
    std::size_t value_;
};

// One element of a matrix.
class index_2d {
public:
    SLUICE_KERNEL std::size_t row() const { return row_; }        // the number of the row or column, from 0
    SLUICE_KERNEL std::size_t column() const { return column_; }  // the number of the row or column, from 0

private:
    friend struct detail::index_maker;
    SLUICE_KERNEL index_2d(std::size_t row, std::size_t column) : row_(row), column_(column) {}
    std::size_t row_;
    std::size_t column_;
};

// One tile of a partition.
class tile_index {
public:
    SLUICE_KERNEL std::size_t row() const { return row_; }        // in tiles
    SLUICE_KERNEL std::size_t column() const { return column_; }  // in tiles

private:
    friend struct detail::index_maker;
    SLUICE_KERNEL tile_index(std::size_t row, std::size_t column) : row_(row), column_(column) {}
    std::size_t row_;
    std::size_t column_;
};

namespace detail {
// Lets the launcher construct the index types.
struct index_maker {
    SLUICE_KERNEL static index_1d one(std::size_t value) { return index_1d(value); }
    SLUICE_KERNEL static index_2d two(std::size_t row, std::size_t column) { return {row, column}; }
    SLUICE_KERNEL static tile_index tile(std::size_t row, std::size_t column) { return {row, column}; }
};
}  // namespace detail

}  // namespace sluice
