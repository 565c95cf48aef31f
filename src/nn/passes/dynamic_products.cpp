// SPDX-License-Identifier: Apache-2.0
// On a CPU the products and convolutions of dynamic quantization become one command each, with weights that are packed
// once.
//
//     DynamicQuantizeLinear(x) -> q, scale, zero
//     MatMulInteger or ConvInteger(q, weights, zero, their zero point) -> Cast -> Mul(scale * their scale) -> Add(bias)
//     -> Relu
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/rounded_layers/quantized_product.hpp"
#include "kernels/rounded_layers/window_rows.hpp"
#include "nn/operators/dynamic_products.hpp"
#include "nn/passes/dense_search.hpp"
#include "nn/passes/passes.hpp"
#include "nn/passes/steps.hpp"

namespace sluice::nn::detail {
namespace {

using io::dtype;
using kernels::integer_layer;

class dynamic_search {
public:
    explicit dynamic_search(prepared_graph& in)
        : in_(in), readers_(only_readers(in)), givers_(givers(in)), is_left_(in.steps.size(), true) {}

    // How many were found.
    std::size_t run() {
        std::size_t found = 0;
        for (std::size_t i = 0; i < in_.steps.size(); ++i) found += is_left_[i] && fuse(i);
        erase_steps(in_, is_left_);
        return found;
    }

private:
    static slot input_of(const step& of, std::size_t i) { return i < of.inputs.size() ? of.inputs[i] : no_slot; }
    const any_tensor* constant(slot value) const {
        const auto found = value == no_slot ? in_.constants.end() : in_.constants.find(value);
        return found != in_.constants.end() && found->second.is_on_host() ? &found->second : nullptr;
    }
    // The only step that reads the value, if it is this operator.
    std::size_t next(slot value, std::string_view op) const {
        const std::size_t by = readers_[value];
        const bool is_there = by < several_steps && is_left_[by] && !in_.needed_on_host[value];
        return is_there && !in_.steps[by].is_on_host && is(in_.steps[by], op) ? by : no_step;
    }
    static slot other_input(const step& of, slot than) { return of.inputs[0] == than ? of.inputs[1] : of.inputs[0]; }

    struct layer {
        integer_layer numbers;
        std::vector<std::size_t> taken;  // steps
        slot output = no_slot;
        bool has_relu = false;
        // Constants after it are along the axis with this number of axes after it, of at most these.
        std::size_t axes_after = 0, most_axes = 1;
    };

    // The weights as signed bytes without a zero point: [outputs, inputs]. Filters have that order.
    std::optional<integer_layer> weights_of(const step& product) const {
        const any_tensor* const w = constant(product.inputs[1]);
        const slot zero_slot = input_of(product, 3);
        const any_tensor* const zero = constant(zero_slot);
        const bool is_convolution = is(product, "ConvInteger");
        if (w == nullptr || w->elements() == 0 || (zero_slot != no_slot && zero == nullptr)) return {};
        const std::size_t rank = w->shape().size();
        if (is_convolution ? rank != 3 && rank != 4 : rank != 2) return {};
        if (w->type() != dtype::i8 && w->type() != dtype::u8) return {};
        integer_layer made;
        made.out_features = w->shape()[is_convolution ? 0 : 1];
        made.in_features = w->elements() / made.out_features;
        if (std::max(made.in_features, made.out_features) > kernels::most_rounded_features) return {};
        if (zero != nullptr && (zero->type() != w->type() || zero->shape().size() > 1 ||
                                (zero->elements() != 1 && zero->elements() != made.out_features))) {
            return {};
        }
        const auto integer_at = [](const any_tensor& x, std::size_t i) -> std::int32_t {
            return x.type() == dtype::i8 ? std::int32_t{x.values<std::int8_t>()[i]} : x.values<std::uint8_t>()[i];
        };
        made.weight.resize(w->elements());
        for (std::size_t c = 0; c < made.out_features; ++c) {
            const std::int32_t moved = zero == nullptr ? 0 : integer_at(*zero, zero->elements() == 1 ? 0 : c);
            for (std::size_t k = 0; k < made.in_features; ++k) {
                const std::size_t at = is_convolution ? c * made.in_features + k : k * made.out_features + c;
                const std::int32_t q = integer_at(*w, at) - moved;
                if (q < -128 || q > 127) return {};
                made.weight[c * made.in_features + k] = static_cast<std::int8_t>(q);
            }
        }
        return made;
    }

    // Numbers for each output, from a constant that has one or as many, along the axis of the outputs: the last one, or
    // of images that of the channels. Finite.
    static bool set_numbers(std::vector<float>& to, const any_tensor* from, const layer& of) {
        const std::size_t outputs = of.numbers.out_features, after = of.axes_after;
        if (from == nullptr || from->type() != dtype::f32) return false;
        const operators::lengths& shape = from->shape();
        const std::size_t rank = shape.size();
        const bool is_along = rank > after && shape[rank - 1 - after] == outputs && from->elements() == outputs;
        if (rank > of.most_axes || (from->elements() != 1 && !is_along)) return false;
        for (std::size_t c = 0; c < outputs; ++c) to.push_back(from->values<float>()[from->elements() == 1 ? 0 : c]);
        return std::ranges::all_of(to, [](float each) { return std::isfinite(each); });
    }

    // Mul by the product of the scale and constants.
    bool take_scale(std::size_t at, slot scaled, slot scale, layer& to) const {
        const step& times = in_.steps[at];
        const slot both = other_input(times, scaled);
        if (both == no_slot || givers_[both] == no_step || times.opset < 7) return false;
        const step& scales = in_.steps[givers_[both]];
        if (!is(scales, "Mul") || scales.opset < 7 || (scales.inputs[0] != scale && scales.inputs[1] != scale))
            return false;
        return set_numbers(to.numbers.steps, constant(other_input(scales, scale)), to);
    }

    void take(std::size_t at, layer& to) const {
        to.taken.push_back(at);
        to.output = in_.steps[at].outputs[0];
    }

    // What follows the product.
    bool follow(const step& product, slot scale, layer& to) const {
        const std::size_t cast = next(product.outputs[0], "Cast");
        if (cast == no_step || integer(in_.steps[cast], "to", 0) != 1) return false;
        take(cast, to);
        const std::size_t times = next(to.output, "Mul");
        if (times == no_step || !take_scale(times, to.output, scale, to)) return false;
        take(times, to);
        const std::size_t sum = next(to.output, "Add");
        if (sum != no_step && in_.steps[sum].opset >= 7) {
            std::vector<float> bias;
            const any_tensor* const given = constant(other_input(in_.steps[sum], to.output));
            if (set_numbers(bias, given, to)) {
                to.numbers.bias = std::move(bias);
                take(sum, to);
            }
        }
        const std::size_t relu = next(to.output, "Relu");
        if (relu != no_step) {
            to.has_relu = true;
            take(relu, to);
        }
        return true;
    }

    bool fuse(std::size_t at) {
        step& product = in_.steps[at];
        const bool is_convolution = is(product, "ConvInteger");
        if ((!is_convolution && !is(product, "MatMulInteger")) || product.is_on_host) return false;
        const slot rows = product.inputs[0], zero = input_of(product, 2);
        if (givers_[rows] == no_step || zero == no_slot) return false;
        const step& dynamic = in_.steps[givers_[rows]];
        if (!is(dynamic, "DynamicQuantizeLinear") || dynamic.is_on_host || dynamic.outputs.size() != 3 ||
            dynamic.outputs[0] != rows || dynamic.outputs[1] == no_slot || dynamic.outputs[2] != zero) {
            return false;
        }
        std::optional<integer_layer> weights = weights_of(product);
        if (!weights) return false;
        layer made;
        made.numbers = *std::move(weights);
        if (is_convolution) {
            made.most_axes = constant(product.inputs[1])->shape().size();
            made.axes_after = made.most_axes - 2;
            const std::int64_t groups = integer(product, "group", 1);
            if (groups < 1 || made.numbers.out_features % static_cast<std::size_t>(groups) != 0) return false;
        }
        if (!follow(product, dynamic.outputs[1], made)) return false;
        make(product, dynamic, made);
        return true;
    }

    void make(step& product, const step& dynamic, const layer& of) {
        for (const std::size_t each : of.taken) {
            is_left_[each] = false;
            product.label += " to " + in_.steps[each].label;
            note_joined(in_.steps[each], product);
        }
        if (is(product, "ConvInteger")) {
            const slot filters = product.inputs[1];
            const std::vector<std::byte> image = image_of_filters(product, of.numbers);
            product.inputs = {dynamic.outputs[0], dynamic.outputs[1],          dynamic.outputs[2],
                              add_bytes(image),   add_integers({of.has_relu}), filters};
            product.what = &operators::dynamic_convolution();
        } else {
            const std::vector<std::byte> image = kernels::integer_image({of.numbers});
            product.inputs = {dynamic.outputs[0], dynamic.outputs[1], dynamic.outputs[2], add_bytes(image),
                              add_integers({static_cast<std::int64_t>(of.numbers.in_features),
                                            static_cast<std::int64_t>(of.numbers.out_features), of.has_relu})};
            product.what = &operators::dynamic_product();
        }
        product.outputs = {of.output};
    }

    // A layer for each group.
    std::vector<std::byte> image_of_filters(const step& product, const integer_layer& all) const {
        const auto groups = static_cast<std::size_t>(integer(product, "group", 1));
        const std::size_t channels = constant(product.inputs[1])->shape()[1];
        std::vector<integer_layer> packed = kernels::layers_of_groups(all, groups);
        for (integer_layer& each : packed)
            each.weight = kernels::weights_in_window_order(each.weight, channels, each.in_features / channels);
        return kernels::integer_image(packed);
    }
    slot add_bytes(const std::vector<std::byte>& image) {
        std::vector<std::uint8_t> bytes(image.size());
        std::memcpy(bytes.data(), image.data(), image.size());
        return add_constant(in_, any_tensor(bytes, {bytes.size()}));
    }
    slot add_integers(const std::vector<std::int64_t>& values) {
        return add_constant(in_, any_tensor(values, {values.size()}));
    }

    prepared_graph& in_;
    const std::vector<std::size_t> readers_, givers_;
    std::vector<bool> is_left_;
};

// Products of scales that nothing reads any more.
void erase_unread_scales(prepared_graph& in) {
    const std::vector<std::size_t> readers = only_readers(in);
    std::erase_if(in.steps, [&](const step& each) {
        return is(each, "Mul") && each.outputs[0] != no_slot && readers[each.outputs[0]] == no_step &&
               !in.needed_on_host[each.outputs[0]];
    });
}

}  // namespace

std::size_t fuse_dynamic_products(prepared_graph& in) {
    std::size_t found = dynamic_search(in).run();
    if (found != 0) erase_unread_scales(in);
    for (step& each : in.steps)
        for (const auto& [from, inner] : each.inner) found += fuse_dynamic_products(*inner);
    return found;
}

}  // namespace sluice::nn::detail
