// SPDX-License-Identifier: Apache-2.0
#include "sluice/nn/precision.hpp"

#include <array>
#include <utility>

#include "kernels/rounded_layers/rounded_layers.hpp"
#include "kernels/rounded_layers/tile_permission.hpp"
#include "sluice/runtime/device.hpp"

namespace sluice::nn {
namespace {

constexpr std::array<std::pair<precision, std::string_view>, 4> names{
    {{precision::f32, "f32"}, {precision::bf16, "bf16"}, {precision::f16, "f16"}, {precision::int8, "int8"}}};

precision_support support_of_cpu(kernels::rounded_type type) {
    const kernels::rounded_kernel& best = kernels::rounded_kernels(type).front();
    const std::string& refused = kernels::permission_for_tiles().refused;
    const std::string without =
        refused.empty() || type == kernels::rounded_type::f16 ? std::string() : "; without AMX: " + refused;
    if (best.has_own_products) return {true, std::string(best.name) + without};
    return {false, std::string(best.name) + ", on rounded factors"};
}

}  // namespace

std::string_view to_string(precision what) noexcept { return names[static_cast<std::size_t>(what)].second; }

std::optional<precision> precision_from_string(std::string_view text) noexcept {
    for (const auto& [what, name] : names)
        if (name == text) return what;
    return {};
}

precision_support support_of(precision what, const device& on) {
    if (what == precision::f32) return {true, "the model's types"};
    if (on.kind() == device_kind::cuda) {
        if (what == precision::int8) return {false, "f32 arithmetic, on rounded weights"};
        return {true, "tensor cores; convolutions: f32 arithmetic, on rounded factors"};
    }
    switch (what) {
        case precision::bf16: return support_of_cpu(kernels::rounded_type::bf16);
        case precision::f16: return support_of_cpu(kernels::rounded_type::f16);
        default: return support_of_cpu(kernels::rounded_type::int8);
    }
}

}  // namespace sluice::nn
