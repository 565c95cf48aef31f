// SPDX-License-Identifier: Apache-2.0
// Operators that compute each element of the output from the elements at its place, with broadcasting.
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <optional>
#include <string>

#include "nn/operators/expression.hpp"
#include "nn/operators/table.hpp"

namespace sluice::nn::operators {
namespace {

using value = expression::value;
using enum opcode;

constexpr auto boolean = io::dtype::boolean;

void require_float(const node_call& in, const any_tensor& x) {
    if (!is_float(x.type())) in.refuse_type(x);
}
void require_whole(const node_call& in, const any_tensor& x) {
    if (is_float(x.type()) || x.type() == boolean) in.refuse_type(x);
}
void require_boolean(const node_call& in, const any_tensor& x) {
    if (x.type() != boolean) in.refuse_type(x);
}
void require_number(const node_call& in, const any_tensor& x) {
    if (x.type() == boolean) in.refuse_type(x);
}
void require_any(const node_call&, const any_tensor&) {}

void require_same_type(const node_call& in, std::size_t first, std::size_t last) {
    for (std::size_t i = first + 1; i <= last; ++i) {
        if (in.input(i).type() != in.input(first).type()) {
            in.refuse("combines " + to_string(in.input(first)) + " and " + to_string(in.input(i)) +
                      ", which have different types");
        }
    }
}

// Before operator set 7, the second operand is broadcast only where the attribute says so, and its dimensions may begin
// at an axis of the first one's. Later versions broadcast always, and have no such attributes.
value second_operand(const node_call& in, expression& e) {
    if (in.opset() >= 7) {
        if (in.has("axis") || in.has("broadcast"))
            in.refuse("has the attribute axis or broadcast, which its operator has before operator set 7 only");
        return e.input(1);
    }
    const any_tensor &a = in.input(0), &b = in.input(1);
    if (in.integer("broadcast", 0) == 0) {
        if (a.shape() != b.shape()) in.refuse_shapes("combines different shapes without the attribute broadcast");
        return e.input(b);
    }
    if (!in.has("axis") || b.shape().empty()) return e.input(b);
    const std::size_t first = in.axis(in.integer("axis", 0), a.shape().size());
    if (first + b.shape().size() > a.shape().size())
        in.refuse_shapes("has an axis at which the second shape does not fit");
    lengths shape = b.shape();
    shape.resize(a.shape().size() - first, 1);
    return e.input(b.with_shape(std::move(shape)));
}

using requirement = void (*)(const node_call&, const any_tensor&);

// y = formula(x), of x's type.
template <requirement Accepts, typename Formula>
void map(node_call& in, const Formula& formula) {
    const any_tensor& x = in.input(0);
    Accepts(in, x);
    expression e(in);
    const value read = e.input(0);
    e.give(0, x.type(), formula(e, read));
    e.run();
}

template <requirement Accepts, opcode What>
void unary(node_call& in) {
    map<Accepts>(in, [](expression& e, value x) { return e.apply(What, x); });
}

template <requirement Accepts, opcode What, bool IsComparison = false, bool IsExchanged = false, bool IsNegated = false>
void binary(node_call& in) {
    Accepts(in, in.input(0));
    require_same_type(in, 0, 1);
    expression e(in);
    value a = e.input(0), b = second_operand(in, e);
    if (IsExchanged) std::swap(a, b);
    value made = e.apply(What, a, b);
    if (IsNegated) made = e.apply(logical_not, made);
    e.give(0, IsComparison ? boolean : in.input(0).type(), made);
    e.run();
}

void identity(node_call& in) { in.set_output(0, in.input(0)); }

// --- sums and the like, of any number of tensors -----------------------------------------------------------------

template <opcode What, bool IsMean = false>
void variadic(node_call& in) {
    require_same_type(in, 0, in.input_count() - 1);
    const any_tensor& first = in.input(0);
    if (What == add) require_float(in, first);
    lengths shape = first.shape();
    for (std::size_t i = 1; i < in.input_count(); ++i) shape = broadcast(in, shape, in.input(i).shape());
    // At most eight at a time; the sum so far is one of the next.
    any_tensor so_far;
    for (std::size_t next = 0; next < in.input_count();) {
        expression e(in);
        std::size_t room = expression_program::max_inputs;
        std::array<value, expression_program::max_inputs> read{};
        std::size_t count = 0;
        if (so_far) read[count++] = e.input(so_far);
        for (; count < room && next < in.input_count(); ++next) read[count++] = e.input(next);
        value made = read[0];
        for (std::size_t i = 1; i < count; ++i) made = e.apply(What, made, read[i]);
        const bool is_last = next == in.input_count();
        if (is_last && IsMean) made = e.apply(divide, made, e.constant(static_cast<double>(in.input_count())));
        if (is_last) {
            e.give(0, first.type(), made);
        } else {
            so_far = in.make(first.type(), e.shape());
            e.give(so_far, made);
        }
        e.run();
    }
}

// --- activations -------------------------------------------------------------------------------------------------

void leaky_relu(node_call& in) {
    const float alpha = in.real("alpha", 0.01f);
    map<require_float>(in, [&](expression& e, value x) {
        const value zero = e.constant(0);
        return e.apply(choose, e.apply(less, x, zero), e.apply(multiply, x, e.constant(alpha)), x);
    });
}

// alpha (exp(x / scale) - 1) where x is negative, else x; times gamma.
value exponential_unit(expression& e, value x, double alpha, double scale, double gamma) {
    const value one = e.constant(1);
    const value scaled = scale == 1 ? x : e.apply(divide, x, e.constant(scale));
    const value below = e.apply(multiply, e.apply(subtract, e.apply(exponential, scaled), one), e.constant(alpha));
    const value made = e.apply(choose, e.apply(less_equal, x, e.constant(0)), below, x);
    return gamma == 1 ? made : e.apply(multiply, made, e.constant(gamma));
}

void elu(node_call& in) {
    map<require_float>(in, [&](expression& e, value x) { return exponential_unit(e, x, in.real("alpha", 1), 1, 1); });
}
void selu(node_call& in) {
    map<require_float>(in, [&](expression& e, value x) {
        const bool is_old = in.opset() < 6;
        return exponential_unit(e, x, in.real("alpha", is_old ? 1.6732f : 1.67326319217681884765625f), 1,
                                in.real("gamma", is_old ? 1.0507f : 1.05070102214813232421875f));
    });
}
void celu(node_call& in) {
    const float alpha = in.real("alpha", 1);
    map<require_float>(in, [&](expression& e, value x) { return exponential_unit(e, x, alpha, alpha, 1); });
}

void hard_sigmoid(node_call& in) {
    map<require_float>(in, [&](expression& e, value x) {
        const value line =
            e.apply(add, e.apply(multiply, x, e.constant(in.real("alpha", 0.2f))), e.constant(in.real("beta", 0.5f)));
        return e.apply(maximum, e.constant(0), e.apply(minimum, e.constant(1), line));
    });
}
void hard_swish(node_call& in) {
    map<require_float>(in, [](expression& e, value x) {
        const value line = e.apply(add, e.apply(multiply, x, e.constant(1.0 / 6)), e.constant(0.5));
        return e.apply(multiply, x, e.apply(maximum, e.constant(0), e.apply(minimum, e.constant(1), line)));
    });
}
void swish(node_call& in) {
    map<require_float>(in, [&](expression& e, value x) {
        return e.apply(multiply, x, e.apply(sigmoid, e.apply(multiply, x, e.constant(in.real("alpha", 1)))));
    });
}
void mish(node_call& in) {
    map<require_float>(in, [](expression& e, value x) {
        return e.apply(multiply, x, e.apply(hyperbolic_tangent, e.apply(softplus, x)));
    });
}
void softsign(node_call& in) {
    map<require_float>(in, [](expression& e, value x) {
        return e.apply(divide, x, e.apply(add, e.constant(1), e.apply(absolute, x)));
    });
}
void thresholded_relu(node_call& in) {
    map<require_float>(in, [&](expression& e, value x) {
        return e.apply(choose, e.apply(less, e.constant(in.real("alpha", 1)), x), x, e.constant(0));
    });
}
void shrink(node_call& in) {
    const float lambda = in.real("lambd", 0.5f), bias = in.real("bias", 0);
    // Whole elements are computed in whole numbers, of which x > 1.5 is x > 1.
    if (!is_float(in.input(0).type())) {
        if (bias != std::trunc(bias) || lambda < 0 || (in.input(0).type() == io::dtype::u64 && lambda >= 1))
            in.refuse_unsupported("shrinks whole numbers by 'bias' " + std::to_string(bias) + " with 'lambd' " +
                                  std::to_string(lambda) +
                                  "; accepted are a whole 'bias' and a 'lambd' from 0 on, below 1 for u64");
    }
    map<require_number>(in, [&](expression& e, value x) {
        const value above = e.apply(less, e.constant(lambda), x), below = e.apply(less, x, e.constant(-lambda));
        const value moved = e.constant(bias);
        return e.apply(choose, above, e.apply(subtract, x, moved),
                       e.apply(choose, below, e.apply(add, x, moved), e.constant(0)));
    });
}
void gelu(node_call& in) {
    const std::string form = in.text("approximate", "none");
    if (form != "none" && form != "tanh")
        in.refuse("has the approximation '" + form + "'; 'none' and 'tanh' are possible");
    map<require_float>(in, [&](expression& e, value x) {
        const value one = e.constant(1);
        value inner;
        if (form == "none") {
            inner = e.apply(error_function, e.apply(multiply, x, e.constant(std::numbers::sqrt2 / 2)));
        } else {
            const value cube = e.apply(multiply, x, e.apply(multiply, x, x));
            const value sum = e.apply(add, x, e.apply(multiply, cube, e.constant(0.044715)));
            inner = e.apply(hyperbolic_tangent, e.apply(multiply, sum, e.constant(std::sqrt(2 / std::numbers::pi))));
        }
        return e.apply(multiply, e.apply(multiply, x, e.constant(0.5)), e.apply(add, one, inner));
    });
}
void prelu(node_call& in) {
    require_number(in, in.input(0));
    require_same_type(in, 0, 1);
    expression e(in);
    any_tensor slopes = in.input(1);
    // Before operator set 7: one for each channel.
    if (in.opset() < 7 && slopes.elements() != 1 && in.input(0).shape().size() > 2) {
        lengths shape(in.input(0).shape().size() - 1, 1);
        shape[0] = slopes.elements();
        slopes = slopes.with_shape(std::move(shape));
    }
    const value x = e.input(in.input(0)), slope = e.input(slopes);
    e.give(0, in.input(0).type(), e.apply(choose, e.apply(less, x, e.constant(0)), e.apply(multiply, x, slope), x));
    e.run();
}

// --- others ------------------------------------------------------------------------------------------------------

void clip(node_call& in) {
    const any_tensor& x = in.input(0);
    require_number(in, x);
    expression e(in);
    value made = e.input(0);
    if (in.opset() < 11) {
        // Operator sets 6 to 10 have bounds where none are given.
        constexpr float most = std::numeric_limits<float>::max();
        const bool is_bounded = in.opset() >= 6;
        if (is_bounded || in.has("min")) made = e.apply(maximum, made, e.constant(in.real("min", -most)));
        if (is_bounded || in.has("max")) made = e.apply(minimum, made, e.constant(in.real("max", most)));
    } else {
        std::array<std::optional<value>, 2> bounds;
        for (std::size_t i = 1; i <= 2; ++i) {
            if (!in.has_input(i)) continue;
            if (in.input(i).elements() != 1 || in.input(i).type() != x.type())
                in.refuse("has the bound " + to_string(in.input(i)) + "; it has to be one number of the input's type");
            bounds[i - 1] = e.input(in.input(i).with_shape({}));
        }
        if (bounds[0]) made = e.apply(maximum, made, *bounds[0]);
        if (bounds[1]) made = e.apply(minimum, made, *bounds[1]);
    }
    e.give(0, x.type(), made);
    e.run();
}

void power_of(node_call& in) {
    require_number(in, in.input(0));
    require_number(in, in.input(1));
    expression e(in);
    const value base = e.input(0), exponent = second_operand(in, e);
    e.give(0, in.input(0).type(), e.apply(power, base, exponent));
    e.run();
}

void modulo(node_call& in) {
    require_number(in, in.input(0));
    require_same_type(in, 0, 1);
    const bool is_c = in.integer("fmod", 0) != 0;
    if (!is_c && is_float(in.input(0).type()) && in.opset() < 28)
        in.refuse("has floating point inputs, so its attribute fmod has to be 1");
    expression e(in);
    const value a = e.input(in.input(0)), b = e.input(in.input(1));
    e.give(0, in.input(0).type(), e.apply(is_c ? remainder : modulus, a, b));
    e.run();
}

void shift(node_call& in) {
    require_whole(in, in.input(0));
    require_same_type(in, 0, 1);
    const std::string direction = in.text("direction", "");
    if (direction != "LEFT" && direction != "RIGHT")
        in.refuse("has the direction '" + direction + "'; 'LEFT' and 'RIGHT' are possible");
    expression e(in);
    const value a = e.input(in.input(0)), b = e.input(in.input(1));
    e.give(0, in.input(0).type(), e.apply(direction == "LEFT" ? shift_left : shift_right, a, b));
    e.run();
}

void is_infinite(node_call& in) {
    require_float(in, in.input(0));
    expression e(in);
    const value x = e.input(in.input(0));
    const bool positive = in.integer("detect_positive", 1) != 0, negative = in.integer("detect_negative", 1) != 0;
    value made = e.constant(0);
    if (positive) made = e.apply(logical_or, made, e.apply(is_positive_infinity, x));
    if (negative) made = e.apply(logical_or, made, e.apply(is_negative_infinity, x));
    e.give(0, boolean, made);
    e.run();
}
void is_not_a_number(node_call& in) {
    require_float(in, in.input(0));
    expression e(in);
    e.give(0, boolean, e.apply(is_nan, e.input(in.input(0))));
    e.run();
}

void where(node_call& in) {
    require_boolean(in, in.input(0));
    require_same_type(in, 1, 2);
    expression e(in);
    const value condition = e.input(0), a = e.input(1), b = e.input(2);
    e.give(0, in.input(1).type(), e.apply(choose, condition, a, b));
    e.run();
}

// ONNX's numbers of element types.
std::optional<io::dtype> type_of_number(std::int64_t number) {
    using enum io::dtype;
    switch (number) {
        case 1: return f32;
        case 2: return u8;
        case 3: return i8;
        case 4: return u16;
        case 5: return i16;
        case 6: return i32;
        case 7: return i64;
        case 9: return boolean;
        case 10: return f16;
        case 11: return f64;
        case 12: return u32;
        case 13: return u64;
        case 16: return bf16;
        default: return {};
    }
}

void cast_to(node_call& in, io::dtype type) {
    const any_tensor& x = in.input(0);
    if (x.type() == type) return in.set_output(0, x);
    expression e(in);
    // By f64 a large integer would be rounded twice.
    if (x.type() == io::dtype::i64 && is_float(type)) e.compute_in(number_kind::i64);
    if (x.type() == io::dtype::u64 && is_float(type)) e.compute_in(number_kind::u64);
    const value read = e.input(x);
    e.give(0, type, read);
    e.run();
}

io::dtype named_type(const node_call& in, std::string_view attribute, std::int64_t otherwise) {
    const std::int64_t number = in.integer(attribute, otherwise);
    const auto type = type_of_number(number);
    if (!type) in.refuse_unsupported("names the element type " + std::to_string(number) + ", which is not supported");
    return *type;
}

void cast(node_call& in) { cast_to(in, named_type(in, "to", 0)); }
void cast_like(node_call& in) { cast_to(in, in.input(1).type()); }
void bit_cast(node_call& in) {
    const io::dtype type = named_type(in, "to", 0);
    if (io::size_of(type) != io::size_of(in.input(0).type())) in.refuse("changes the size of the elements");
    in.set_output(0, in.input(0).with_type(type));
}

// As it runs after training: nothing is dropped.
void dropout(node_call& in) {
    if (in.opset() < 7 && in.integer("is_test", 0) == 0)
        in.refuse_unsupported("drops elements, as in training, which is not supported");
    if (in.has_input(2) && in.host_number(2) != 0 && (!in.has_input(1) || in.host_number(1) != 0))
        in.refuse_unsupported("drops elements, as in training, which is not supported");
    in.set_output(0, in.input(0));
    if (!in.wants_output(1)) return;
    expression e(in);
    const value x = e.input(in.input(0));
    e.give(1, in.opset() < 10 ? in.input(0).type() : boolean, e.apply(logical_or, e.apply(equal, x, x), e.constant(1)));
    e.run();
}

// One that takes values of other expressions as these inputs.
definition fused(std::uint32_t inputs, definition made) {
    made.fused_inputs = inputs;
    return made;
}
template <requirement Accepts, opcode What>
definition one(std::string_view name) {
    return fused(input_bit(0), {name, 1, 1, 1, {}, &unary<Accepts, What>});
}
constexpr std::uint32_t both = input_bit(0) | input_bit(1);
template <requirement Accepts, opcode What>
definition two(std::string_view name) {
    return fused(both, {name, 2, 2, 1, {"axis", "broadcast"}, &binary<Accepts, What>});
}

const std::vector<definition>& list() {
    static const std::vector<definition> all = {
        one<require_number, negative>("Neg"),
        one<require_number, absolute>("Abs"),
        one<require_float, square_root>("Sqrt"),
        one<require_float, exponential>("Exp"),
        one<require_float, logarithm>("Log"),
        one<require_float, sine>("Sin"),
        one<require_float, cosine>("Cos"),
        one<require_float, tangent>("Tan"),
        one<require_float, arcsine>("Asin"),
        one<require_float, arccosine>("Acos"),
        one<require_float, arctangent>("Atan"),
        one<require_float, hyperbolic_sine>("Sinh"),
        one<require_float, hyperbolic_cosine>("Cosh"),
        one<require_float, hyperbolic_tangent>("Tanh"),
        one<require_float, inverse_hyperbolic_sine>("Asinh"),
        one<require_float, inverse_hyperbolic_cosine>("Acosh"),
        one<require_float, inverse_hyperbolic_tangent>("Atanh"),
        one<require_float, error_function>("Erf"),
        one<require_float, floor>("Floor"),
        one<require_float, ceiling>("Ceil"),
        one<require_float, round>("Round"),
        one<require_number, sign>("Sign"),
        one<require_float, reciprocal>("Reciprocal"),
        one<require_number, relu>("Relu"),
        one<require_float, sigmoid>("Sigmoid"),
        one<require_float, softplus>("Softplus"),
        one<require_boolean, logical_not>("Not"),
        one<require_whole, bitwise_not>("BitwiseNot"),
        two<require_number, add>("Add"),
        two<require_number, subtract>("Sub"),
        two<require_number, multiply>("Mul"),
        two<require_number, divide>("Div"),
        two<require_boolean, logical_and>("And"),
        two<require_boolean, logical_or>("Or"),
        two<require_boolean, logical_xor>("Xor"),
        two<require_whole, bitwise_and>("BitwiseAnd"),
        two<require_whole, bitwise_or>("BitwiseOr"),
        two<require_whole, bitwise_xor>("BitwiseXor"),
        fused(both, {"Less", 2, 2, 1, {"axis", "broadcast"}, &binary<require_number, less, true>}),
        fused(both, {"Greater", 2, 2, 1, {"axis", "broadcast"}, &binary<require_number, less, true, true>}),
        fused(both, {"LessOrEqual", 2, 2, 1, {}, &binary<require_number, less_equal, true>}),
        fused(both, {"GreaterOrEqual", 2, 2, 1, {}, &binary<require_number, less_equal, true, true>}),
        fused(both, {"Equal", 2, 2, 1, {"axis", "broadcast"}, &binary<require_any, equal, true>}),
        {"Identity", 1, 1, 1, {}, &identity},
        fused(operators::all, {"Sum", 1, any_number, 1, {}, &variadic<add>}),
        fused(operators::all, {"Mean", 1, any_number, 1, {}, &variadic<add, true>}),
        fused(operators::all, {"Max", 1, any_number, 1, {}, &variadic<maximum>}),
        fused(operators::all, {"Min", 1, any_number, 1, {}, &variadic<minimum>}),
        fused(input_bit(0), {"LeakyRelu", 1, 1, 1, {"alpha"}, &leaky_relu}),
        fused(input_bit(0), {"Elu", 1, 1, 1, {"alpha"}, &elu}),
        fused(input_bit(0), {"Selu", 1, 1, 1, {"alpha", "gamma"}, &selu}),
        fused(input_bit(0), {"Celu", 1, 1, 1, {"alpha"}, &celu}),
        fused(input_bit(0), {"HardSigmoid", 1, 1, 1, {"alpha", "beta"}, &hard_sigmoid}),
        fused(input_bit(0), {"HardSwish", 1, 1, 1, {}, &hard_swish}),
        fused(input_bit(0), {"Swish", 1, 1, 1, {"alpha"}, &swish}),
        fused(input_bit(0), {"Mish", 1, 1, 1, {}, &mish}),
        fused(input_bit(0), {"Softsign", 1, 1, 1, {}, &softsign}),
        fused(input_bit(0), {"ThresholdedRelu", 1, 1, 1, {"alpha"}, &thresholded_relu}),
        fused(input_bit(0), {"Shrink", 1, 1, 1, {"bias", "lambd"}, &shrink}),
        fused(input_bit(0), {"Gelu", 1, 1, 1, {"approximate"}, &gelu}),
        {"PRelu", 2, 2, 1, {}, &prelu},
        fused(input_bit(0), {"Clip", 1, 3, 1, {"min", "max"}, &clip}),
        fused(both, {"Pow", 2, 2, 1, {"axis", "broadcast"}, &power_of}),
        {"Mod", 2, 2, 1, {"fmod"}, &modulo},
        {"BitShift", 2, 2, 1, {"direction"}, &shift},
        {"IsInf", 1, 1, 1, {"detect_negative", "detect_positive"}, &is_infinite},
        {"IsNaN", 1, 1, 1, {}, &is_not_a_number},
        fused(operators::all, {"Where", 3, 3, 1, {}, &where}),
        {"Cast", 1, 1, 1, {"to", "saturate", "round_mode"}, &cast},
        {.name = "CastLike",
         .least_inputs = 2,
         .most_inputs = 2,
         .most_outputs = 1,
         .attributes = {"saturate", "round_mode"},
         .run = &cast_like,
         .shape_inputs = input_bit(1)},
        {"BitCast", 1, 1, 1, {"to"}, &bit_cast},
        {.name = "Dropout",
         .least_inputs = 1,
         .most_inputs = 3,
         .most_outputs = 2,
         .attributes = {"ratio", "seed", "is_test"},
         .run = &dropout,
         .host_inputs = input_bit(1) | input_bit(2)},
    };
    return all;
}

}  // namespace

std::span<const definition> elementwise() { return list(); }

}  // namespace sluice::nn::operators
