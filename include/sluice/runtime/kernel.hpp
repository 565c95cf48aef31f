// What a kernel is made of: SLUICE_KERNEL and the index types.
//
// A kernel is a function object written once and compiled for both sides. Its first parameter is its index,
// which only the launcher can make, so a kernel cannot claim an element that is another's.
//
//     struct relu {
//         SLUICE_KERNEL void operator()(index_1d at, disjoint_view<float> x) const {
//             if (float* element = x.at(at)) *element = *element < 0 ? 0 : *element;
//         }
//     };
#pragma once

#include <cstddef>

#if defined(__CUDACC__)
#define SLUICE_KERNEL __host__ __device__
#else
#define SLUICE_KERNEL
#endif

// Code that is compiled by nvcc lives in another inline namespace than the same code compiled by a host
// compiler: only the former can start kernels on a GPU, and the linker must not mix them up.
#if defined(__CUDACC__)
#define SLUICE_LAUNCH_ABI launch_with_nvcc
#else
#define SLUICE_LAUNCH_ABI launch_host_only
#endif

namespace sluice {

namespace detail {
struct index_maker;
}

// One element of a flat range.
class index_1d {
public:
    SLUICE_KERNEL std::size_t value() const { return value_; }

private:
    friend struct detail::index_maker;
    SLUICE_KERNEL explicit index_1d(std::size_t value) : value_(value) {}
    std::size_t value_;
};

// One element of a matrix.
class index_2d {
public:
    SLUICE_KERNEL std::size_t row() const { return row_; }
    SLUICE_KERNEL std::size_t column() const { return column_; }

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
// The launcher's key to the index types.
struct index_maker {
    SLUICE_KERNEL static index_1d one(std::size_t value) { return index_1d(value); }
    SLUICE_KERNEL static index_2d two(std::size_t row, std::size_t column) { return {row, column}; }
    SLUICE_KERNEL static tile_index tile(std::size_t row, std::size_t column) { return {row, column}; }
};
}  // namespace detail

}  // namespace sluice
