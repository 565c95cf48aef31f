// SPDX-License-Identifier: Apache-2.0
// Expressions on a CPU: a step is a loop over a block of elements. Elements that are numbers of the program's kind are
// read and written where they are; others are converted into the block's own memory and from it.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/elementwise/vector_math.hpp"
#include "nn/operators/expression.hpp"
#include "nn/operators/expression_loops.hpp"
#include "nn/operators/expression_steps.hpp"
#include "nn/operators/numbers.hpp"

namespace sluice::nn::operators {
namespace {

template <typename Number>
class block_program {
public:
    explicit block_program(const expression_program& of) : of_(of) {
        for (std::size_t k = 0; k < of.steps; ++k) {
            if (of.code[k].what != opcode::constant) continue;
            values_[of.inputs + k] = memory_[of.inputs + k];
            std::fill_n(memory_[of.inputs + k], expression_block, static_cast<Number>(of.constants[of.code[k].a]));
        }
        for (std::size_t k = 0; k < of.inputs; ++k) {
            is_one_[k] = std::ranges::all_of(of.from_strides[k], of.from_strides[k] + of.rank,
                                             [](std::size_t stride) { return stride == 0; });
            if (!is_one_[k]) continue;
            values_[k] = memory_[k];
            std::fill_n(memory_[k], expression_block, load_number<Number>(of.from[k], of.from_type[k], 0));
        }
    }

    void operator()(std::size_t block) {
        const std::size_t first = block * expression_block, size = std::min(of_.count - first, expression_block);
        for (std::size_t k = 0; k < of_.inputs; ++k)
            if (!is_one_[k]) read(k, first, size);
        for (std::size_t k = 0; k < of_.steps; ++k) {
            const auto step = of_.code[k];
            if (step.what == opcode::constant) continue;
            const std::size_t at = of_.inputs + k;
            Number* const made = place_of_result(at, first);
            // Of numbers that the block before had too, the result is there.
            is_same_[at] = made == memory_[at] && is_same(step.a) && is_same(step.b) && is_same(step.c);
            if (is_same_[at]) continue;
            apply(step.what, values_[step.a], values_[step.b], values_[step.c], made, size);
            values_[at] = made;
        }
        for (std::size_t k = 0; k < of_.outputs; ++k) write(k, first, size);
        has_block_before_ = size == expression_block;
    }

private:
    static constexpr std::size_t registers = expression_program::max_inputs + expression_program::max_steps;
    static constexpr io::dtype own_type = io::dtype_of<Number>;

    bool is_constant(std::size_t at) const {
        return at < of_.inputs ? is_one_[at] : of_.code[at - of_.inputs].what == opcode::constant;
    }
    bool is_same(std::size_t at) const { return has_block_before_ && (is_constant(at) || is_same_[at]); }

    // The step's own memory, or that of the output that it is.
    Number* place_of_result(std::size_t at, std::size_t first) {
        for (std::size_t k = 0; k < of_.outputs; ++k) {
            if (of_.to_register[k] == at && of_.to_type[k] == own_type) return static_cast<Number*>(of_.to[k]) + first;
        }
        return memory_[at];
    }

    // Elements first, first + 1, ... of the input as it is broadcast: run by run of the last dimension.
    void read(std::size_t input, std::size_t first, std::size_t size) {
        is_same_[input] = false;
        if (of_.is_dense[input]) return read_dense(input, first, size);
        const std::size_t* const strides = of_.from_strides[input];
        const std::size_t last = of_.rank - std::size_t{1};  // of rank 0 there is one element, which is dense
        std::size_t coordinates[expression_program::max_rank];
        std::size_t at = 0;
        for (std::size_t d = of_.rank, rest = first; d-- > 0; rest /= of_.lengths[d]) {
            coordinates[d] = rest % of_.lengths[d];
            at += coordinates[d] * strides[d];
        }
        values_[input] = memory_[input];
        // (One number for the whole block, as for the block before: it is there.)
        const bool is_alike = strides[last] == 0 && of_.lengths[last] - coordinates[last] >= size;
        is_same_[input] = is_alike && is_filled_[input] && filled_from_[input] == at;
        if (is_same_[input]) return;
        is_filled_[input] = is_alike && size == expression_block;
        filled_from_[input] = at;
        for (std::size_t i = 0; i < size;) {
            const std::size_t of_run = of_.lengths[last] - coordinates[last], run = std::min(of_run, size - i);
            // (A whole block from one run of these numbers: where they are.)
            if (run == size && strides[last] == 1) return read_dense(input, at, size);
            read_run(input, at, strides[last], run, memory_[input] + i);
            i += run;
            if (run < of_run) return;
            at -= coordinates[last] * strides[last];
            coordinates[last] = 0;
            for (std::size_t d = last; d-- > 0;) {
                at += strides[d];
                if (++coordinates[d] < of_.lengths[d]) break;
                at -= of_.lengths[d] * strides[d];
                coordinates[d] = 0;
            }
        }
    }
    void read_dense(std::size_t input, std::size_t at, std::size_t size) {
        if (of_.from_type[input] == own_type) {
            values_[input] = static_cast<const Number*>(of_.from[input]) + at;
        } else {
            values_[input] = memory_[input];
            read_run(input, at, 1, size, memory_[input]);
        }
    }
    void read_run(std::size_t input, std::size_t at, std::size_t stride, std::size_t size, Number* to) const {
        const void* const from = of_.from[input];
        const io::dtype type = of_.from_type[input];
        if (stride == 0 && type == own_type) {
            std::fill_n(to, size, static_cast<const Number*>(from)[at]);
        } else if (stride == 0) {
            std::fill_n(to, size, load_number<Number>(from, type, at));
        } else if (stride == 1 && type == own_type) {
            std::copy_n(static_cast<const Number*>(from) + at, size, to);
        } else if (const auto loop = loops_.read[static_cast<std::size_t>(type)]; stride == 1 && loop != nullptr) {
            loop(static_cast<const std::byte*>(from) + at * io::size_of(type), to, size);
        } else {
            for (std::size_t i = 0; i < size; ++i) to[i] = load_number<Number>(from, type, at + i * stride);
        }
    }

    void write(std::size_t output, std::size_t first, std::size_t size) const {
        const Number* const made = values_[of_.to_register[output]];
        const io::dtype type = of_.to_type[output];
        void* const to = static_cast<std::byte*>(of_.to[output]) + first * io::size_of(type);
        if (type == own_type) {
            if (made != to) std::copy_n(made, size, static_cast<Number*>(to));
        } else if (const auto loop = loops_.write[static_cast<std::size_t>(type)]; loop != nullptr) {
            loop(made, to, size);
        } else {
            for (std::size_t i = 0; i < size; ++i) store_number<Number>(to, type, i, made[i]);
        }
    }

    template <opcode What>
    static void each_step(const Number* a, Number* made, std::size_t size) {
        for (std::size_t i = 0; i < size; ++i) made[i] = apply_step<Number>(What, a[i], a[i], a[i]);
    }
    void apply(opcode what, const Number* a, const Number* b, const Number* c, Number* made, std::size_t size) const {
        if (const auto loop = loops_.steps[static_cast<std::size_t>(what)]; loop != nullptr)
            return loop(a, b, c, made, size);
        if constexpr (std::is_same_v<Number, float>) {
            switch (what) {
                case opcode::exponential: return math_.exponential(a, made, size);
                case opcode::sigmoid: return math_.sigmoid(a, made, size);
                case opcode::hyperbolic_tangent: return math_.hyperbolic_tangent(a, made, size);
                case opcode::error_function: return math_.error_function(a, made, size);
                case opcode::logarithm: return math_.logarithm(a, made, size);
                case opcode::softplus: return math_.softplus(a, made, size);
                case opcode::sine: return math_.sine(a, made, size);
                case opcode::cosine: return math_.cosine(a, made, size);
                case opcode::arctangent: return math_.arctangent(a, made, size);
                case opcode::power: return math_.power(a, b, made, size);
                default: break;
            }
        } else if constexpr (is_real<Number>) {
            switch (what) {
                case opcode::exponential: return each_step<opcode::exponential>(a, made, size);
                case opcode::sigmoid: return each_step<opcode::sigmoid>(a, made, size);
                case opcode::hyperbolic_tangent: return each_step<opcode::hyperbolic_tangent>(a, made, size);
                default: break;
            }
        }
        for (std::size_t i = 0; i < size; ++i) made[i] = apply_step<Number>(what, a[i], b[i], c[i]);
    }

    const expression_program& of_;
    const number_loops<Number>& loops_ = expression_loops_of_this_processor().of<Number>();
    const kernels::vector_math& math_ = kernels::vector_math_of_this_processor();
    const Number* values_[registers];
    bool is_one_[expression_program::max_inputs];  // it has one element, which is read once
    // The memory of the input has this element everywhere.
    bool is_filled_[expression_program::max_inputs] = {};
    std::size_t filled_from_[expression_program::max_inputs] = {};
    bool is_same_[registers] = {};  // the values are in memory_, and those of the block before
    bool has_block_before_ = false;
    Number memory_[registers][expression_block];
};

}  // namespace

template <typename Number>
void compute_on_cpu(const expression_program& program, std::size_t first_block, std::size_t last_block) {
    block_program<Number> of(program);
    for (std::size_t block = first_block; block < last_block; ++block) of(block);
}

template void compute_on_cpu<float>(const expression_program&, std::size_t, std::size_t);
template void compute_on_cpu<double>(const expression_program&, std::size_t, std::size_t);
template void compute_on_cpu<std::int64_t>(const expression_program&, std::size_t, std::size_t);
template void compute_on_cpu<std::uint64_t>(const expression_program&, std::size_t, std::size_t);

}  // namespace sluice::nn::operators
