// SPDX-License-Identifier: Apache-2.0
#include "sluice/kernels/quantized_mlp.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <string_view>

#include "kernels/fused_mlp/fused_mlp_command.hpp"
#include "kernels/quantized_mlp/quantized_mlp_dispatch.hpp"
#include "sluice/runtime/transfer.hpp"

namespace sluice {

template <detail::eight_bit_element T>
struct kernels::fused_mlp_kernels<quantized_mlp<T>> {
    using call = quantized_mlp_call;
    static constexpr eight_bit_type type = eight_bit_type_of<T>;

    static launch_command on_cuda(const call& what, device& gpu) { return quantized_mlp_on_cuda(what, type, gpu); }
    static void on_cpu(const call& what) { quantized_mlp_on_cpu(what, type); }
    static std::size_t scratch_floats(const call& what) noexcept {
        return quantized_mlp_scratch_floats(what.rows, what.form);
    }
};

namespace {

constexpr std::string_view packing = "pack_quantized_mlp";

std::string number_text(double value) {
    char text[32];
    std::snprintf(text, sizeof(text), "%g", value);
    return text;
}

[[noreturn]] void refuse_quantized(const std::string& why, const source_location& location) {
    throw error(errc::invalid_argument, why, {packing, "", location});
}

void check_quantized_width(const mlp_layer& layer, std::size_t at, device_kind on, const source_location& location) {
    const std::size_t most = detail::widest_quantized_layer(on),
                      widest = std::max(layer.in_features, layer.out_features);
    if (widest <= most) return;
    refuse_quantized("layer " + std::to_string(at + 1) + " has " + std::to_string(widest) + " features; 1 to " +
                         std::to_string(most) + " can be fused in 8 bits",
                     location);
}

void check_scale(float scale, const std::string& of, const source_location& location) {
    if (scale > 0 && std::isfinite(scale) && std::isfinite(1 / scale)) return;
    refuse_quantized(
        "the scale of " + of + " is " + number_text(scale) + "; it must be positive, and it and 1 / scale finite",
        location);
}

void check_scales(const mlp_scales& scales, std::size_t layers, const source_location& location) {
    check_scale(scales.input, "the inputs", location);
    if (scales.weights.size() != layers || scales.outputs.size() != layers) {
        refuse_quantized(std::to_string(scales.weights.size()) + " scales of weights and " +
                             std::to_string(scales.outputs.size()) + " of outputs for " + std::to_string(layers) +
                             " layers; each has one of both",
                         location);
    }
    for (std::size_t i = 0; i < layers; ++i) {
        const std::string layer = "layer " + std::to_string(i + 1) + "'s ";
        check_scale(scales.weights[i], layer + "weights", location);
        check_scale(scales.outputs[i], layer + "outputs", location);
    }
}

void check_finite(const std::vector<float>& numbers, std::size_t layer, const char* what,
                  const source_location& location) {
    const auto at = std::find_if_not(numbers.begin(), numbers.end(), [](float each) { return std::isfinite(each); });
    if (at == numbers.end()) return;
    refuse_quantized("layer " + std::to_string(layer + 1) + " has a " + what + " that is " + number_text(*at) +
                         "; numbers of 8 bits stand for finite ones",
                     location);
}

}  // namespace

detail::quantized_mlp_form detail::check_quantized_mlp(std::vector<mlp_layer>& layers, const mlp_scales& scales,
                                                       const source_location& location) {
    quantized_mlp_form form;
    form.sizes = check_fused_mlp(layers, location, packing);
    form.sizes.width = std::max<std::size_t>(form.sizes.width, 64);
    check_scales(scales, layers.size(), location);
    for (std::size_t i = 0; i < layers.size(); ++i) {
        mlp_layer& layer = layers[i];
        check_quantized_width(layer, i, device_kind::cpu, location);
        check_finite(layer.weight, i, "weight", location);
        check_finite(layer.bias, i, "bias", location);
        const double from = i == 0 ? scales.input : scales.outputs[i - 1], to = scales.outputs[i];
        const bool is_linear = layer.after == activation::none || layer.after == activation::relu;
        form.factor[i] = static_cast<float>(from * scales.weights[i] / (is_linear ? to : 1.0));
        form.gain[i] = is_linear ? 1.0f : static_cast<float>(1 / to);
        if (!std::isfinite(form.factor[i]) || form.factor[i] == 0) {
            refuse_quantized("the scales of layer " + std::to_string(i + 1) + " give a factor of " +
                                 number_text(form.factor[i]) + "; it must be positive and finite",
                             location);
        }
        if (!is_linear) continue;
        for (float& bias : layer.bias) bias = static_cast<float>(bias / to);
        check_finite(layer.bias, i, "bias over the scale of its outputs", location);
    }
    return form;
}

template <detail::eight_bit_element T>
quantized_mlp<T> pack_quantized_mlp_operation<T>::submit(execution_context& context) && {
    const device_kind kind = context.device().kind();
    for (std::size_t i = 0; i < layers_.size(); ++i) check_quantized_width(layers_[i], i, kind, location_);
    std::vector<std::byte> image =
        kind == device_kind::cpu ? kernels::quantized_image_for_cpu<T>(layers_, weight_scales_)
                                 : kernels::quantized_image_for_cuda<T>(layers_, weight_scales_, form_.sizes.width);
    const std::size_t bytes = image.size();
    return {form_, shared_tensor<std::byte>(upload(std::move(image), {bytes}, location_).submit(context))};
}

template class pack_quantized_mlp_operation<f8_e4m3>;
template class pack_quantized_mlp_operation<std::int8_t>;
template void fused_mlp(stream, const tensor<f8_e4m3>&, const quantized_mlp<f8_e4m3>&, tensor<f8_e4m3>&,
                        source_location);
template void fused_mlp(stream, const tensor<std::int8_t>&, const quantized_mlp<std::int8_t>&, tensor<std::int8_t>&,
                        source_location);

}  // namespace sluice
