// SPDX-License-Identifier: Apache-2.0
// expression: a small program over the elements of tensors that are broadcast to one shape, carried out by one kernel.
//
//     expression e(in);
//     const auto x = e.input(in.input(0)), y = e.input(in.input(1));
//     e.give(0, io::dtype::f32, e.apply(opcode::relu, e.apply(opcode::add, x, y)));
//     e.run();
//
// Each value of the program is a number of one kind for all: float (also for 16-bit elements), double, or a signed or
// unsigned 64-bit integer. Elements are converted when they are read and written. Comparisons give 0 or 1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "nn/operators/node_call.hpp"

namespace sluice::nn::operators {

enum class opcode : std::uint8_t {
    constant,  // of expression::constant
    // one operand
    negative,
    absolute,
    square_root,
    exponential,
    logarithm,
    sine,
    cosine,
    tangent,
    arcsine,
    arccosine,
    arctangent,
    hyperbolic_sine,
    hyperbolic_cosine,
    hyperbolic_tangent,
    inverse_hyperbolic_sine,
    inverse_hyperbolic_cosine,
    inverse_hyperbolic_tangent,
    error_function,
    floor,
    ceiling,
    round,  // to nearest, halves to even
    sign,
    reciprocal,
    relu,
    sigmoid,
    softplus,
    logical_not,
    bitwise_not,
    is_nan,
    is_positive_infinity,
    is_negative_infinity,
    // two operands
    add,
    subtract,
    multiply,
    divide,
    modulus,    // has the sign of the divisor
    remainder,  // has the sign of the dividend
    power,
    maximum,  // NaN if one is
    minimum,
    logical_and,
    logical_or,
    logical_xor,
    bitwise_and,
    bitwise_or,
    bitwise_xor,
    shift_left,
    shift_right,
    less,
    less_equal,
    equal,
    // three operands
    choose,  // the second if the first is not 0, else the third
};

// What the kernel gets. (Arrays, because nvcc does not take std::array in kernels.)
struct expression_program {
    static constexpr std::size_t max_inputs = 8, max_outputs = 4, max_steps = 24, max_constants = 6, max_rank = 6;

    struct step {
        opcode what;
        std::uint8_t a, b, c;  // registers: inputs first, then the results of the steps
    };
    std::uint16_t inputs = 0, outputs = 0, steps = 0, rank = 0;
    step code[max_steps] = {};
    double constants[max_constants] = {};
    const void* from[max_inputs] = {};
    io::dtype from_type[max_inputs] = {};
    std::size_t from_strides[max_inputs][max_rank] = {};  // 0 where it is broadcast
    bool is_dense[max_inputs] = {};                       // element i of the output has element i
    void* to[max_outputs] = {};
    io::dtype to_type[max_outputs] = {};
    std::uint32_t to_register[max_outputs] = {};
    std::size_t lengths[max_rank] = {};
    std::size_t count = 0;
};

class expression {
public:
    using value = std::uint8_t;

    explicit expression(node_call& in) : in_(in) {}

    // All inputs come before the first apply.
    value input(const any_tensor& from);
    value constant(double number);
    value apply(opcode what, value a) { return apply(what, a, a, a); }
    value apply(opcode what, value a, value b) { return apply(what, a, b, b); }
    value apply(opcode what, value a, value b, value c);

    // The value becomes this output of the node, with elements of this type, of the shape of all inputs together.
    void give(std::size_t output, io::dtype type, value what);
    // The same for a tensor that exists already.
    void give(const any_tensor& to, value what);
    // The shape of all inputs together.
    const lengths& shape() const noexcept { return shape_; }

    // Submits the kernel.
    void run();

private:
    void set_strides();

    node_call& in_;
    expression_program program_;
    std::size_t constants_ = 0;
    std::vector<any_tensor> inputs_;
    std::vector<any_tensor> outputs_;
    lengths shape_;
};

}  // namespace sluice::nn::operators
