// SPDX-License-Identifier: Apache-2.0
#include "nn/passes/order.hpp"

#include <array>

#include "nn/halves/wide_values.hpp"
#include "nn/passes/passes.hpp"
#include "sluice/runtime/device.hpp"

namespace sluice::nn::detail {
namespace {

using fold = constant_folder::what;

constexpr std::string_view everywhere = "everywhere", on_a_cpu = "on a CPU", on_a_gpu = "on a GPU",
                           in_f16_or_bf16 = "in f16 or bf16", in_f32_on_a_cpu = "on a CPU, in f32",
                           in_other_precisions = "in other precisions than f32";

bool always(const pass_subject&) { return true; }
bool is_on_cpu(const pass_subject& to) { return to.is_on_cpu(); }
bool is_on_gpu(const pass_subject& to) { return !to.is_on_cpu(); }
bool is_in_short_floats(const pass_subject& to) { return to.is_in_short_floats(); }
bool is_in_f32_on_cpu(const pass_subject& to) { return to.is_on_cpu() && to.precision == precision::f32; }
bool is_rounded(const pass_subject& to) { return to.precision != precision::f32; }

const std::array passes{
    // Before anything is computed of constants, which may be wide then.
    pass{"wide values", "numbers of 16 bits become f32 where they enter, and 16 bits where they leave", on_a_cpu,
         is_on_cpu, [](prepared_graph& in, const pass_subject& to) { widen_values(in, to.from.body.inputs); }},
    pass{"constants", "what depends on constants only is computed", everywhere, always,
         [](prepared_graph& in, const pass_subject& to) { to.folder.fold(in, fold::all_but_dequantized); }},
    // Before constants are dequantized: these need the integers.
    pass{"quantized products",
         "DequantizeLinear, a product or convolution, ReLU and QuantizeLinear are computed with integers, and what is "
         "between convolutions",
         on_a_cpu, is_on_cpu,
         [](prepared_graph& in, const pass_subject& to) {
             to.report.quantized += fuse_quantized_products(in, to.from, to.context);
         }},
    pass{"dynamic products",
         "DynamicQuantizeLinear, MatMulInteger or ConvInteger, scales, bias and ReLU are one command with packed "
         "weights",
         on_a_cpu, is_on_cpu,
         [](prepared_graph& in, const pass_subject& to) { to.report.quantized += fuse_dynamic_products(in); }},
    pass{"dequantized constants", "quantized constants that are left become floats", everywhere, always,
         [](prepared_graph& in, const pass_subject& to) { to.folder.fold(in, fold::all); }},
    pass{"batch normalization", "BatchNormalization becomes a part of the weights before it, or an expression",
         everywhere, always, [](prepared_graph& in, const pass_subject&) { fold_batch_normalizations(in); }},
    pass{"activations", "nodes that compute HardSigmoid, HardSwish or the exact GELU become one", everywhere, always,
         [](prepared_graph& in, const pass_subject&) { find_activations(in); }},
    pass{"stacked reductions",
         "the largest or smallest along an axis that Concat has made of several tensors is theirs", everywhere, always,
         [](prepared_graph& in, const pass_subject&) { reduce_without_stacks(in); }},
    pass{"nested concatenations", "Concat of what an earlier one has put together, and of more, reads that one",
         everywhere, always, [](prepared_graph& in, const pass_subject&) { nest_concats(in); }},
    // Before `rounding`, which takes these layers.
    pass{"zero states", "RNN, GRU and LSTM that begin with zeros read only the shapes of these", on_a_gpu, is_on_gpu,
         [](prepared_graph& in, const pass_subject&) { drop_zero_states(in); }},
    // After `zero states`, which leaves only the shapes of those to be read.
    pass{"shapes alone", "steps of whose outputs only the shapes are needed compute nothing", everywhere, always,
         [](prepared_graph& in, const pass_subject&) { find_shapes_only(in); }},
    // Before `rounding`, which rounds the convolutions that are left.
    pass{"short stretches", "convolutions and what is around them are one command in 16 bits",
         "in f16 or bf16, where the device has kernels for it", is_in_short_floats,
         [](prepared_graph& in, const pass_subject& to) {
             fuse_short_image_stretches(in, to.precision, to.context, to.report);
         }},
    // Before `rounding`, which would take the products.
    pass{"attention", "Softmax between two MatMuls, with scale, masks and heads, is one command", everywhere, always,
         [](prepared_graph& in, const pass_subject& to) { fuse_attention(in, to.precision, to.context, to.report); }},
    // The same; it rounds those that it takes.
    pass{"row chains", "dense layers and the layer norms between them are one command for few rows",
         "on a GPU, in f32, f16 or bf16",
         [](const pass_subject& to) { return !to.is_on_cpu() && to.precision != precision::int8; },
         [](prepared_graph& in, const pass_subject& to) { fuse_row_chains(in, to.precision, to.context, to.report); }},
    pass{"rounding", "products and convolutions with constant weights are computed with fewer bits",
         in_other_precisions, is_rounded,
         [](prepared_graph& in, const pass_subject& to) { round_products(in, to.precision, to.context, to.report); }},
    pass{"recurrent layouts", "Transpose, Squeeze and Reshape around RNN, GRU and LSTM are strides of these", on_a_gpu,
         is_on_gpu, [](prepared_graph& in, const pass_subject&) { turn_recurrent_layers(in); }},
    // After `rounding`: it also gives what rounded products read.
    pass{"residual norms", "Add and the LayerNormalization of its sum are one command", on_a_gpu, is_on_gpu,
         [](prepared_graph& in, const pass_subject& to) { fuse_residual_norms(in, to.precision); }},
    pass{"narrow values", "values that all readers round stay 16 bits", in_f16_or_bf16, is_in_short_floats,
         [](prepared_graph& in, const pass_subject&) { keep_values_narrow(in); }},
    pass{"dense layers", "stretches of dense layers with their activations are one command", on_a_cpu, is_on_cpu,
         [](prepared_graph& in, const pass_subject& to) { fuse_dense_layers(in, to.context); }},
    pass{"recurrent layers", "constant weights of RNN, GRU and LSTM are packed", on_a_cpu, is_on_cpu,
         [](prepared_graph& in, const pass_subject&) { pack_recurrent_layers(in); }},
    pass{"trees", "attributes of trees become one constant, in the form that is walked", on_a_cpu, is_on_cpu,
         [](prepared_graph& in, const pass_subject& to) { pack_trees(in, to.from.path, to.context); }},
    // After `dense layers` and `attention`, which compute what they take faster.
    pass{"image stretches", "convolutions and what is around them are one command, channels last", in_f32_on_a_cpu,
         is_in_f32_on_cpu, [](prepared_graph& in, const pass_subject& to) { fuse_image_stretches(in, to.context); }},
    // Last: it depends on which steps are left.
    pass{"expressions", "an elementwise operator that only another one reads may become part of its kernel", everywhere,
         always, [](prepared_graph& in, const pass_subject&) { join_expressions(in); }},
};

}  // namespace

bool pass_subject::is_on_cpu() const noexcept { return context.device().kind() == device_kind::cpu; }

std::span<const pass> all_passes() noexcept { return passes; }

rounding_report apply_passes(prepared_graph& in, const model& from, precision what, execution_context& context,
                             pass_watch* watch) {
    rounding_report report;
    report.precision = what;
    report.support = support_of(what, context.device());
    constant_folder folder(from);
    const pass_subject subject{from, what, context, report, folder};
    for (const pass& each : passes) {
        const bool has_applied = each.applies(subject);
        if (has_applied) each.change(in, subject);
        if (watch != nullptr) watch->after(each, has_applied, in);
    }
    find_last_uses(in);
    return report;
}

}  // namespace sluice::nn::detail
