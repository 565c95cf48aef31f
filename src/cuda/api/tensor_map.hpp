// What the copy engine of Hopper and later is told of a matrix in device memory, to bring tiles of it to shared memory
// and back.
#pragma once

#include <cuda.h>

#include <cstddef>

#include "sluice/runtime/error.hpp"

namespace sluice::cuda::api {

enum class tensor_map_element { f16, bf16, f32, tf32 };  // tf32: floats, rounded to tf32 on the way in

// A dense row-major matrix of device memory: at a multiple of 16 bytes, with rows of a multiple of 16 bytes.
struct tensor_map_matrix {
    const void* data;
    tensor_map_element element;
    std::size_t rows;
    std::size_t columns;
};

// Tiles of `rows` (256 at most) times 128 bytes, swizzled: in each eight rows, the 16-byte pieces of row r change
// places with those at r xor their place. Tiles lie in shared memory at multiples of 1 KiB. What lies beyond the matrix
// is read as zeros and not written. Throws device_error; errc::unsupported for a driver without tensor maps.
CUtensorMap make_tensor_map(const tensor_map_matrix& of, std::size_t rows, const error_context& context);

}  // namespace sluice::cuda::api
