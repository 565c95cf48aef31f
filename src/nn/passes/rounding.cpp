// SPDX-License-Identifier: Apache-2.0
// Products and convolutions with constant weights in fewer bits. sluice/nn/precision.hpp says what is rounded.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/rounded_layers/window_rows.hpp"
#include "nn/fused_sizes.hpp"
#include "nn/operators/dense_layers.hpp"
#include "nn/operators/recurrent_from_zeros.hpp"
#include "nn/operators/table.hpp"
#include "nn/passes/dense_search.hpp"
#include "nn/passes/passes.hpp"
#include "nn/passes/steps.hpp"
#include "sluice/base/half.hpp"
#include "sluice/base/printable.hpp"
#include "sluice/runtime/device.hpp"
#include "sluice/runtime/execution_context.hpp"
#include "sluice/runtime/transfer.hpp"

namespace sluice::nn::detail {
namespace {

using kernels::rounded_type;
using operators::rounded_operator;

// A panel has 16 filters: of fewer than half of them the rest costs more than is gained.
constexpr std::size_t least_filters = 8;

rounded_type type_of(precision what) {
    return what == precision::bf16  ? rounded_type::bf16
           : what == precision::f16 ? rounded_type::f16
                                    : rounded_type::int8;
}

template <typename T>
any_tensor rounded_constant(const any_tensor& from) {
    std::vector<T> made(from.elements());
    std::ranges::transform(from.values<float>(), made.begin(), [](float each) { return T(each); });
    return any_tensor(std::move(made), from.shape());
}

class rounding {
public:
    rounding(prepared_graph& in, precision what, execution_context& context, rounding_report& report)
        : in_(in),
          what_(what),
          context_(context),
          report_(report),
          is_on_cpu_(context.device().kind() == device_kind::cpu),
          is_left_(in.steps.size(), true),
          readers_(only_readers(in)) {}

    void run() {
        const dense_search layers(in_, {.most_layers = is_on_cpu_ ? kernels::most_rounded_layers : 1,
                                        .most_bytes = std::numeric_limits<std::size_t>::max(),
                                        .widest = kernels::most_rounded_features});
        // What one kernel of a GPU computes.
        const dense_search stretches(in_, {.most_layers = sluice::detail::most_fused_layers,
                                           .most_bytes = std::numeric_limits<std::size_t>::max(),
                                           .widest = always_fused_width_on_gpu});
        for (std::size_t i = 0; i < in_.steps.size(); ++i) {
            const step& each = in_.steps[i];
            if (!is_left_[i] || each.is_on_host || each.layers != nullptr || each.stretch != nullptr) continue;
            if (is_on_cpu_ ? round_layers(layers.from(i))
                           : narrow_layers(stretches.from(i)) || narrow_layer(layers.from(i)))
                continue;
            round(in_.steps[i]);
        }
        erase_steps(in_, is_left_);
    }

private:
    void keep(const step& which, std::string_view why) const {
        report_.kept.push_back(printable(which.label) + ": " + std::string(why));
    }

    std::shared_ptr<const operators::dense_layers> packed(const kernels::rounded_form& form,
                                                          const std::vector<mlp_layer>& layers,
                                                          bool takes_matrix) const {
        std::vector<std::byte> image = kernels::rounded_image(form.type, layers);
        const std::size_t bytes = image.size();
        rounded_operator made{.form = form};
        made.image.emplace(upload(std::move(image), {bytes}).submit(context_));
        const auto packed_layers = std::make_shared<operators::dense_layers>();
        packed_layers->takes_matrix = takes_matrix;
        packed_layers->rounded = std::move(made);
        return packed_layers;
    }

    // Leaves of these layers the ones before the first that cannot be rounded, and takes their numbers.
    std::vector<mlp_layer> take_numbers(std::vector<found_layer>& found, bool& takes_matrix) const {
        std::vector<mlp_layer> numbers;
        for (found_layer& each : found) {
            if (!kernels::why_not_rounded(type_of(what_), each.numbers).empty()) break;
            takes_matrix |= each.takes_matrix;
            numbers.push_back(std::move(each.numbers));
        }
        found.resize(numbers.size());
        return numbers;
    }

    // Whether there are layers that can be rounded.
    bool round_layers(std::vector<found_layer> found) {
        bool takes_matrix = false;
        const std::vector<mlp_layer> numbers = take_numbers(found, takes_matrix);
        if (numbers.empty()) return false;
        step& whole = dense_search::join(in_, found, is_left_);
        whole.what = &operators::rounded_dense_layers();
        report_.rounded += numbers.size();
        whole.layers = packed(kernels::form_of(type_of(what_), numbers), numbers, takes_matrix);
        return true;
    }

    // On a GPU: all layers by one kernel. Whether there are several that can be rounded.
    bool narrow_layers(std::vector<found_layer> found) {
        if (what_ == precision::int8 || context_.device().properties().compute_capability < 80 || found.size() < 2)
            return false;
        bool takes_matrix = false;
        std::vector<mlp_layer> numbers = take_numbers(found, takes_matrix);
        if (numbers.size() < 2) return false;
        step& whole = dense_search::join(in_, found, is_left_);
        whole.what = &operators::narrowed_layer();
        rounded_operator made{.type = what_ == precision::bf16 ? io::dtype::bf16 : io::dtype::f16};
        if (what_ == precision::bf16)
            made.layers.emplace(pack_mlp<bfloat16>(std::move(numbers)).submit(context_));
        else
            made.layers.emplace(pack_mlp<half>(std::move(numbers)).submit(context_));
        whole.layers = std::make_shared<const operators::dense_layers>(
            operators::dense_layers{.takes_matrix = takes_matrix, .rounded = std::move(made)});
        report_.rounded += found.size();
        return true;
    }

    // On a GPU: a product with the bias and the activation after it.
    bool narrow_layer(std::vector<found_layer> found) {
        if (found.empty() || what_ == precision::int8) return false;
        const mlp_layer& numbers = found.front().numbers;
        if (!kernels::why_not_rounded(type_of(what_), numbers).empty()) return false;
        step& whole = dense_search::join(in_, found, is_left_);
        const auto add = [&](const std::vector<float>& values, operators::lengths shape) {
            const any_tensor wide(values, std::move(shape));
            const bool is_bf16 = what_ == precision::bf16;
            whole.inputs.push_back(
                add_constant(in_, is_bf16 ? rounded_constant<bfloat16>(wide) : rounded_constant<half>(wide)));
        };
        add(numbers.weight, {numbers.out_features, numbers.in_features});
        if (!numbers.bias.empty()) add(numbers.bias, {numbers.out_features});
        whole.layers = std::make_shared<const operators::dense_layers>(operators::dense_layers{
            .takes_matrix = found.front().takes_matrix,
            .rounded = rounded_operator{.type = what_ == precision::bf16 ? io::dtype::bf16 : io::dtype::f16,
                                        .after = numbers.after}});
        whole.what = &operators::narrowed_layer();
        ++report_.rounded;
        return true;
    }

    void round(step& each) {
        static constexpr std::array<std::string_view, 5> others{"Attention", "ConvTranspose", "DeformConv", "Einsum",
                                                                "CausalConv"};
        static constexpr std::array<std::string_view, 3> recurrent{"GRU", "LSTM", "RNN"};
        const auto is_one_of = [&](const auto& ops) {
            return std::ranges::any_of(ops, [&](std::string_view op) { return is(each, op); });
        };
        const bool is_recurrent = is_one_of(recurrent);
        if (is_one_of(others) || (is_recurrent && (is_on_cpu_ || what_ == precision::int8)))
            return keep(each, each.from->op + " is computed in f32");
        if (is_recurrent) {
            const std::string_view why_not = narrow_recurrent(each);
            if (!why_not.empty()) return keep(each, why_not);
            ++report_.rounded;
            return;
        }
        const bool is_convolution = is(each, "Conv");
        if (!is_convolution && !is(each, "MatMul") && !is(each, "Gemm")) return;
        const any_tensor* const weights = constant_input(in_, each, 1);
        if (weights == nullptr) return keep(each, "its weights are not constant, or not f32");
        if (weights->elements() == 0 || weights->shape().size() < 2) return keep(each, "it has no matrix of weights");
        if (each.inputs.size() > 2 && each.inputs[2] != no_slot && constant_input(in_, each, 2) == nullptr)
            return keep(each, "its bias is not constant");
        const std::string_view why_not = is_on_cpu_ ? round_on_cpu(each, *weights) : round_elsewhere(each, *weights);
        if (!why_not.empty()) return keep(each, why_not);
        ++report_.rounded;
    }

    // The weights as a layer: [outputs, the rest].
    mlp_layer layer_of(const step& each, const any_tensor& weights) const {
        const std::span<const float> given = weights.values<float>();
        const bool is_by_columns = !is(each, "Conv") && integer(each, "transB", 0) == 0;
        mlp_layer made;
        made.out_features = is_by_columns ? weights.shape().back() : weights.shape().front();
        made.in_features = weights.elements() / made.out_features;
        made.weight.assign(given.begin(), given.end());
        for (std::size_t k = 0; is_by_columns && k < made.in_features; ++k)
            for (std::size_t c = 0; c < made.out_features; ++c)
                made.weight[c * made.in_features + k] = given[k * made.out_features + c];
        if (const any_tensor* const bias = constant_input(in_, each, 2))
            made.bias.assign(bias->values<float>().begin(), bias->values<float>().end());
        return made;
    }

    // Why it is not; empty if it is. What is left to this are products that are no dense layers, and convolutions.
    std::string_view round_on_cpu(step& each, const any_tensor& weights) {
        if (!is(each, "Conv")) {
            const std::string_view why_not = kernels::why_not_rounded(type_of(what_), layer_of(each, weights));
            return !why_not.empty() ? why_not
                                    : "it is no product of rows by one matrix, perhaps with a bias for each column";
        }
        const std::int64_t groups = integer(each, "group", 1);
        const auto& shape = weights.shape();
        if (shape.size() < 3 || groups < 1 || shape[0] % static_cast<std::size_t>(groups) != 0)
            return "its filters do not fit";  // the operator refuses it
        if (const any_tensor* const bias = constant_input(in_, each, 2); bias != nullptr && !fits(*bias, shape[0]))
            return "its bias does not fit";  // the same
        const mlp_layer whole = layer_of(each, weights);
        const std::string_view why_not = kernels::why_not_rounded(type_of(what_), whole);
        if (!why_not.empty()) return why_not;
        if (shape.size() > 4) return what_ == precision::int8 ? "its images have three dimensions" : narrow(each);
        const std::size_t filters = shape[0] / static_cast<std::size_t>(groups);
        if (filters < least_filters) return "its groups have too few filters to gain from it";
        mlp_layer in_order = whole;
        in_order.weight = kernels::weights_in_window_order(whole.weight, shape[1], whole.in_features / shape[1]);
        each.layers = packed({.type = type_of(what_)}, split(in_order, static_cast<std::size_t>(groups)), false);
        each.what = &operators::rounded_convolution();
        each.inputs.resize(2);
        return {};
    }

    static bool fits(const any_tensor& bias, std::size_t filters) {
        return bias.shape() == operators::lengths{filters};
    }

    // A layer for each group of outputs.
    static std::vector<mlp_layer> split(const mlp_layer& whole, std::size_t groups) {
        const auto outputs = static_cast<std::ptrdiff_t>(whole.out_features / groups);
        const auto weights = outputs * static_cast<std::ptrdiff_t>(whole.in_features);
        std::vector<mlp_layer> made;
        for (std::ptrdiff_t g = 0; g < static_cast<std::ptrdiff_t>(groups); ++g) {
            mlp_layer each;
            each.in_features = whole.in_features;
            each.out_features = static_cast<std::size_t>(outputs);
            each.weight.assign(whole.weight.begin() + g * weights, whole.weight.begin() + (g + 1) * weights);
            if (!whole.bias.empty())
                each.bias.assign(whole.bias.begin() + g * outputs, whole.bias.begin() + (g + 1) * outputs);
            made.push_back(std::move(each));
        }
        return made;
    }

    // The operator itself on 16-bit numbers; for int8 on numbers of f32 with weights that are such integers.
    std::string_view round_elsewhere(step& each, const any_tensor& weights) {
        const mlp_layer whole = layer_of(each, weights);
        const std::string_view why_not = kernels::why_not_rounded(type_of(what_), whole);
        if (!why_not.empty()) return why_not;
        if (what_ != precision::int8) return narrow(each);
        const bool is_by_columns = !is(each, "Conv") && integer(each, "transB", 0) == 0;
        std::vector<float> steps(whole.out_features), made(weights.elements());
        for (std::size_t c = 0; c < whole.out_features; ++c) {
            for (std::size_t k = 0; k < whole.in_features; ++k)
                steps[c] = std::max(steps[c], std::abs(whole.weight[c * whole.in_features + k]));
            steps[c] /= 127;
        }
        for (std::size_t i = 0; i < made.size(); ++i) {
            const float step = steps[is_by_columns ? i % whole.out_features : i / whole.in_features];
            made[i] = step != 0 ? std::rint(weights.values<float>()[i] / step) * step : 0.0f;
        }
        each.inputs[1] = add_constant(in_, any_tensor(made, weights.shape()));
        return {};
    }

    // On a GPU: a layer whose weights, bias and peepholes are constant, also with its states in 16 bits.
    std::string_view narrow_recurrent(step& each) {
        // An H200: with the conversions of what comes and goes, layers of 128 units take as long in 16 bits, for 1 row
        // and for 32; of 256 and 512 units 0.8 and 0.65 of the time for 32 rows.
        constexpr std::size_t most_units_in_f32 = 128;
        if (context_.device().properties().compute_capability < 80) return "the GPU has no products of 16 bits";
        if (const any_tensor* const r = constant_input(in_, each, 2);
            r != nullptr && !r->shape().empty() && r->shape().back() <= most_units_in_f32)
            return "a recurrent layer of up to 128 units is as fast in f32";
        const auto becomes_infinite = [&](float number) {
            const float rounded = what_ == precision::bf16 ? float{bfloat16(number)} : float{half(number)};
            return std::isinf(rounded);
        };
        for (const std::size_t input : {1, 2, 3, 7}) {
            if (input >= each.inputs.size() || each.inputs[input] == no_slot) continue;
            const any_tensor* const given = constant_input(in_, each, input);
            if (given == nullptr) return "its weights are not constant, or not f32";
            if (input > 2) {
                if (std::ranges::any_of(given->values<float>(), becomes_infinite)) return "its bias is too large";
                continue;
            }
            mlp_layer as_layer;
            as_layer.in_features = given->shape().empty() ? 1 : given->shape().back();
            if (as_layer.in_features == 0) return "it has no weights";
            as_layer.out_features = given->elements() / as_layer.in_features;
            as_layer.weight.assign(given->values<float>().begin(), given->values<float>().end());
            const std::string_view why_not = kernels::why_not_rounded(type_of(what_), as_layer);
            if (!why_not.empty()) return why_not;
        }
        std::uint32_t unread = 0;
        for (std::size_t i = 0; i < each.outputs.size(); ++i)
            if (each.outputs[i] == no_slot || readers_[each.outputs[i]] == no_step) unread |= operators::input_bit(i);
        const bool is_from_zeros = takes_shape_only(each, 5) || takes_shape_only(each, 6);
        const std::string_view why_not = narrow(each);
        auto made = std::make_shared<operators::dense_layers>(*each.layers);
        made->rounded->unread = unread;
        each.layers = std::move(made);
        each.what = is_from_zeros ? &operators::narrowed_recurrent_from_zeros() : &operators::narrowed_recurrent();
        return why_not;
    }

    std::string_view narrow(step& each) {
        const bool is_bf16 = what_ == precision::bf16;
        for (std::size_t i = 1; i < each.inputs.size(); ++i) {
            const any_tensor* const given = constant_input(in_, each, i);
            if (given == nullptr) continue;
            each.inputs[i] =
                add_constant(in_, is_bf16 ? rounded_constant<bfloat16>(*given) : rounded_constant<half>(*given));
        }
        rounded_operator made{
            .whole = each.what, .type = is_bf16 ? io::dtype::bf16 : io::dtype::f16, .position = each.position};
        each.layers =
            std::make_shared<const operators::dense_layers>(operators::dense_layers{.rounded = std::move(made)});
        each.what = &operators::narrowed_operator();
        return {};
    }

    prepared_graph& in_;
    const precision what_;
    execution_context& context_;
    rounding_report& report_;
    const bool is_on_cpu_;
    std::vector<bool> is_left_;
    const std::vector<std::size_t> readers_;  // of the slots that there were at first
};

}  // namespace

void round_products(prepared_graph& in, precision what, execution_context& context, rounding_report& report) {
    rounding(in, what, context, report).run();
    for (step& each : in.steps)
        for (const auto& [from, inner] : each.inner) round_products(*inner, what, context, report);
}

}  // namespace sluice::nn::detail
