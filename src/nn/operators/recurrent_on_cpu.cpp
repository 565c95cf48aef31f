// SPDX-License-Identifier: Apache-2.0
#include "nn/operators/recurrent_on_cpu.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "nn/operators/launch_each.hpp"
#include "nn/operators/number_checks.hpp"
#include "sluice/runtime/device.hpp"

namespace sluice::nn::operators {
namespace {

const any_tensor no_recurrent_tensor;

const any_tensor& given(const node_call& in, std::size_t i) {
    return in.has_input(i) ? in.input(i) : no_recurrent_tensor;
}

const any_tensor& wanted(node_call& in, std::size_t i, const lengths& shape) {
    return in.wants_output(i) ? in.make_output(i, io::dtype::f32, shape) : no_recurrent_tensor;
}

}  // namespace

bool is_recurrent_on_cpu(const node_call& in) {
    return in.where() == place::device && in.context().device().kind() == device_kind::cpu &&
           in.input(0).type() == io::dtype::f32;
}

void run_recurrent_on_cpu(node_call& in, const recurrent_on_cpu_node& of) {
    const kernels::recurrent_form& form = of.form;
    const std::size_t row = form.directions * form.hidden, inputs = form.inputs;
    const bool by_batch = of.is_batch_first;
    const lengths state = by_batch ? lengths{form.batch, form.directions, form.hidden}
                                   : lengths{form.directions, form.batch, form.hidden};
    const lengths of_y = by_batch ? lengths{form.batch, form.steps, form.directions, form.hidden}
                                  : lengths{form.steps, form.directions, form.batch, form.hidden};
    const any_tensor& y = wanted(in, 0, of_y);
    const any_tensor &last_h = wanted(in, 1, state), &last_c = wanted(in, 2, state);
    if (form.batch * row == 0) return;

    const any_tensor &x = in.input(0), &w = in.input(1), &r = in.input(2), &bias = given(in, 3),
                     &sequence_lengths = given(in, 4), &initial_h = given(in, 5), &initial_c = given(in, 6),
                     &peepholes = given(in, 7),
                     &image = given(in, of.has_integers ? recurrent_integers_input : recurrent_image_input);
    const bool is_packed = static_cast<bool>(image);
    const auto kind = of.has_integers ? kernels::recurrent_image::integers
                      : is_packed     ? kernels::recurrent_image::floats
                                      : kernels::recurrent_image::none;
    const any_tensor scratch = in.make(io::dtype::f32, {kernels::recurrent_scratch_floats(form, kind)});
    if (sequence_lengths) {
        require_numbers(in, 4, number_rule({0, static_cast<std::int64_t>(form.steps)}, "length"), scratch);
    }
    const auto weights = [&](const any_tensor& from) { return is_packed ? nullptr : in.read<float>(from); };
    kernels::recurrent_call call{
        .form = form,
        .image = of.has_integers ? nullptr : in.read<float>(image),
        .integers = of.has_integers ? in.read<std::byte>(image) : nullptr,
        .weights = {weights(w), weights(r), weights(bias), weights(peepholes)},
        .x = in.read<float>(x),
        .initial_h = in.read<float>(initial_h),
        .initial_c = in.read<float>(initial_c),
        .lengths = in.read<std::int32_t>(sequence_lengths),
        .y = in.write<float>(y),
        .last_h = in.write<float>(last_h),
        .last_c = in.write<float>(last_c),
        .scratch = in.write<float>(scratch),
        .x_strides = by_batch ? kernels::recurrent_strides{inputs, 0, form.steps * inputs}
                              : kernels::recurrent_strides{form.batch * inputs, 0, inputs},
        .y_strides = by_batch ? kernels::recurrent_strides{row, form.hidden, form.steps * row}
                              : kernels::recurrent_strides{form.batch * row, form.batch * form.hidden, form.hidden},
        .state_strides = by_batch ? kernels::recurrent_strides{0, form.hidden, row}
                                  : kernels::recurrent_strides{0, form.batch * form.hidden, form.hidden},
        .reversed = of.reversed,
        .has_peepholes = peepholes ? 1u : 0u,
        .is_coupled = in.integer("input_forget", 0) != 0 ? 1u : 0u,
        .activations = {}};
    const std::size_t each = of.activations.size() / form.directions;
    for (std::size_t i = 0; i < of.activations.size(); ++i) call.activations[i / each][i % each] = of.activations[i];
    // `clip` limits the arguments of the gates. The cell state is none of them.
    for (auto& of_direction : call.activations) of_direction[2].clip = 0;
    launch_command command;
    command.host_function = [](const void* closure) {
        kernels::recurrent_on_cpu(*static_cast<const kernels::recurrent_call*>(closure));
    };
    sluice::detail::set_closure(command, call);
    const any_tensor& packed = no_recurrent_tensor;
    detail::submit(in, command,
                   {&x, is_packed ? &image : &w, is_packed ? &packed : &r, is_packed ? &packed : &bias,
                    is_packed ? &packed : &peepholes, &sequence_lengths, &initial_h, &initial_c},
                   {&y, &last_h, &last_c, &scratch});
}

const definition& packed_recurrent(const definition& of) {
    static const std::vector<definition> known = [] {
        std::vector<definition> made(recurrent().begin(), recurrent().end());
        for (definition& each : made) {
            const bool has_integers = each.name == "DynamicQuantizeLSTM";
            each.most_inputs = (has_integers ? recurrent_integers_input : recurrent_image_input) + 1;
            each.shape_inputs = input_bit(1) | input_bit(2) | input_bit(3) | input_bit(7);
            if (has_integers) each.shape_inputs |= input_bit(8) | input_bit(9) | input_bit(10) | input_bit(11);
        }
        return made;
    }();
    return *std::ranges::find(known, of.name, &definition::name);
}

}  // namespace sluice::nn::operators
