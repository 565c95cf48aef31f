// SPDX-License-Identifier: Apache-2.0
#include "nn/halves/wide_values.hpp"

#include <algorithm>
#include <limits>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "nn/operators/expression.hpp"
#include "nn/operators/node_call.hpp"
#include "nn/operators/table.hpp"
#include "nn/passes/steps.hpp"
#include "sluice/base/half.hpp"

namespace sluice::nn::detail {
namespace {

using io::dtype;
using operators::node_call;

bool is_half_type(dtype type) { return type == dtype::f16 || type == dtype::bf16; }

// --- steps that convert
// ------------------------------------------------------------------------------------------------

void convert(node_call& in, dtype from, dtype to) {
    const any_tensor& x = in.input(0);
    // As the operator that takes it would.
    if (from != to && x.type() != from)
        in.refuse("takes " + to_string(x) + " together with numbers of " + std::string(io::to_string(from)));
    operators::expression e(in);
    e.give(0, to, e.input(0));
    e.run();
}
void widen_f16(node_call& in) { convert(in, dtype::f16, dtype::f32); }
void widen_bf16(node_call& in) { convert(in, dtype::bf16, dtype::f32); }
void narrow_f16(node_call& in) { convert(in, dtype::f32, dtype::f16); }
void narrow_bf16(node_call& in) { convert(in, dtype::f32, dtype::bf16); }
void convert_any(node_call& in) { convert(in, dtype::f32, dtype::f32); }

operators::definition conversion(void (*run)(node_call&)) {
    return {.name = "Cast",
            .least_inputs = 1,
            .most_inputs = 1,
            .most_outputs = 1,
            .attributes = {},
            .run = run,
            .fused_inputs = operators::input_bit(0)};
}
const operators::definition& widening_of(dtype type) {
    static const operators::definition f16 = conversion(&widen_f16), bf16 = conversion(&widen_bf16);
    return type == dtype::f16 ? f16 : bf16;
}
const operators::definition& narrowing_to(dtype type) {
    static const operators::definition f16 = conversion(&narrow_f16), bf16 = conversion(&narrow_bf16);
    return type == dtype::f16 ? f16 : bf16;
}
// Of a Cast to 16 bits.
const operators::definition& cast_to_f32() {
    static const operators::definition made = conversion(&convert_any);
    return made;
}
// The node of such steps, which is none of ONNX.
const node& converting_node() {
    static const node made = [] {
        node one;
        one.op = "Cast";
        one.domain = "sluice";
        return one;
    }();
    return made;
}

// --- operators -----------------------------------------------------------------------------------------------------

// Which inputs and outputs have the type that all of them share; and whether loops of f32 are faster than those of 16
// bits.
struct wide_operator {
    std::string_view name;
    std::uint32_t inputs = operators::all, outputs = operators::all;
    bool gains = false;
    bool inputs_may_differ = false;      // in type, so that one whose type is not known may have another one
    std::int64_t one_output_before = 0;  // before this operator set the other outputs have other types, or the same
};
constexpr std::int64_t any_opset = std::numeric_limits<std::int64_t>::max();
constexpr std::uint32_t first = 1, second = 2, third = 4;

constexpr wide_operator known_operators[] = {
    // Elementwise.
    {"Abs"},
    {"Acos"},
    {"Acosh"},
    {"Add"},
    {"Asin"},
    {"Asinh"},
    {"Atan"},
    {"Atanh"},
    {"Ceil"},
    {"Celu"},
    {"Clip"},
    {"Cos"},
    {"Cosh"},
    {"Div"},
    {"Elu"},
    {"Erf"},
    {"Exp"},
    {"Floor"},
    {"Gelu"},
    {"HardSigmoid"},
    {"HardSwish"},
    {"Identity"},
    {"LeakyRelu"},
    {"Log"},
    {"Max"},
    {"Mean"},
    {"Min"},
    {"Mish"},
    {"Mul"},
    {"Neg"},
    {"PRelu"},
    {"Reciprocal"},
    {"Relu"},
    {"Round"},
    {"Selu"},
    {"Sigmoid"},
    {"Sign"},
    {"Sin"},
    {"Sinh"},
    {"Softplus"},
    {"Softsign"},
    {"Sqrt"},
    {"Sub"},
    {"Sum"},
    {"Swish"},
    {"Tan"},
    {"Tanh"},
    {"ThresholdedRelu"},
    {"Pow", first},
    {"Dropout", first, first, false, false, 10},  // its mask has the type of its input before
    {"Where", second | third},
    {"Equal", operators::all, 0},
    {"Greater", operators::all, 0},
    {"GreaterOrEqual", operators::all, 0},
    {"Less", operators::all, 0},
    {"LessOrEqual", operators::all, 0},
    {"IsNaN", first, 0},
    {"Cast", first, 0},
    // What moves elements.
    {"Concat"},
    {"DepthToSpace"},
    {"Expand", first},
    {"Flatten"},
    {"Gather", first},
    {"GatherElements", first},
    {"GatherND", first},
    {"Pad", first | third},
    {"Reshape", first},
    {"ScatterElements", first | third},
    {"ScatterND", first | third},
    {"Slice", first},
    {"SpaceToDepth"},
    {"Split", first},
    {"Squeeze", first},
    {"Tile", first},
    {"Transpose"},
    {"Unsqueeze", first},
    // Reductions.
    {"ArgMax", first, 0, true},
    {"ArgMin", first, 0, true},
    {"CumSum", first, first, true},
    {"GlobalAveragePool", first, first, true},
    {"GlobalLpPool", first, first, true},
    {"GlobalMaxPool", first, first, true},
    {"ReduceL1", first, first, true},
    {"ReduceL2", first, first, true},
    {"ReduceLogSum", first, first, true},
    {"ReduceLogSumExp", first, first, true},
    {"ReduceMax", first, first, true},
    {"ReduceMean", first, first, true},
    {"ReduceMin", first, first, true},
    {"ReduceProd", first, first, true},
    {"ReduceSum", first, first, true},
    {"ReduceSumSquare", first, first, true},
    {"TopK", first, first, true},
    // Norms.
    {"GroupNormalization", operators::all, first, true},
    {"Hardmax", first, first, true},
    {"InstanceNormalization", operators::all, first, true},
    {"LayerNormalization", operators::all, first, true},
    {"LogSoftmax", first, first, true},
    {"LpNormalization", first, first, true},
    {"LRN", first, first, true},
    {"MeanVarianceNormalization", first, first, true},
    {"RMSNormalization", operators::all, first, true, true},
    {"Softmax", first, first, true},
    // Windows, products, recurrent layers.
    {"AveragePool", first, first, true},
    {"BatchNormalization", operators::all, first, true, true, any_opset},  // of one that trains
    {"Conv", operators::all, first, true},
    {"ConvTranspose", operators::all, first, true},
    {"Einsum", operators::all, first, true},
    {"GRU", operators::all & ~16u, operators::all, true},
    {"Gemm", operators::all, first, true},
    {"LSTM", operators::all & ~16u, operators::all, true},
    {"LpPool", first, first, true},
    {"MatMul", operators::all, first, true},
    {"MaxPool", first, first, true},
    {"RNN", operators::all & ~16u, operators::all, true},
    {"Resize", first, first, true},
};

const wide_operator* known_operator(const step& of) {
    if (!of.from->domain.empty() || of.is_on_host || !of.inner.empty() || of.what->own != nullptr) return nullptr;
    const auto* const found = std::ranges::find(known_operators, of.from->op, &wide_operator::name);
    if (found == std::end(known_operators)) return nullptr;
    // What becomes an integer is rounded before.
    const std::int64_t to = found->name == "Cast" ? integer(of, "to", 0) : 1;
    if (to != 1 && to != 11) return nullptr;  // as the standard numbers f32 and f64
    const auto given = std::ranges::count_if(of.outputs, [](slot each) { return each != no_slot; });
    return of.opset < found->one_output_before && given != 1 ? nullptr : found;
}
bool has_bit(std::uint32_t mask, std::size_t i) { return (mask & operators::input_bit(i)) != 0; }

bool is_cast_to_half(const step& of) {
    if (!is(of, "Cast") || of.is_on_host) return false;
    const std::int64_t to = integer(of, "to", 0);
    return to == 10 || to == 16;  // f16 and bf16
}

template <typename T>
any_tensor widened_numbers(const any_tensor& from) {
    std::vector<float> made(from.elements());
    std::ranges::transform(from.values<T>(), made.begin(), [](T each) { return static_cast<float>(each); });
    return any_tensor(std::move(made), from.shape());
}

// --- the graph
// -----------------------------------------------------------------------------------------------------------

class widening {
public:
    widening(prepared_graph& in, std::span<const value_info> inputs) : in_(in) {
        for (const auto& [at, value] : in.constants) know(at, value.type());
        for (std::size_t i = 0; i < std::min(inputs.size(), in.inputs.size()); ++i) know(in.inputs[i], inputs[i].type);
    }

    void run() {
        for (step& each : std::exchange(in_.steps, {})) take(std::move(each));
        for (const slot each : in_.outputs) give(each, in_.steps.empty() ? 0 : in_.steps.back().position);
        const std::vector<std::size_t> readers = only_readers(in_);
        std::erase_if(in_.constants, [&](const auto& each) {
            return wide_.contains(each.first) && each.first < readers.size() && readers[each.first] == no_step;
        });
    }

private:
    void know(slot value, dtype type) { types_.insert_or_assign(value, type); }
    dtype type_of(slot value) const {
        const auto found = types_.find(value);
        return found != types_.end() ? found->second : dtype::boolean;  // not one of 16 bits
    }

    // The 16-bit type of what the operator takes; f32 where it is none, or where several are known: then the operator
    // says what is wrong.
    dtype narrow_type(const step& of, const wide_operator& known) const {
        dtype found = dtype::f32;
        for (std::size_t i = 0; i < of.inputs.size(); ++i) {
            if (!is_element(of, known, i)) continue;
            if (takes_on_host(of, i) && !in_.constants.contains(of.inputs[i])) return dtype::f32;
            const auto type = types_.find(of.inputs[i]);
            if (type == types_.end() && known.inputs_may_differ) return dtype::f32;
            if (type == types_.end()) continue;
            if (found != dtype::f32 && type->second != found) return dtype::f32;
            if (!is_half_type(type->second)) return dtype::f32;
            found = type->second;
        }
        return found;
    }
    static bool is_element(const step& of, const wide_operator& known, std::size_t i) {
        return of.inputs[i] != no_slot && has_bit(known.inputs, i);
    }

    void take(step each) {
        if (is_cast_to_half(each)) return take_cast(std::move(each));
        const wide_operator* const known = known_operator(each);
        const dtype type = known != nullptr ? narrow_type(each, *known) : dtype::f32;
        if (type == dtype::f32) return take_as_it_is(std::move(each));
        for (std::size_t i = 0; i < each.inputs.size(); ++i) {
            if (is_element(each, *known, i)) {
                each.inputs[i] = wide(each.inputs[i], type, each.position);
            } else if (each.inputs[i] != no_slot) {
                give(each.inputs[i], each.position);
            }
        }
        for (std::size_t i = 0; i < each.outputs.size(); ++i) {
            if (each.outputs[i] == no_slot || !has_bit(known->outputs, i)) continue;
            each.outputs[i] = made_wide(each.outputs[i], type);
        }
        in_.steps.push_back(std::move(each));
    }

    void take_cast(step each) {
        const dtype type = integer(each, "to", 0) == 10 ? dtype::f16 : dtype::bf16, from = type_of(each.inputs[0]);
        each.inputs[0] = is_half_type(from) ? wide(each.inputs[0], from, each.position) : each.inputs[0];
        each.outputs[0] = made_wide(each.outputs[0], type);
        each.what = &cast_to_f32();
        each.from = &converting_node();
        in_.steps.push_back(std::move(each));
    }
    // A value that has no 16 bits yet.
    slot made_wide(slot value, dtype type) {
        const slot made = new_slot();
        know(value, type);
        know(made, dtype::f32);
        wide_.emplace(value, made);
        is_missing_.insert(value);
        return made;
    }

    void take_as_it_is(step each) {
        for (std::size_t i = 0; i < each.inputs.size(); ++i)
            if (each.inputs[i] != no_slot) give(each.inputs[i], each.position);
        for (const auto& [body, inner] : each.inner)
            for (const auto& one : inner->captures) give(one.outside, each.position);
        in_.steps.push_back(std::move(each));
    }

    slot new_slot() {
        in_.needed_on_host.push_back(false);
        return static_cast<slot>(in_.slots++);
    }
    void convert(slot from, slot to, const operators::definition& by, std::size_t position) {
        step made{.what = &by,
                  .from = &converting_node(),
                  .position = position,
                  .opset = 13,
                  .label = "Cast",
                  .inputs = {from},
                  .outputs = {to},
                  .released = {}};
        in_.steps.push_back(std::move(made));
    }

    // The value in f32.
    slot wide(slot value, dtype type, std::size_t position) {
        if (const auto known = wide_.find(value); known != wide_.end()) return known->second;
        slot made = no_slot;
        if (const auto constant = in_.constants.find(value); constant != in_.constants.end()) {
            made = add_constant(in_, type == dtype::f16 ? widened_numbers<half>(constant->second)
                                                        : widened_numbers<bfloat16>(constant->second));
        } else {
            made = new_slot();
            convert(value, made, widening_of(type), position);
        }
        wide_.emplace(value, made);
        return made;
    }
    // Has the value in 16 bits, for what reads it next.
    void give(slot value, std::size_t position) {
        if (is_missing_.erase(value) != 0) convert(wide_.at(value), value, narrowing_to(type_of(value)), position);
    }

    prepared_graph& in_;
    std::unordered_map<slot, dtype> types_;  // as the model has them, where they are known
    std::unordered_map<slot, slot> wide_;
    std::unordered_set<slot> is_missing_;  // in 16 bits
};

}  // namespace

void widen_values(prepared_graph& in, std::span<const value_info> inputs) {
    const bool has_halves =
        std::ranges::any_of(in.constants, [](const auto& each) { return is_half_type(each.second.type()); }) ||
        std::ranges::any_of(inputs, [](const auto& each) { return is_half_type(each.type); }) ||
        std::ranges::any_of(in.steps, [](const step& each) { return is_cast_to_half(each); });
    const bool gains = std::ranges::any_of(in.steps, [](const step& each) {
        const wide_operator* const known = known_operator(each);
        return known != nullptr && known->gains;
    });
    if (has_halves && gains) widening(in, inputs).run();
}

}  // namespace sluice::nn::detail
