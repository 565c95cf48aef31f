// SPDX-License-Identifier: Apache-2.0
// The bodies of quantized_mlp.
//
// The image on a CPU, for each layer: panels of 16 columns, [panels][in][16] float, then [panels][16] zeros, as
// fused_mlp_cpu.hpp has them with no bias; then [panels][16] biases, which are added to the sums times the factor.
#pragma once

#include <cstddef>
#include <string_view>
#include <type_traits>
#include <vector>

#include "kernels/quantized_mlp/quantized_mlp_layout.hpp"

namespace sluice::kernels {

enum class eight_bit_type : unsigned char { f8, int8 };
template <detail::eight_bit_element T>
inline constexpr eight_bit_type eight_bit_type_of =
    std::is_same_v<T, f8_e4m3> ? eight_bit_type::f8 : eight_bit_type::int8;

// Why a GPU of this compute capability, 89 for 8.9, has no tensor cores for the type. Empty if it has.
constexpr std::string_view why_no_8_bits(eight_bit_type type, int compute_capability) {
    if (compute_capability < 80) return "8-bit networks need a GPU of compute capability 8.0 or later";
    if (type == eight_bit_type::int8 || compute_capability >= 89) return {};
    return "f8_e4m3 needs a GPU of compute capability 8.9 or later; std::int8_t, half and bfloat16 run from 8.0 on";
}

template <detail::eight_bit_element T>
std::vector<std::byte> quantized_image_for_cpu(const std::vector<mlp_layer>& layers, const std::vector<float>& scales);

// How much scratch memory the body for a CPU needs.
std::size_t quantized_mlp_scratch_floats(std::size_t rows, const detail::quantized_mlp_form& form) noexcept;

// Runs all of it, on a worker thread of a CPU device, which other workers may help.
void quantized_mlp_on_cpu(const quantized_mlp_call& call, eight_bit_type type);

// The launch for a GPU. Throws errc::unsupported when the device cannot.
launch_command quantized_mlp_on_cuda(const quantized_mlp_call& call, eight_bit_type type, device& gpu);

}  // namespace sluice::kernels
