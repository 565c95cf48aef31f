// SPDX-License-Identifier: Apache-2.0
// On a CPU the constant weights of RNN, GRU, LSTM and DynamicQuantizeLSTM are packed once.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/rounded_layers/rounded_layers.hpp"
#include "nn/operators/recurrent_on_cpu.hpp"
#include "nn/passes/passes.hpp"
#include "nn/passes/steps.hpp"

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

// [directions, columns] constant numbers; null where the input is left out. None: they are not constant, or have
// another shape.
std::optional<const float*> numbers_of(const prepared_graph& in, const step& of, std::size_t input,
                                       const lengths& shape) {
    if (!is_given(of, input)) return nullptr;
    const any_tensor* const found = constant_input(in, of, input);
    if (found == nullptr || found->shape() != shape) return {};
    return found->values<float>().data();
}

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
    const auto biases = numbers_of(in, of, 3, {directions, 2 * rows}),
               peepholes = numbers_of(in, of, 7, {directions, 3 * hidden});
    if (!biases || !peepholes) return {};
    std::vector<float> image(kernels::recurrent_image_floats(form));
    kernels::pack_recurrent(form, {w->values<float>().data(), r->values<float>().data(), *biases, *peepholes},
                            image.data());
    const std::size_t count = image.size();
    return any_tensor(std::move(image), {count});
}

// --- weights of 8 bits -------------------------------------------------------------------------------------------

bool is_dynamic_lstm(const step& of) {
    return of.from->domain == "com.microsoft" && of.from->op == "DynamicQuantizeLSTM";
}

// A constant on the host, of any type.
const any_tensor* constant_of(const prepared_graph& in, const step& of, std::size_t input) {
    if (!is_given(of, input)) return nullptr;
    const auto found = in.constants.find(of.inputs[input]);
    return found != in.constants.end() && found->second.is_on_host() ? &found->second : nullptr;
}

// Weights [directions, inner, columns] without zero points, and the step of each column.
struct plain_integers {
    std::vector<std::int8_t> weights;
    std::vector<float> steps;
};

// If all are constant, and fit into signed bytes without their zero points.
std::optional<plain_integers> plain_integers_of(const prepared_graph& in, const step& of, std::size_t input) {
    const any_tensor *const w = constant_of(in, of, input), *const scale = constant_input(in, of, 6 + 2 * input),
                            *const zero = constant_of(in, of, 7 + 2 * input);
    if (w == nullptr || scale == nullptr || zero == nullptr || w->shape().size() != 3 || w->elements() == 0) return {};
    if ((w->type() != io::dtype::i8 && w->type() != io::dtype::u8) || zero->type() != w->type()) return {};
    const std::size_t directions = w->shape()[0], inner = w->shape()[1], columns = w->shape()[2];
    const auto fits = [&](const any_tensor& x) {
        return x.elements() == directions || x.elements() == directions * columns;
    };
    if (!fits(*scale) || !fits(*zero) || std::max(inner, columns) > kernels::most_rounded_features) return {};
    const auto integer_at = [](const any_tensor& x, std::size_t i) {
        return x.type() == io::dtype::i8 ? int{x.values<std::int8_t>()[i]} : int{x.values<std::uint8_t>()[i]};
    };
    plain_integers made{std::vector<std::int8_t>(w->elements()), std::vector<float>(directions * columns)};
    for (std::size_t d = 0; d < directions; ++d) {
        for (std::size_t c = 0; c < columns; ++c) {
            const std::size_t column = d * columns + c;
            const float each = scale->values<float>()[scale->elements() == directions ? d : column];
            if (!std::isfinite(each)) return {};
            made.steps[column] = each;
            const int moved = integer_at(*zero, zero->elements() == directions ? d : column);
            for (std::size_t k = 0; k < inner; ++k) {
                const std::size_t at = (d * inner + k) * columns + c;
                const int q = integer_at(*w, at) - moved;
                if (q < -128 || q > 127) return {};
                made.weights[at] = static_cast<std::int8_t>(q);
            }
        }
    }
    return made;
}

std::optional<any_tensor> integer_image_of(const prepared_graph& in, const step& of) {
    const auto w = plain_integers_of(in, of, 1), r = plain_integers_of(in, of, 2);
    if (!w || !r) return {};
    const lengths &w_shape = constant_of(in, of, 1)->shape(), &r_shape = constant_of(in, of, 2)->shape();
    const std::size_t directions = text(of, "direction", "forward") == "bidirectional" ? 2 : 1, hidden = r_shape[1];
    const kernels::recurrent_form form{recurrent_kind::lstm, directions, 1, 1, w_shape[1], hidden};
    if (w_shape != lengths{directions, form.inputs, 4 * hidden} || r_shape != lengths{directions, hidden, 4 * hidden})
        return {};
    const auto biases = numbers_of(in, of, 3, {directions, 8 * hidden}),
               peepholes = numbers_of(in, of, 7, {directions, 3 * hidden});
    if (!biases || !peepholes) return {};
    const std::vector<std::byte> image =
        kernels::recurrent_integer_image(form, {w->weights, r->weights, w->steps, r->steps, *biases, *peepholes});
    std::vector<std::uint8_t> bytes(image.size());
    std::memcpy(bytes.data(), image.data(), image.size());
    return any_tensor(bytes, {bytes.size()});
}

void append_image(prepared_graph& in, step& to, std::size_t input, any_tensor image) {
    to.inputs.resize(input, no_slot);
    to.inputs.push_back(add_constant(in, std::move(image)));
    to.what = &operators::packed_recurrent(*to.what);
}

}  // namespace

void pack_recurrent_layers(prepared_graph& in) {
    for (step& each : in.steps) {
        for (const auto& [from, inner] : each.inner) pack_recurrent_layers(*inner);
        if (each.is_on_host) continue;
        if (is_dynamic_lstm(each)) {
            if (auto image = integer_image_of(in, each))
                append_image(in, each, operators::recurrent_integers_input, *std::move(image));
        } else if (const auto kind = recurrent_kind_of(each)) {
            if (auto image = recurrent_image_of(in, each, *kind))
                append_image(in, each, operators::recurrent_image_input, *std::move(image));
        }
    }
}

}  // namespace sluice::nn::detail
