// SPDX-License-Identifier: Apache-2.0
// Describes a matrix in device memory to the copy engine (TMA) of Hopper and later, which copies tiles between it and
// shared memory.
#pragma once

#include <cuda.h>

#include <cstddef>

#include "sluice/base/error.hpp"

namespace sluice::cuda::api {

enum class tensor_map_element { f16, bf16, f32, tf32 };  // tf32: floats, rounded to tf32 on the way in

// A dense row-major matrix in device memory. Its address and the bytes of a row must be multiples of 16.
struct tensor_map_matrix {
    const void* data;
    tensor_map_element element;
    std::size_t rows;
    std::size_t columns;
};

// Tiles have `rows` (256 at most) rows of 128 bytes and are swizzled: in each group of eight rows, the 16-byte piece at
// position p of row r is stored at position r xor p. Tiles are at multiples of 1 KiB in shared memory. Elements beyond
// the matrix are read as zeros and not written. Throws device_error; errc::unsupported for a driver without tensor
// maps.
CUtensorMap make_tensor_map(const tensor_map_matrix& of, std::size_t rows, const error_context& context);

}  // namespace sluice::cuda::api
