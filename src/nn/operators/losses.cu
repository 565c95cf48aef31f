// SPDX-License-Identifier: Apache-2.0
// Losses: how far scores of classes are from the classes that they should be.
#include <string>
#include <vector>

#include "nn/operators/expression.hpp"
#include "nn/operators/launch_each.hpp"
#include "nn/operators/number_checks.hpp"
#include "nn/operators/numbers.hpp"
#include "nn/operators/reduce.hpp"
#include "nn/operators/table.hpp"

namespace sluice::nn::operators {
namespace {

// Index i is a sample. Its loss is minus the logarithm of its class's probability, times the class's weight. A class
// that there is not, and is not the one that is ignored, is refused (number_checks.hpp); where a
// refusal is not possible, it gives NaN.
struct sample_loss_kernel {
    const void* logarithms;  // [batch, classes, others]
    const void* targets;     // [batch, others]
    const void* weights;     // [classes]; null: all are 1
    void* losses;
    void* applied;  // the weights of the samples; null: not wanted
    in_word<io::dtype> logarithm_type, target_type, weight_type, loss_type, applied_type;
    in_word<bool> has_ignored;
    std::int64_t ignored;
    std::size_t classes, others;

    SLUICE_KERNEL void operator()(std::size_t i) const {
        const std::int64_t target = load_number<std::int64_t>(targets, target_type, i);
        double loss = 0, weight = 0;
        if (!has_ignored || target != ignored) {
            if (target < 0 || static_cast<std::uint64_t>(target) >= classes) {
                loss = weight = not_a_number;
            } else {
                const auto which = static_cast<std::size_t>(target);
                const std::size_t at = (i / others * classes + which) * others + i % others;
                weight = weights != nullptr ? load_number<double>(weights, weight_type, which) : 1;
                loss = -load_number<double>(logarithms, logarithm_type, at) * weight;
            }
        }
        store_number<double>(losses, loss_type, i, loss);
        if (applied != nullptr) store_number<double>(applied, applied_type, i, weight);
    }
};

// The operator's output 0, of this type, from logarithms of probabilities.
void write_loss(node_call& in, const any_tensor& logarithms, io::dtype type) {
    const any_tensor& targets = in.input(1);
    const lengths& shape = logarithms.shape();
    if (targets.type() != io::dtype::i32 && targets.type() != io::dtype::i64) in.refuse_type(targets);
    lengths of_samples{shape[0]};
    of_samples.insert(of_samples.end(), shape.begin() + 2, shape.end());
    if (targets.shape() != of_samples)
        in.refuse_shapes("has the scores " + to_string(logarithms) + " and the targets " + to_string(targets) +
                         ", which do not fit");
    const std::size_t classes = shape[1], others = product_of(std::span(shape).subspan(2));
    const any_tensor weights = in.has_input(2) ? in.input(2) : any_tensor();
    if (weights) {
        if (!is_float(weights.type())) in.refuse_type(weights);
        if (weights.shape() != lengths{classes})
            in.refuse_shapes("has " + std::to_string(classes) + " classes, and the weights are " + to_string(weights));
    }
    const std::string kind = in.text("reduction", "mean");
    if (kind != "none" && kind != "sum" && kind != "mean")
        in.refuse("has the reduction '" + kind + "'; 'none', 'sum' and 'mean' are possible");
    const bool has_ignored = in.has("ignore_index"), is_single = kind == "none";
    // The mean is divided by the sum of the weights.
    const bool is_weighted_mean = kind == "mean" && (has_ignored || weights);
    const any_tensor result = in.make_output(0, type, is_single ? of_samples : lengths{});
    const any_tensor losses = is_single ? result : in.make(io::dtype::f64, of_samples);
    const any_tensor applied = is_weighted_mean ? in.make(io::dtype::f64, of_samples) : any_tensor();
    number_rule rule({0, static_cast<std::int64_t>(classes) - 1}, "label");
    if (has_ignored) rule.also = in.integer("ignore_index", 0);
    require_numbers(in, 1, rule, losses);
    const sample_loss_kernel kernel{.logarithms = in.read<void>(logarithms),
                                    .targets = in.read<void>(targets),
                                    .weights = weights ? in.read<void>(weights) : nullptr,
                                    .losses = in.write<void>(losses),
                                    .applied = applied ? in.write<void>(applied) : nullptr,
                                    .logarithm_type = logarithms.type(),
                                    .target_type = targets.type(),
                                    .weight_type = weights ? weights.type() : type,
                                    .loss_type = losses.type(),
                                    .applied_type = io::dtype::f64,
                                    .has_ignored = has_ignored,
                                    .ignored = in.integer("ignore_index", 0),
                                    .classes = classes,
                                    .others = others};
    each(in, losses.elements(), kernel, {&logarithms, &targets, weights ? &weights : &targets},
         {&losses, applied ? &applied : &losses});
    if (is_single) return;
    std::vector<std::size_t> axes;
    for (std::size_t d = 0; d < of_samples.size(); ++d) axes.push_back(d);
    if (!is_weighted_mean) {
        const auto finish = kind == "mean" ? reduction_finish::mean : reduction_finish::nothing;
        return reduce(in, reduction::sum, losses, axes, result, {.finish = finish});
    }
    const any_tensor total = in.make(io::dtype::f64, {}), weight = in.make(io::dtype::f64, {});
    reduce(in, reduction::sum, losses, axes, total);
    reduce(in, reduction::sum, applied, axes, weight);
    expression e(in);
    const auto above = e.input(total), below = e.input(weight);
    e.give(result, e.apply(opcode::divide, above, below));
    e.run();
}

const any_tensor& scores_of(const node_call& in) {
    const any_tensor& scores = in.input(0);
    if (!is_float(scores.type())) in.refuse_type(scores);
    if (scores.shape().size() < 2)
        in.refuse_shapes("takes a batch of scores of classes, and is given " + to_string(scores));
    return scores;
}

void negative_log_likelihood_loss(node_call& in) {
    const any_tensor& scores = scores_of(in);
    write_loss(in, scores, scores.type());
}

void softmax_cross_entropy_loss(node_call& in) {
    const any_tensor& scores = scores_of(in);
    const auto type = scores.type() == io::dtype::f64 ? io::dtype::f64 : io::dtype::f32;
    const std::vector<std::size_t> axes{1};
    const any_tensor greatest = in.make(type, kept_lengths(scores.shape(), axes)),
                     sum = in.make(type, kept_lengths(scores.shape(), axes));
    reduce(in, reduction::maximum, scores, axes, greatest);
    reduce(in, reduction::exponential_sum, scores, axes, sum, {.centre = &greatest});
    expression e(in);
    const auto own = e.input(scores), most = e.input(greatest), total = e.input(sum);
    const auto made =
        e.apply(opcode::subtract, e.apply(opcode::subtract, own, most), e.apply(opcode::logarithm, total));
    const any_tensor logarithms = in.make(type, scores.shape());
    e.give(logarithms, made);
    if (in.wants_output(1)) e.give(1, scores.type(), made);
    e.run();
    write_loss(in, logarithms, scores.type());
}

}  // namespace

std::span<const definition> losses() {
    static const std::vector<definition> known = {
        {"NegativeLogLikelihoodLoss", 2, 3, 1, {"ignore_index", "reduction"}, &negative_log_likelihood_loss},
        {"SoftmaxCrossEntropyLoss", 2, 3, 2, {"ignore_index", "reduction"}, &softmax_cross_entropy_loss},
    };
    return known;
}

}  // namespace sluice::nn::operators
