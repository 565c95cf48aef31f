// SPDX-License-Identifier: Apache-2.0
// On a CPU the constant weights of RNN, GRU and LSTM are packed once.
#include <optional>
#include <utility>
#include <vector>

#include "nn/operators/recurrent_on_cpu.hpp"
#include "nn/passes/passes.hpp"
#include "nn/passes/steps.hpp"
#include "sluice/runtime/device.hpp"
#include "sluice/runtime/execution_context.hpp"

namespace sluice::nn::detail {
namespace {

using kernels::recurrent_kind;
using operators::lengths;

std::optional<recurrent_kind> recurrent_kind_of(const step& of) {
    if (is(of, "LSTM")) return recurrent_kind::lstm;
    if (is(of, "RNN")) return recurrent_kind::rnn;
    if (!is(of, "GRU")) return {};
    return integer(of, "linear_before_reset", 0) != 0 ? recurrent_kind::gru_reset_last
                                                      : recurrent_kind::gru_reset_first;
}

bool is_given(const step& of, std::size_t input) { return input < of.inputs.size() && of.inputs[input] != no_slot; }

// The image, unless a weight is not constant, or of a shape that the operator refuses.
std::optional<any_tensor> recurrent_image_of(const prepared_graph& in, const step& of, recurrent_kind kind) {
    const any_tensor *const w = constant_input(in, of, 1), *const r = constant_input(in, of, 2);
    if (w == nullptr || r == nullptr || w->shape().size() != 3 || r->shape().size() != 3) return {};
    const std::size_t directions = text(of, "direction", "forward") == "bidirectional" ? 2 : 1;
    const std::size_t hidden = r->shape()[2], rows = kernels::gates_of(kind) * hidden;
    const kernels::recurrent_form form{kind, directions, 1, 1, w->shape()[2], hidden};
    if (w->shape() != lengths{directions, rows, form.inputs} || r->shape() != lengths{directions, rows, hidden} ||
        hidden == 0) {
        return {};
    }
    const auto numbers = [&](std::size_t input, std::size_t columns) -> std::optional<const float*> {
        if (!is_given(of, input)) return nullptr;
        const any_tensor* const found = constant_input(in, of, input);
        if (found == nullptr || found->shape() != lengths{directions, columns}) return {};
        return found->values<float>().data();
    };
    const auto biases = numbers(3, 2 * rows), peepholes = numbers(7, 3 * hidden);
    if (!biases || !peepholes) return {};
    std::vector<float> image(kernels::recurrent_image_floats(form));
    kernels::pack_recurrent(form, {w->values<float>().data(), r->values<float>().data(), *biases, *peepholes},
                            image.data());
    const std::size_t count = image.size();
    return any_tensor(std::move(image), {count});
}

}  // namespace

void pack_recurrent_layers(prepared_graph& in, execution_context& context) {
    if (context.device().kind() != device_kind::cpu) return;
    for (step& each : in.steps) {
        for (const auto& [from, inner] : each.inner) pack_recurrent_layers(*inner, context);
        const auto kind = recurrent_kind_of(each);
        if (!kind || each.is_on_host) continue;
        std::optional<any_tensor> image = recurrent_image_of(in, each, *kind);
        if (!image) continue;
        each.inputs.resize(operators::recurrent_image_input, no_slot);
        each.inputs.push_back(add_constant(in, std::move(*image)));
        each.what = &operators::packed_recurrent(*each.what);
    }
}

}  // namespace sluice::nn::detail
