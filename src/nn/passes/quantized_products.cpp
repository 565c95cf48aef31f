// SPDX-License-Identifier: Apache-2.0
// DequantizeLinear, a product or convolution, and QuantizeLinear become one command that computes with integers. So do
// QLinearConv and QLinearMatMul.
#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "kernels/rounded_layers/window_rows.hpp"
#include "nn/integers/byte_groups.hpp"
#include "nn/integers/integer_weights.hpp"
#include "nn/operators/dense_layers.hpp"
#include "nn/passes/dense_search.hpp"
#include "nn/passes/passes.hpp"
#include "nn/passes/steps.hpp"
#include "sluice/runtime/device.hpp"
#include "sluice/runtime/execution_context.hpp"
#include "sluice/runtime/transfer.hpp"

namespace sluice::nn::detail {
namespace {

using io::dtype;
using kernels::integer_layer;

bool is_byte(dtype type) { return type == dtype::i8 || type == dtype::u8; }
std::int32_t integer_at(const any_tensor& x, std::size_t i) {
    switch (x.type()) {
        case dtype::i8: return x.values<std::int8_t>()[i];
        case dtype::u8: return x.values<std::uint8_t>()[i];
        default: return x.values<std::int32_t>()[i];
    }
}
// So that its inverse is normal too.
bool is_usable(float scale) { return std::isnormal(scale) && scale > 0 && std::isfinite(scale * 256); }

class quantized_search {
public:
    quantized_search(prepared_graph& in, execution_context& context)
        : in_(in),
          context_(context),
          readers_(only_readers(in)),
          givers_(givers(in)),
          is_left_(in.steps.size(), true) {}

    // How many were found.
    std::size_t run() {
        std::size_t found = 0;
        for (std::size_t i = 0; i < in_.steps.size(); ++i) found += is_left_[i] && (fuse(i) || fuse_whole(i));
        erase_steps(in_, is_left_);
        if (found != 0) erase_unread_dequantizations(in_);
        return found;
    }
    // Of what was found.
    const integer_weights& weights() const noexcept { return weights_; }

private:
    // One number with its zero point, for all elements of a value.
    struct quantity {
        float scale = 0;
        std::int32_t zero = 0;
        dtype type = dtype::u8;
    };

    static slot input_of(const step& of, std::size_t i) { return i < of.inputs.size() ? of.inputs[i] : no_slot; }
    const any_tensor* constant(slot value) const {
        const auto found = value == no_slot ? in_.constants.end() : in_.constants.find(value);
        return found != in_.constants.end() && found->second.is_on_host() ? &found->second : nullptr;
    }
    const any_tensor* constant(const step& of, std::size_t input) const { return constant(input_of(of, input)); }
    static bool is_plain(const step& of) {
        return !of.is_on_host && of.from->domain.empty() && integer(of, "block_size", 0) == 0 &&
               integer(of, "output_dtype", 0) == 0 && integer(of, "precision", 0) == 0;
    }
    const step* dequantization_of(slot value) const {
        if (value == no_slot || givers_[value] == no_step) return nullptr;
        const step& found = in_.steps[givers_[value]];
        return is(found, "DequantizeLinear") && is_plain(found) ? &found : nullptr;
    }

    // One scale and its zero point. The type is that of the zero point, u8 without one.
    std::optional<quantity> quantity_of(slot scale_slot, slot zero_slot) const {
        const any_tensor* const scale = constant(scale_slot);
        if (scale == nullptr || scale->type() != dtype::f32 || scale->elements() != 1 || scale->shape().size() > 1)
            return {};
        quantity made{scale->values<float>()[0], 0, dtype::u8};
        if (!is_usable(made.scale)) return {};
        if (zero_slot == no_slot) return made;
        const any_tensor* const zero = constant(zero_slot);
        if (zero == nullptr || zero->elements() != 1 || !is_byte(zero->type())) return {};
        made.type = zero->type();
        made.zero = integer_at(*zero, 0);
        return made;
    }
    // Of a QuantizeLinear or DequantizeLinear.
    std::optional<quantity> quantity_of(const step& of) const { return quantity_of(input_of(of, 1), input_of(of, 2)); }

    // Constants that stand for numbers. Several scales are along an axis.
    struct quantized_weights {
        slot integers, scale, zero;
        std::int64_t axis;
    };
    static quantized_weights weights_given_by(const step& dequantization) {
        return {input_of(dequantization, 0), input_of(dequantization, 1), input_of(dequantization, 2),
                integer(dequantization, "axis", 1)};
    }

    // The weights: [outputs, the rest]. `axis` is that of the outputs.
    std::optional<integer_layer> weights_of(const quantized_weights& of, std::size_t axis) const {
        const any_tensor* const w = constant(of.integers);
        const any_tensor* const scale = constant(of.scale);
        const any_tensor* const zero = constant(of.zero);
        const bool has_zero = of.zero != no_slot;
        if (w == nullptr || scale == nullptr || (has_zero && zero == nullptr) || !is_byte(w->type()) ||
            w->elements() == 0 || w->shape().size() < 2 || scale->type() != dtype::f32) {
            return {};
        }
        integer_layer made;
        made.out_features = w->shape()[axis];
        made.in_features = w->elements() / made.out_features;
        if (std::max(made.in_features, made.out_features) > kernels::most_rounded_features) return {};
        const bool is_one = scale->elements() == 1 && scale->shape().size() <= 1;
        const auto rank = static_cast<std::int64_t>(w->shape().size());
        std::int64_t scaled = of.axis;
        if (scaled < 0) scaled += rank;
        if (!is_one &&
            (scaled != static_cast<std::int64_t>(axis) || scale->shape() != operators::lengths{made.out_features}))
            return {};
        if (zero != nullptr && (zero->type() != w->type() || zero->elements() != scale->elements())) return {};
        const bool is_by_columns = axis != 0;  // a matrix [in, out]
        made.weight.resize(w->elements());
        const bool is_signed = w->type() == dtype::i8;
        const std::span<const std::byte> bytes = w->bytes();
        const std::span<const float> scales = scale->values<float>();
        const std::size_t next = is_by_columns ? made.out_features : 1;
        for (std::size_t c = 0; c < made.out_features; ++c) {
            made.steps.push_back(scales[is_one ? 0 : c]);
            if (!is_usable(made.steps[c])) return {};
            const std::int32_t moved = zero != nullptr ? integer_at(*zero, is_one ? 0 : c) : 0;
            std::size_t at = is_by_columns ? c : c * made.in_features;
            for (std::size_t k = 0; k < made.in_features; ++k, at += next) {
                const auto byte = std::to_integer<std::uint8_t>(bytes[at]);
                const std::int32_t q = (is_signed ? static_cast<std::int8_t>(byte) : std::int32_t{byte}) - moved;
                if (q < -128 || q > 127) return {};
                made.weight[c * made.in_features + k] = static_cast<std::int8_t>(q);
            }
        }
        return made;
    }

    // Finite numbers for each output, f32 or dequantized from i32. A convolution's have one dimension.
    bool set_bias(integer_layer& to, slot value, bool is_convolution) const {
        if (value == no_slot) return true;
        const auto found = in_.constants.find(value);
        if (found != in_.constants.end() && found->second.type() == dtype::f32 && found->second.is_on_host()) {
            const auto& shape = found->second.shape();
            if (shape.empty() || shape.back() != to.out_features || (is_convolution && shape.size() != 1)) return false;
            const auto given = found->second.values<float>();
            to.bias.assign(given.begin(), given.end());
        } else if (const step* const from = dequantization_of(value)) {
            const any_tensor* const q = constant(*from, 0);
            const any_tensor* const scale = constant(*from, 1);
            const any_tensor* const zero = constant(*from, 2);
            if (q == nullptr || scale == nullptr || q->type() != dtype::i32 || scale->type() != dtype::f32 ||
                q->shape() != operators::lengths{to.out_features}) {
                return false;
            }
            if (from->inputs.size() > 2 && from->inputs[2] != no_slot &&
                (zero == nullptr || zero->type() != dtype::i32 ||
                 std::ranges::any_of(zero->values<std::int32_t>(), [](auto each) { return each != 0; }))) {
                return false;
            }
            if (scale->elements() != 1 && scale->elements() != q->elements()) return false;
            for (std::size_t i = 0; i < q->elements(); ++i)
                to.bias.push_back(static_cast<float>(q->values<std::int32_t>()[i]) *
                                  scale->values<float>()[scale->elements() == 1 ? 0 : i]);
        } else {
            return false;
        }
        return to.bias.size() == to.out_features &&
               std::ranges::all_of(to.bias, [](float each) { return std::isfinite(each); });
    }

    std::size_t next(slot value) const {
        const std::size_t by = readers_[value];
        return by >= several_steps || in_.needed_on_host[value] || in_.steps[by].is_on_host ? no_step : by;
    }

    bool fuse(std::size_t at) {
        step& product = in_.steps[at];
        const bool is_convolution = is(product, "Conv"), is_gemm = is(product, "Gemm");
        if (product.is_on_host || (!is_convolution && !is_gemm && !is(product, "MatMul"))) return false;
        if (is_gemm &&
            (integer(product, "transA", 0) != 0 || real(product, "alpha", 1) != 1 || real(product, "beta", 1) != 1))
            return false;
        const step* const x = dequantization_of(product.inputs[0]);
        const step* const w = dequantization_of(product.inputs[1]);
        if (x == nullptr || w == nullptr || constant(*x, 0) != nullptr) return false;
        // Without a zero point nothing says which type the integers have.
        if (x->inputs.size() < 3 || x->inputs[2] == no_slot) return false;
        const std::optional<quantity> of_x = quantity_of(*x);
        const bool is_by_columns = !is_convolution && !(is_gemm && integer(product, "transB", 0) != 0);
        const any_tensor* const given = constant(*w, 0);
        if (!of_x || given == nullptr) return false;
        const std::size_t rank = given->shape().size();
        if (is_convolution ? rank < 3 || rank > 4 : rank != 2) return false;
        std::optional<integer_layer> weights = weights_of(weights_given_by(*w), is_by_columns ? 1 : 0);
        const std::int64_t groups = is_convolution ? integer(product, "group", 1) : 1;
        if (!weights || groups < 1 || weights->out_features % static_cast<std::size_t>(groups) != 0) return false;
        if (!set_bias(*weights, product.inputs.size() > 2 ? product.inputs[2] : no_slot, is_convolution)) return false;
        make(at, *of_x, *weights, {x->inputs[0], w->inputs[0]}, is_convolution, static_cast<std::size_t>(groups), {});
        return true;
    }

    // QLinearConv: x, its scale and zero point, the same of the filters and of y, and a bias in the steps of the sums.
    // QLinearMatMul: a, b and y.
    bool fuse_whole(std::size_t at) {
        const step& product = in_.steps[at];
        const bool is_convolution = is(product, "QLinearConv");
        if (product.is_on_host || (!is_convolution && !is(product, "QLinearMatMul"))) return false;
        const auto of_x = quantity_of(input_of(product, 1), input_of(product, 2));
        const auto of_y = quantity_of(input_of(product, 6), input_of(product, 7));
        const any_tensor* const given = constant(product, 3);
        if (!of_x || !of_y || given == nullptr || constant(product, 0) != nullptr) return false;
        const std::size_t rank = given->shape().size();
        if (is_convolution ? rank < 3 || rank > 4 : rank != 2) return false;
        const std::int64_t axis = is_convolution ? 0 : 1;
        auto weights =
            weights_of({product.inputs[3], product.inputs[4], product.inputs[5], axis}, static_cast<std::size_t>(axis));
        const std::int64_t groups = is_convolution ? integer(product, "group", 1) : 1;
        if (!weights || groups < 1 || weights->out_features % static_cast<std::size_t>(groups) != 0) return false;
        if (input_of(product, 8) != no_slot && !set_bias_in_steps(*weights, constant(product, 8), of_x->scale))
            return false;
        make(at, *of_x, *weights, {product.inputs[0], product.inputs[3]}, is_convolution,
             static_cast<std::size_t>(groups), of_y);
        return true;
    }
    static bool set_bias_in_steps(integer_layer& to, const any_tensor* bias, float x_scale) {
        if (bias == nullptr || bias->type() != dtype::i32 || bias->shape() != operators::lengths{to.out_features})
            return false;
        for (std::size_t c = 0; c < to.out_features; ++c)
            to.bias.push_back(static_cast<float>(bias->values<std::int32_t>()[c]) * (x_scale * to.steps[c]));
        return std::ranges::all_of(to.bias, [](float each) { return std::isfinite(each); });
    }

    // `inputs`: the rows or images, and the filters, which are taken for their shape. `of_y`: where the step quantizes;
    // else what follows may.
    void make(std::size_t at, const quantity& of_x, const integer_layer& weights, std::vector<slot> inputs,
              bool is_convolution, std::size_t groups, const std::optional<quantity>& of_y) {
        step& product = in_.steps[at];
        auto layers = std::make_shared<operators::dense_layers>();
        operators::quantized_operator& made = layers->quantized.emplace();
        made.is_convolution = is_convolution;
        made.takes_matrix = is(product, "Gemm");
        made.in_features = weights.in_features;
        made.out_features = weights.out_features;
        made.numbers = {.x_scale = of_x.scale, .x_zero = of_x.zero, .x_type = of_x.type, .y_type = dtype::f32};
        if (of_y) {
            set_output(made, *of_y);
        } else {
            take_what_follows(product, made);
        }
        std::vector<integer_layer> packed = kernels::layers_of_groups(weights, groups);
        weights_[layers.get()] = packed;
        if (is_convolution) {
            const std::size_t channels = constant(inputs[1])->shape()[1];
            for (integer_layer& each : packed)
                each.weight = kernels::weights_in_window_order(each.weight, channels, each.in_features / channels);
        }
        std::vector<std::byte> image = kernels::integer_image(packed);
        const std::size_t bytes = image.size();
        made.image.emplace(upload(std::move(image), {bytes}).submit(context_));
        if (!made.is_convolution) inputs.resize(1);
        product.inputs = std::move(inputs);
        product.what = made.is_convolution ? &operators::quantized_convolution() : &operators::quantized_layer();
        product.layers = std::move(layers);
    }

    static void set_output(operators::quantized_operator& of, const quantity& y) {
        of.numbers.y_scale = y.scale;
        of.numbers.y_zero = y.zero;
        of.numbers.y_type = y.type;
    }
    void take_what_follows(step& product, operators::quantized_operator& made) {
        const auto take = [&](std::size_t which) {
            is_left_[which] = false;
            product.outputs = {in_.steps[which].outputs[0]};
            product.label += " to " + in_.steps[which].label;
            note_joined(in_.steps[which], product);
        };
        std::size_t after = next(product.outputs[0]);
        if (after != no_step && is(in_.steps[after], "Relu")) {
            made.numbers.after = activation::relu;
            take(after);
            after = next(product.outputs[0]);
        }
        if (after == no_step || !is(in_.steps[after], "QuantizeLinear") || !is_plain(in_.steps[after])) return;
        if (const auto of_y = quantity_of(in_.steps[after])) {
            set_output(made, *of_y);
            take(after);
        }
    }

    prepared_graph& in_;
    execution_context& context_;
    const std::vector<std::size_t> readers_, givers_;
    std::vector<bool> is_left_;
    integer_weights weights_;
};

}  // namespace

std::size_t fuse_quantized_products(prepared_graph& in, const model& from, execution_context& context) {
    quantized_search search(in, context);
    const std::size_t found = search.run();
    if (found != 0) {
        divide_dequantizations(in);
        move_bytes(in);
        fuse_integer_stretches(in, search.weights(), from, context);
    }
    return found;
}

}  // namespace sluice::nn::detail
