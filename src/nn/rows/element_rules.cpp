// SPDX-License-Identifier: Apache-2.0
// Operators that compute each element from the elements at the same place.

#include "nn/rows/rule.hpp"

namespace sluice::nn::rows {
namespace {

constexpr std::string_view domain_of_training = "ai.onnx.preview.training";

// Before operator set 7 the second operand is put at an axis of the first.
void legacy_elementwise(rule_call& in) {
    const auto axis = in.axis(0);
    if (in.axis(1)) throw cannot_follow{"has operands that are broadcast as before operator set 7"};
    const std::size_t rank = in.rank(0), of_second = in.rank(1);
    if (of_second > rank) throw cannot_follow{"has operands that do not fit"};
    const std::size_t at =
        in.what().attributes.contains("axis") ? in.axis_of(in.integer("axis", 0), rank, true) : rank - of_second;
    if (axis && *axis >= at && *axis < at + of_second && !in.shape(1)[*axis - at].is(1))
        throw cannot_follow{"combines the rows with a tensor that has several elements along their axis"};
    in.give(0, open(in.shape(0)), axis);
}

void elementwise(rule_call& in) {
    if (in.opset() < 7 && in.input_count() == 2 && in.integer("broadcast", 0) != 0) return legacy_elementwise(in);
    // Before version 7 the slopes are those of axis 1.
    if (in.opset() < 7 && in.what().op == "PRelu" && in.rank(0) > 2 && !product(in.shape(1)).is(1)) {
        require_other_axis(in.axis(0), 1, "has slopes");
        in.require_alike(1, "slopes");
        in.give(0, open(in.shape(0)), in.axis(0));
        return;
    }
    std::vector<std::size_t> inputs;
    for (std::size_t i = 0; i < in.input_count(); ++i)
        if (in.has_input(i)) inputs.push_back(i);
    broadcast_result made = broadcast(in, inputs);
    in.give(0, std::move(made.shape), made.axis);
}

// The number of a row stays it.
void same_elements(rule_call& in) {
    given_output& to = in.give(0, open(in.shape(0)), in.axis(0));
    to.is_row_number = in.input(0).is_row_number;
    to.row_number_columns = in.input(0).row_number_columns;
}

// The number of a row stays it only in a type that has each number.
void cast(rule_call& in) {
    const std::int64_t to = in.integer("to", 0);
    const bool has_each = to == 6 || to == 7 || to == 12 || to == 13;  // i32, i64, u32, u64
    if (in.input(0).has_row_numbers() && !has_each) throw cannot_follow{"rounds the numbers of the rows"};
    same_elements(in);
}

// The other input is there for its type.
void first_elements(rule_call& in) { in.give(0, open(in.shape(0)), in.axis(0)); }

// The operator itself refuses to drop elements.
void dropout(rule_call& in) {
    in.require_alike(1, "a ratio");
    in.require_alike(2, "a mode");
    in.give(0, open(in.shape(0)), in.axis(0));
    if (in.wants_output(1)) in.give(1, open(in.shape(0)), in.axis(0));
}

void clip(rule_call& in) {
    in.require_alike(1, "bounds");
    in.require_alike(2, "bounds");
    in.give(0, open(in.shape(0)), in.axis(0));
}

// The learning rate and the number of steps, and then tensors of one shape for each variable. The outputs are those of
// all kinds but the gradients, which are the second kind.
void optimizer_step_rows(rule_call& in) {
    in.require_alike(0, "learning rates");
    in.require_alike(1, "numbers of steps");
    const std::size_t tensors = in.input_count() - 2, variables = tensors - in.output_count();
    if (variables == 0 || tensors % variables != 0) throw cannot_follow{"has inputs that do not fit"};
    for (std::size_t i = 2; i < in.input_count(); ++i) {
        const std::size_t variable = 2 + (i - 2) % variables;
        if (in.axis(i) != in.axis(variable) || in.shape(i) != in.shape(variable))
            throw cannot_follow{"combines the rows with a tensor that has no rows"};
    }
    for (std::size_t o = 0; o < in.output_count(); ++o) {
        const std::size_t variable = 2 + o % variables;
        in.give(o, open(in.shape(variable)), in.axis(variable));
    }
}

void quantize(rule_call& in) {
    in.require_alike(1, "scales");
    in.require_alike(2, "zero points");
    const auto rows = in.axis(0);
    const std::size_t rank = in.rank(0);
    const bool is_one = in.rank(1) == 0 || (in.rank(1) == 1 && in.shape(1)[0].is(1));
    if (rows && !is_one) {
        if (in.integer("block_size", 0) != 0) throw cannot_follow{"has a scale for each block of elements"};
        require_other_axis(rows, in.axis_of(in.integer("axis", 1), rank), "has scales");
    }
    in.give(0, open(in.shape(0)), rows);
}

}  // namespace

std::span<const rule_of_operator> element_rules() {
    static const std::vector<rule_of_operator> all = [] {
        std::vector<rule_of_operator> made{
            {.name = "Identity", .how = &same_elements, .takes_row_numbers = true, .takes_runs = true},
            {.name = "Cast", .how = &cast, .takes_row_numbers = true, .takes_runs = true},
            {.name = "BitCast", .how = &first_elements},
            {.name = "CastLike", .how = &first_elements},
            {.name = "Dropout", .how = &dropout, .takes_runs = true},
            {.name = "Clip", .how = &clip},
            {.name = "Adagrad", .how = &optimizer_step_rows, .domain = domain_of_training},
            {.name = "Adam", .how = &optimizer_step_rows, .domain = domain_of_training},
            {.name = "Momentum", .how = &optimizer_step_rows, .domain = domain_of_training},
            {.name = "QuantizeLinear", .how = &quantize},
            {.name = "DequantizeLinear", .how = &quantize},
        };
        for (const std::string_view each :
             {"Neg",    "Abs",        "Sqrt",        "Exp",           "Log",        "Sin",         "Cos",
              "Tan",    "Asin",       "Acos",        "Atan",          "Sinh",       "Cosh",        "Tanh",
              "Asinh",  "Acosh",      "Atanh",       "Erf",           "Floor",      "Ceil",        "Round",
              "Sign",   "Reciprocal", "Relu",        "Sigmoid",       "Softplus",   "Not",         "BitwiseNot",
              "Add",    "Sub",        "Mul",         "Div",           "And",        "Or",          "Xor",
              "Less",   "Greater",    "Equal",       "Sum",           "BitwiseAnd", "BitwiseOr",   "BitwiseXor",
              "Mean",   "Max",        "Min",         "Elu",           "LeakyRelu",  "Selu",        "Celu",
              "Swish",  "HardSwish",  "Mish",        "Pow",           "Softsign",   "HardSigmoid", "ThresholdedRelu",
              "Shrink", "Gelu",       "PRelu",       "Mod",           "BitShift",   "IsInf",       "IsNaN",
              "Where",  "SwiGLU",     "LessOrEqual", "GreaterOrEqual"})
            made.push_back({.name = each, .how = &elementwise, .takes_runs = true});
        return made;
    }();
    return all;
}

}  // namespace sluice::nn::rows
