// SPDX-License-Identifier: Apache-2.0
// Activations as exporters write them where the operator set has none: HardSigmoid as clip(x + 3, 0, 6) / 6, HardSwish
// as that times x, and the exact GELU as x * (1 + erf(x / sqrt(2))) * 0.5.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nn/passes/passes.hpp"
#include "nn/passes/steps.hpp"

namespace sluice::nn::detail {
namespace {

constexpr std::int64_t opset_of_activations = 20;
constexpr double root_of_two = 1.41421356237309504880;

node activation_node(std::string op) {
    node made;
    made.op = std::move(op);
    made.inputs = {"x"};
    made.outputs = {"y"};
    return made;
}
const node& gelu() {
    static const node made = activation_node("Gelu");
    return made;
}
const node& hard_swish() {
    static const node made = activation_node("HardSwish");
    return made;
}
const node& hard_sigmoid() {
    static const node made = [] {
        node one = activation_node("HardSigmoid");
        one.attributes["alpha"] = 1.0f / 6;
        one.attributes["beta"] = 0.5f;
        return one;
    }();
    return made;
}

class activation_search {
public:
    explicit activation_search(prepared_graph& in)
        : in_(in), readers_(only_readers(in)), givers_(givers(in)), is_left_(in.steps.size(), true) {}

    void replace_all() {
        for (std::size_t i = 0; i < in_.steps.size(); ++i) {
            has_dimension_ = false;
            replace_hard_curve(i);
            replace_gelu(i);
        }
        std::size_t next = 0;
        std::erase_if(in_.steps, [&](const step&) { return !is_left_[next++]; });
    }

private:
    // The number of a constant of one element. One of one dimension gives a scalar a dimension.
    std::optional<float> number(const step& of, std::size_t input) const {
        const any_tensor* const found = constant_input(in_, of, input);
        if (found == nullptr || found->elements() != 1 || found->shape().size() > 1) return {};
        has_dimension_ = has_dimension_ || !found->shape().empty();
        return found->values<float>()[0];
    }
    // Whether the value is surely no scalar.
    bool has_dimension(slot value) const {
        const std::size_t giver = givers_[value];
        if (giver == no_step) return false;
        const step& of = in_.steps[giver];
        for (const std::string_view op : {"Conv", "ConvTranspose", "BatchNormalization", "Gemm", "LayerNormalization"})
            if (is(of, op)) return true;
        // A product of two lists is a scalar.
        const std::size_t least = is(of, "Add") ? 1 : is(of, "MatMul") ? 2 : ~std::size_t{0};
        return of.inputs.size() == 2 && std::ranges::any_of(std::array<std::size_t, 2>{0, 1}, [&](std::size_t input) {
                   const any_tensor* const found = constant_input(in_, of, input);
                   return found != nullptr && found->shape().size() >= least;
               });
    }
    static bool is_plain(const step& of, std::string_view op) {
        return is(of, op) && (of.from->attributes.empty() || op == "Clip") && of.opset >= 7 && !of.is_on_host &&
               of.layers == nullptr && of.stretch == nullptr && of.outputs.size() == 1;
    }
    // The other input, where one is this number.
    slot other_than(std::size_t step_at, std::string_view op, double wanted) const {
        const step& of = in_.steps[step_at];
        if (!is_plain(of, op) || of.inputs.size() != 2) return no_slot;
        // Roots and sixths are rounded, by exporters in several ways.
        const double within = double{static_cast<float>(wanted)} == wanted ? 0 : 1e-6 * wanted;
        for (const std::size_t at : {std::size_t{1}, std::size_t{0}}) {
            if (op == "Div" && at == 0) break;
            const std::optional<float> found = number(of, at);
            if (found && std::abs(double{*found} - wanted) <= within) return of.inputs[1 - at];
        }
        return no_slot;
    }
    bool is_clip_to_six(const step& of) const {
        if (!is_plain(of, "Clip")) return false;
        const auto bound = [&](std::size_t input, std::string_view attribute) -> std::optional<float> {
            if (of.opset < 11) return real(of, attribute, -1);
            return of.inputs.size() > input && of.inputs[input] != no_slot ? number(of, input) : std::nullopt;
        };
        return bound(1, "min") == 0.0f && bound(2, "max") == 6.0f;
    }
    // The only step that reads what this one gives, or no_step.
    std::size_t next(std::size_t at) const {
        const std::vector<slot>& outputs = in_.steps[at].outputs;
        if (outputs.size() != 1 || outputs[0] == no_slot) return no_step;
        const slot made = outputs[0];
        const std::size_t found = readers_[made];
        return found == several_steps || in_.needed_on_host[made] ? no_step : found;
    }
    slot made_by(std::size_t at) const { return in_.steps[at].outputs[0]; }
    // What is divided by this number, or multiplied by its inverse.
    slot divided(std::size_t at, double by) const {
        const slot found = other_than(at, "Div", by);
        return found != no_slot ? found : other_than(at, "Mul", 1 / by);
    }
    bool is_product(std::size_t at, slot a, slot b) const {
        const step& of = in_.steps[at];
        return is_plain(of, "Mul") && of.inputs.size() == 2 &&
               ((of.inputs[0] == a && of.inputs[1] == b) || (of.inputs[0] == b && of.inputs[1] == a));
    }

    void replace_hard_curve(std::size_t at) {
        const slot x = other_than(at, "Add", 3);
        const std::size_t clip = x == no_slot ? no_step : next(at);
        if (clip == no_step || !is_clip_to_six(in_.steps[clip]) || in_.steps[clip].inputs[0] != made_by(at)) return;
        const std::size_t third = next(clip);
        if (third == no_step) return;
        const std::size_t fourth = next(third);
        if (is_product(third, x, made_by(clip))) {
            if (fourth != no_step && divided(fourth, 6) == made_by(third))
                become(hard_swish(), x, {at, clip, third, fourth});
        } else if (divided(third, 6) == made_by(clip)) {
            if (fourth != no_step && is_product(fourth, x, made_by(third))) {
                become(hard_swish(), x, {at, clip, third, fourth});
            } else {
                become(hard_sigmoid(), x, {at, clip, third});
            }
        }
    }

    void replace_gelu(std::size_t at) {
        const slot x = divided(at, root_of_two);
        const std::size_t erf = x == no_slot ? no_step : next(at);
        if (erf == no_step || !is_plain(in_.steps[erf], "Erf")) return;
        const std::size_t sum = next(erf), after = sum == no_step ? no_step : next(sum);
        if (after == no_step || other_than(sum, "Add", 1) != made_by(erf)) return;
        const std::size_t last = next(after), half = half_before(after, x, made_by(sum));
        if (half != no_step) return become(gelu(), x, {at, erf, sum, half, after});
        if (last == no_step) return;
        const bool halves_last = is_product(after, x, made_by(sum)) && other_than(last, "Mul", 0.5) == made_by(after);
        const bool halves_sum = other_than(after, "Mul", 0.5) == made_by(sum) && is_product(last, x, made_by(after));
        if (halves_last || halves_sum) become(gelu(), x, {at, erf, sum, after, last});
    }
    // The step that halves x, of a product of that and `sum`.
    std::size_t half_before(std::size_t product, slot x, slot sum) const {
        for (const slot each : in_.steps[product].inputs) {
            const std::size_t giver = each == no_slot || each == sum ? no_step : givers_[each];
            if (giver != no_step && is_product(product, each, sum) && next(giver) == product &&
                other_than(giver, "Mul", 0.5) == x)
                return giver;
        }
        return no_step;
    }

    // The last of these steps computes the activation of x.
    void become(const node& what, slot x, const std::vector<std::size_t>& steps) {
        if (has_dimension_ && !has_dimension(x)) return;
        step& last = in_.steps[steps.back()];
        last.from = &what;
        last.opset = opset_of_activations;
        last.what = operators::find("", what.op, last.opset);
        last.inputs = {x};
        for (const std::size_t each : steps)
            if (each != steps.back()) is_left_[each] = false;
    }

    prepared_graph& in_;
    const std::vector<std::size_t> readers_, givers_;
    std::vector<bool> is_left_;
    mutable bool has_dimension_ = false;  // of a number that was looked at
};

}  // namespace

void find_activations(prepared_graph& in) {
    for (step& each : in.steps)
        for (const auto& [from, inner] : each.inner) find_activations(*inner);
    activation_search(in).replace_all();
}

}  // namespace sluice::nn::detail
