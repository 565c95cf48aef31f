// SPDX-License-Identifier: Apache-2.0
#include "sluice/kernels/fused_mlp.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "kernels/fused_mlp/fused_mlp_command.hpp"
#include "kernels/fused_mlp/fused_mlp_cpu.hpp"
#include "kernels/fused_mlp/fused_mlp_dispatch.hpp"
#include "sluice/runtime/transfer.hpp"

namespace sluice {

template <detail::fused_element T>
struct kernels::fused_mlp_kernels<packed_mlp<T>> {
    using call = fused_mlp_call;
    static constexpr fused_type type = fused_type_of<T>;

    static launch_command on_cuda(const call& what, device& gpu) { return fused_mlp_on_cuda(what, type, gpu); }
    static void on_cpu(const call& what) { fused_mlp_on_cpu(what, type); }
    static std::size_t scratch_floats(const call& what) noexcept {
        return fused_mlp_scratch_floats(what.rows, what.form, type);
    }
};

namespace {

[[noreturn]] void refuse(std::size_t layer, const std::string& why, const error_context& context) {
    throw error(errc::invalid_argument, "layer " + std::to_string(layer + 1) + " " + why, context);
}

void check_width(const mlp_layer& layer, std::size_t at, device_kind on, const error_context& context) {
    const std::size_t most = detail::widest_fused_layer(on);
    for (const std::size_t width : {layer.in_features, layer.out_features}) {
        if (width >= 1 && width <= most) continue;
        refuse(at, "has " + std::to_string(width) + " features; 1 to " + std::to_string(most) + " can be fused",
               context);
    }
}

void check_layer(const std::vector<mlp_layer>& layers, std::size_t at, const error_context& context) {
    const mlp_layer& layer = layers[at];
    const std::size_t in = layer.in_features, out = layer.out_features;
    check_width(layer, at, device_kind::cpu, context);
    if (layer.weight.size() != in * out) {
        refuse(at, "has " + std::to_string(layer.weight.size()) + " weights instead of " + std::to_string(in * out),
               context);
    }
    if (!layer.bias.empty() && layer.bias.size() != out) {
        refuse(at, "has " + std::to_string(layer.bias.size()) + " biases instead of " + std::to_string(out), context);
    }
    if (at + 1 == layers.size()) return;
    if (layer.after == activation::softmax) refuse(at, "ends with a softmax, which only the last may", context);
    if (layers[at + 1].in_features != out) {
        refuse(
            at,
            "makes " + std::to_string(out) + " features, the next takes " + std::to_string(layers[at + 1].in_features),
            context);
    }
}

template <typename T>
void put(std::byte* slabs, std::size_t k, std::size_t n, std::size_t width, T value) {
    std::memcpy(slabs + kernels::fused_weight_offset(k, n, width), &value, sizeof(value));
}

// A bias as three numbers of the element type that add up to it.
template <typename T>
void put_bias(std::byte* slab, std::size_t n, std::size_t width, float bias) {
    for (std::size_t k = 0; k < 3; ++k) {
        const T part(bias);
        put(slab, k, n, width, part);
        if (!std::isfinite(float{part})) return;
        bias -= float{part};
    }
}

// Where one layer's numbers go in the image.
struct cuda_layer {
    float* biases;
    std::byte* weights;
    std::byte* bias_slab;
};

template <typename T>
void pack_layer_for_cuda(const mlp_layer& layer, bool is_first, bool is_last, std::size_t width, const cuda_layer& to) {
    for (std::size_t n = 0; n < width; ++n) {
        const std::size_t row = is_last ? kernels::fused_output_column(n) : n;
        if (row >= layer.out_features) continue;  // padding: zeros
        if (!layer.bias.empty()) {
            to.biases[kernels::fused_bias_index(n)] = layer.bias[row];
            put_bias<T>(to.bias_slab, n, width, layer.bias[row]);
        }
        for (std::size_t k = 0; k < width; ++k) {
            const std::size_t column = is_first ? kernels::fused_input_column(k) : k;
            if (column < layer.in_features)
                put(to.weights, k, n, width, T(layer.weight[row * layer.in_features + column]));
        }
    }
}

template <typename T>
std::vector<std::byte> pack_for_cuda(const std::vector<mlp_layer>& layers, std::size_t width) {
    const std::size_t layer_bytes = width * width * sizeof(T), slab_bytes = kernels::fused_slab_bytes(width);
    const std::size_t count = layers.size(), bias_bytes = kernels::fused_bias_bytes(count, width);
    std::vector<float> biases(count * width);
    std::vector<std::byte> image(bias_bytes + count * (layer_bytes + slab_bytes));
    std::byte* const weights = image.data() + bias_bytes;
    for (std::size_t i = 0; i < count; ++i) {
        pack_layer_for_cuda<T>(
            layers[i], i == 0, i + 1 == count, width,
            {biases.data() + i * width, weights + i * layer_bytes, weights + count * layer_bytes + i * slab_bytes});
    }
    std::memcpy(image.data(), biases.data(), bias_bytes);
    return image;
}

template <typename T>
std::vector<std::byte> pack_for_cpu(const std::vector<mlp_layer>& layers) {
    constexpr std::size_t columns = kernels::panel_columns;
    std::vector<float> image;
    for (const mlp_layer& layer : layers) {
        const std::size_t in = layer.in_features, out = layer.out_features, first = image.size();
        image.resize(first + kernels::cpu_layer_floats(in, out));
        float* const weight = image.data() + first;
        float* const bias = image.data() + image.size() - kernels::panels_of(out) * columns;
        const bool is_single = kernels::has_single_columns(in, out);
        for (std::size_t row = 0; row < out; ++row) {
            float* const column = is_single ? weight + row * kernels::single_column_floats(in)
                                            : weight + row / columns * in * columns + row % columns;
            for (std::size_t k = 0; k < in; ++k) column[is_single ? k : k * columns] = T(layer.weight[row * in + k]);
            if (!layer.bias.empty()) bias[row] = layer.bias[row];
        }
    }
    std::vector<std::byte> bytes(image.size() * sizeof(float));
    std::memcpy(bytes.data(), image.data(), bytes.size());
    return bytes;
}

}  // namespace

detail::fused_mlp_form detail::check_fused_mlp(const std::vector<mlp_layer>& layers, const source_location& location,
                                               std::string_view operation) {
    const error_context context{operation, "", location};
    if (layers.empty() || layers.size() > most_fused_layers) {
        throw error(
            errc::invalid_argument,
            std::to_string(layers.size()) + " layers; 1 to " + std::to_string(most_fused_layers) + " can be fused",
            context);
    }
    fused_mlp_form form{layers.front().in_features, layers.back().out_features, layers.size(), false, 32};
    form.features[0] = static_cast<std::uint16_t>(form.in_features);
    for (std::size_t i = 0; i < layers.size(); ++i) {
        check_layer(layers, i, context);
        const std::size_t widest = std::max(layers[i].in_features, layers[i].out_features);
        while (form.width < widest) form.width *= 2;
        form.features[i + 1] = static_cast<std::uint16_t>(layers[i].out_features);
        form.after[i] = layers[i].after;
        form.is_biased = form.is_biased || !layers[i].bias.empty();
    }
    return form;
}

template <detail::fused_element T>
packed_mlp<T> pack_mlp_operation<T>::submit(execution_context& context) && {
    const device_kind kind = context.device().kind();
    for (std::size_t i = 0; i < layers_.size(); ++i) check_width(layers_[i], i, kind, {"pack_mlp", "", location_});
    std::vector<std::byte> image;
    if (kind == device_kind::cpu) {
        image = pack_for_cpu<T>(layers_);
    } else if constexpr (std::same_as<T, float>) {
        throw error(errc::unsupported, "on a GPU the elements are half or bfloat16, not float",
                    {"pack_mlp", context.device().name(), location_});
    } else {
        image = pack_for_cuda<T>(layers_, form_.width);
    }
    const std::size_t bytes = image.size();
    return {form_, shared_tensor<std::byte>(upload(std::move(image), {bytes}, location_).submit(context))};
}

void kernels::require_fused_shapes(const shape& x, std::size_t in_features, const shape& out, std::size_t out_features,
                                   const error_context& context) {
    if (x.rank() != 2 || x.columns() != in_features) {
        throw error(errc::shape_mismatch,
                    "the network takes [rows, " + std::to_string(in_features) + "], the input is " + to_string(x),
                    context);
    }
    const shape expected{x.rows(), out_features};
    if (out != expected) {
        throw error(errc::shape_mismatch, "the result is " + to_string(expected) + ", the output " + to_string(out),
                    context);
    }
}

template class pack_mlp_operation<half>;
template class pack_mlp_operation<bfloat16>;
template class pack_mlp_operation<float>;
template void fused_mlp(stream, const tensor<half>&, const packed_mlp<half>&, tensor<half>&, source_location);
template void fused_mlp(stream, const tensor<bfloat16>&, const packed_mlp<bfloat16>&, tensor<bfloat16>&,
                        source_location);
template void fused_mlp(stream, const tensor<float>&, const packed_mlp<float>&, tensor<float>&, source_location);

}  // namespace sluice
