// SPDX-License-Identifier: Apache-2.0
// One step of an optimizer (ai.onnx.preview.training). The inputs are the learning rate, the number of steps so far,
// and then for each kind of tensor (variables, gradients, what is kept of earlier ones) all tensors of that kind.
#include "nn/operators/expression.hpp"

#include <string>

#include "nn/operators/table.hpp"

namespace sluice::nn::operators {
namespace {

constexpr std::string_view training_domain = "ai.onnx.preview.training";

// One tensor's part of the work.
class optimizer_step {
public:
    // `kinds` kinds of tensors come in; all but the gradients go out.
    optimizer_step(node_call& in, std::size_t kinds, std::size_t which)
        : in_(in), count_((in.input_count() - 2) / kinds), which_(which) {}

    static std::size_t tensors(const node_call& in, std::size_t kinds) {
        const std::size_t given = in.input_count() - 2;
        if (given == 0 || given % kinds != 0)
            in.refuse("has " + std::to_string(given) + " tensors; it takes " + std::to_string(kinds) +
                      " for each variable");
        if (in.output_count() != given / kinds * (kinds - 1))
            in.refuse("has " + std::to_string(in.output_count()) + " outputs for " + std::to_string(given / kinds) +
                      " variables");
        return given / kinds;
    }

    const any_tensor& tensor(std::size_t kind) const {
        const any_tensor& found = in_.input(2 + kind * count_ + which_);
        if (found.shape() != in_.input(2 + which_).shape())
            in_.refuse_shapes("has a variable and a tensor for it that do not fit: " +
                              to_string(in_.input(2 + which_)) + " and " + to_string(found));
        if (!is_float(found.type())) in_.refuse_type(found);
        return found;
    }
    any_tensor number(std::size_t input) const {
        if (in_.input(input).elements() != 1)
            in_.refuse("takes the learning rate and the number of steps as numbers, and is given " +
                       to_string(in_.input(input)));
        return in_.input(input).with_shape({});
    }
    // The output that is a kind's new tensor. Kinds that go out are counted without the gradients, of kind 1.
    std::size_t output(std::size_t kind) const { return (kind == 0 ? 0 : kind - 1) * count_ + which_; }

private:
    node_call& in_;
    std::size_t count_, which_;
};

// The gradient and that of norm_coefficient / 2 * |x|^2.
expression::value regularized(const node_call& in, expression& e, expression::value x, expression::value gradient) {
    const float coefficient = in.real("norm_coefficient", 0);
    if (coefficient == 0) return gradient;
    return e.apply(opcode::add, e.apply(opcode::multiply, x, e.constant(coefficient)), gradient);
}

void adagrad(node_call& in) {
    const std::size_t count = optimizer_step::tensors(in, 3);
    for (std::size_t i = 0; i < count; ++i) {
        const optimizer_step step(in, 3, i);
        expression e(in);
        const auto rate = e.input(step.number(0)), steps = e.input(step.number(1)), x = e.input(step.tensor(0)),
                   gradient = e.input(step.tensor(1)), squares = e.input(step.tensor(2));
        const auto slope = regularized(in, e, x, gradient);
        const auto one = e.constant(1), decay = e.constant(in.real("decay_factor", 0));
        const auto own_rate =
            e.apply(opcode::divide, rate, e.apply(opcode::add, one, e.apply(opcode::multiply, steps, decay)));
        const auto sum = e.apply(opcode::add, squares, e.apply(opcode::multiply, slope, slope));
        const auto root =
            e.apply(opcode::add, e.apply(opcode::square_root, sum), e.constant(in.real("epsilon", 1e-6f)));
        const auto change = e.apply(opcode::divide, e.apply(opcode::multiply, own_rate, slope), root);
        e.give(step.output(0), step.tensor(0).type(), e.apply(opcode::subtract, x, change));
        e.give(step.output(2), step.tensor(2).type(), sum);
        e.run();
    }
}

void momentum(node_call& in) {
    const std::string mode = in.text("mode", "");
    if (mode != "standard" && mode != "nesterov")
        in.refuse("has the mode '" + mode + "'; 'standard' and 'nesterov' are possible");
    const std::size_t count = optimizer_step::tensors(in, 3);
    for (std::size_t i = 0; i < count; ++i) {
        const optimizer_step step(in, 3, i);
        expression e(in);
        const auto rate = e.input(step.number(0)), steps = e.input(step.number(1)), x = e.input(step.tensor(0)),
                   gradient = e.input(step.tensor(1)), before = e.input(step.tensor(2));
        const auto slope = regularized(in, e, x, gradient);
        const auto alpha = e.constant(in.real("alpha", 0));
        const auto is_later = e.apply(opcode::less, e.constant(0), steps);
        const auto beta = e.apply(opcode::choose, is_later, e.constant(in.real("beta", 0)), e.constant(1));
        const auto now =
            e.apply(opcode::add, e.apply(opcode::multiply, before, alpha), e.apply(opcode::multiply, slope, beta));
        const auto direction =
            mode == "standard" ? now : e.apply(opcode::add, slope, e.apply(opcode::multiply, now, alpha));
        e.give(step.output(0), step.tensor(0).type(),
               e.apply(opcode::subtract, x, e.apply(opcode::multiply, rate, direction)));
        e.give(step.output(2), step.tensor(2).type(), now);
        e.run();
    }
}

void adam(node_call& in) {
    const std::size_t count = optimizer_step::tensors(in, 4);
    const double alpha = in.real("alpha", 0.9f), beta = in.real("beta", 0.999f);
    for (std::size_t i = 0; i < count; ++i) {
        const optimizer_step step(in, 4, i);
        const any_tensor &x = step.tensor(0), &gradient = step.tensor(1), &mean = step.tensor(2),
                         &squares = step.tensor(3);
        // An expression has two outputs, and there are three: first the averages.
        const any_tensor new_mean = in.make_output(step.output(2), mean.type(), mean.shape());
        const any_tensor new_squares = in.make_output(step.output(3), squares.type(), squares.shape());
        expression averages(in);
        {
            auto& e = averages;
            const auto own = e.input(x), change = e.input(gradient), before = e.input(mean), below = e.input(squares);
            const auto slope = regularized(in, e, own, change);
            e.give(new_mean, e.apply(opcode::add, e.apply(opcode::multiply, before, e.constant(alpha)),
                                     e.apply(opcode::multiply, slope, e.constant(1 - alpha))));
            e.give(new_squares,
                   e.apply(opcode::add, e.apply(opcode::multiply, below, e.constant(beta)),
                           e.apply(opcode::multiply, e.apply(opcode::multiply, slope, slope), e.constant(1 - beta))));
            e.run();
        }
        // The rate: R * sqrt(1 - beta^T) / (1 - alpha^T), and R in the first step.
        const any_tensor rates = in.make(io::dtype::f64, {});
        {
            expression e(in);
            const auto rate = e.input(step.number(0)), steps = e.input(step.number(1));
            const auto one = e.constant(1);
            const auto above = e.apply(opcode::square_root,
                                       e.apply(opcode::subtract, one, e.apply(opcode::power, e.constant(beta), steps)));
            const auto below = e.apply(opcode::subtract, one, e.apply(opcode::power, e.constant(alpha), steps));
            const auto adjusted = e.apply(opcode::divide, e.apply(opcode::multiply, rate, above), below);
            e.give(rates, e.apply(opcode::choose, e.apply(opcode::less, e.constant(0), steps), adjusted, rate));
            e.run();
        }
        expression e(in);
        const auto own = e.input(x), direction = e.input(new_mean), below = e.input(new_squares), rate = e.input(rates);
        const auto root =
            e.apply(opcode::add, e.apply(opcode::square_root, below), e.constant(in.real("epsilon", 1e-6f)));
        const auto moved =
            e.apply(opcode::subtract, own, e.apply(opcode::divide, e.apply(opcode::multiply, rate, direction), root));
        const float decay = in.real("norm_coefficient_post", 0);
        e.give(step.output(0), x.type(), e.apply(opcode::multiply, moved, e.constant(1 - static_cast<double>(decay))));
        e.run();
    }
}

definition optimizer(std::string_view name, std::vector<std::string_view> attributes, void (*run)(node_call&)) {
    return {.name = name,
            .least_inputs = 5,
            .most_inputs = any_number,
            .most_outputs = any_number,
            .attributes = std::move(attributes),
            .run = run,
            .domain = training_domain};
}

}  // namespace

std::span<const definition> optimizers() {
    static const std::vector<definition> known = {
        optimizer("Adagrad", {"decay_factor", "epsilon", "norm_coefficient"}, &adagrad),
        optimizer("Adam", {"alpha", "beta", "epsilon", "norm_coefficient", "norm_coefficient_post"}, &adam),
        optimizer("Momentum", {"alpha", "beta", "mode", "norm_coefficient"}, &momentum),
    };
    return known;
}

}  // namespace sluice::nn::operators
