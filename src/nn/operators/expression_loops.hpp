// SPDX-License-Identifier: Apache-2.0
// expression_loops: the steps of expressions over many numbers, and the elements that are read and written, by a CPU's
// vector units.
//
//     if (auto* const add = loops.of<float>().steps[std::size_t(opcode::add)]) add(a, b, c, made, count);
//
// A loop gives what expression_steps.hpp says, bit by bit; a null pointer says that there is no loop.
// tests/nn/expression_loops_tests.cpp compares them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "nn/operators/opcode.hpp"

namespace sluice::nn::operators {

inline constexpr std::size_t element_types = 13;  // of io::dtype

template <typename Number>
struct number_loops {
    // `made` may be an operand.
    using step = void (*)(const Number* a, const Number* b, const Number* c, Number* made, std::size_t count) noexcept;
    using reading = void (*)(const void* from, Number* to, std::size_t count) noexcept;
    using writing = void (*)(const Number* from, void* to, std::size_t count) noexcept;

    step steps[opcodes];
    // By io::dtype. Those whose elements are these numbers have none.
    reading read[element_types];
    writing write[element_types];
};

struct expression_loops {
    number_loops<float> f32;
    number_loops<double> f64;
    number_loops<std::int64_t> i64;
    number_loops<std::uint64_t> u64;

    template <typename Number>
    const number_loops<Number>& of() const {
        if constexpr (std::is_same_v<Number, float>) {
            return f32;
        } else if constexpr (std::is_same_v<Number, double>) {
            return f64;
        } else if constexpr (std::is_same_v<Number, std::int64_t>) {
            return i64;
        } else {
            return u64;
        }
    }
};

extern const expression_loops expression_loops_baseline, expression_loops_avx2, expression_loops_avx512;

// Those that this processor can run, the best one first.
std::vector<const expression_loops*> known_expression_loops();
// The best one.
const expression_loops& expression_loops_of_this_processor();

}  // namespace sluice::nn::operators
