// SPDX-License-Identifier: Apache-2.0
// expression: a small program over the elements of tensors that are broadcast to one shape, carried out by one kernel.
//
//     expression e(in);
//     const auto x = e.input(in.input(0)), y = e.input(in.input(1));
//     e.give(0, io::dtype::f32, e.apply(opcode::relu, e.apply(opcode::add, x, y)));
//     e.run();
//
// Where only one node reads a value, and is an expression too, the value is not written to memory: the expressions
// become one, as long as that changes no bit of the result (expression_part).
//
// Each value of the program is a number of one kind for all: float (also for 16-bit elements), double, or a signed or
// unsigned 64-bit integer. Elements are converted when they are read and written. Comparisons give 0 or 1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "nn/operators/node_call.hpp"
#include "nn/operators/opcode.hpp"

namespace sluice::nn::operators {

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

// Carries out the program for these blocks of elements on a CPU. Number: float, double or a 64-bit integer.
inline constexpr std::size_t expression_block = 256;
template <typename Number>
void compute_on_cpu(const expression_program& program, std::size_t first_block, std::size_t last_block);

// The numbers in which a program computes.
enum class number_kind : std::uint8_t { f32, f64, i64, u64 };

// A program without outputs: a node's, whose value the next expression computes for itself.
struct expression_part {
    // A value below max_inputs is an input, another one the result of a step.
    static constexpr std::uint8_t first_step = expression_program::max_inputs;

    std::vector<any_tensor> inputs;
    std::vector<double> constants;
    std::vector<expression_program::step> steps;
    std::uint8_t result = 0;
    number_kind kind = number_kind::f32;
    io::dtype type = io::dtype::f32;  // of the result
    lengths shape;
};

class expression {
public:
    using value = std::uint8_t;

    explicit expression(node_call& in) : in_(in) {}

    // The numbers in which it computes, instead of those that hold all inputs and outputs exactly.
    void compute_in(number_kind kind) { chosen_ = kind; }

    value input(const any_tensor& from) { return input(from, nullptr); }
    // The node's input of this number. Only it may be a value that another expression has left to this one
    // (definition::fused_inputs).
    value input(std::size_t of_node) { return input(in_.input(of_node), in_.left_to_us(of_node)); }
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

    // Submits the kernel, or leaves the expression to the next one.
    void run();

private:
    using part_ptr = std::shared_ptr<const expression_part>;
    struct leaf {
        any_tensor x;
        part_ptr part;  // null: x has memory
    };
    struct target {
        any_tensor to;
        value what;
    };

    value input(const any_tensor& from, part_ptr part);
    number_kind kind() const;
    expression_part joined(std::vector<value>& given) const;

    node_call& in_;
    std::vector<leaf> leaves_;
    std::vector<expression_program::step> steps_;
    std::vector<double> constants_;
    std::vector<target> targets_;
    lengths shape_;
    std::optional<number_kind> chosen_;
    bool is_left_to_next_ = false;
};

}  // namespace sluice::nn::operators
