// SPDX-License-Identifier: Apache-2.0
#include "cuda/api/tensor_map.hpp"

#include "cuda/api/driver.hpp"

namespace sluice::cuda::api {
namespace {

CUtensorMapDataType type_of(tensor_map_element element) {
    switch (element) {
        case tensor_map_element::f16: return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
        case tensor_map_element::bf16: return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
        case tensor_map_element::tf32: return CU_TENSOR_MAP_DATA_TYPE_TFLOAT32;
        case tensor_map_element::f32: break;
    }
    return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
}

}  // namespace

CUtensorMap make_tensor_map(const tensor_map_matrix& of, std::size_t rows, const error_context& context) {
    static const auto encode = driver_function<decltype(&cuTensorMapEncodeTiled)>("cuTensorMapEncodeTiled");
    constexpr std::size_t pitch = 128;
    const bool is_wide = of.element == tensor_map_element::f32 || of.element == tensor_map_element::tf32;
    const std::size_t element_bytes = is_wide ? 4 : 2;
    const cuuint64_t sizes[] = {of.columns, of.rows};
    const cuuint64_t strides[] = {of.columns * element_bytes};
    const cuuint32_t box[] = {static_cast<cuuint32_t>(pitch / element_bytes), static_cast<cuuint32_t>(rows)};
    const cuuint32_t steps[] = {1, 1};
    CUtensorMap made{};
    check_driver(encode(&made, type_of(of.element), 2, const_cast<void*>(of.data), sizes, strides, box, steps,
                        CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                        CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
                 "cuTensorMapEncodeTiled", context);
    return made;
}

}  // namespace sluice::cuda::api
