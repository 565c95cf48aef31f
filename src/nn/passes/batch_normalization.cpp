// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "nn/operators/table.hpp"
#include "nn/passes/passes.hpp"
#include "nn/passes/steps.hpp"

namespace sluice::nn::detail {
namespace {

using operators::lengths;

class folding {
public:
    explicit folding(prepared_graph& in) : in_(in), readers_(only_readers(in)), givers_(givers(in)) {}

    void fold_all() {
        std::vector<bool> is_left(in_.steps.size(), true);
        for (std::size_t i = 0; i < in_.steps.size(); ++i) {
            if (const auto numbers = numbers_of(in_.steps[i])) is_left[i] = !fold(i, *numbers);
        }
        std::size_t next = 0;
        std::erase_if(in_.steps, [&](const step&) { return !is_left[next++]; });
    }

private:
    // y = factor * x + addend, for each channel.
    struct channel_numbers {
        std::vector<double> factor, addend;
    };

    std::optional<channel_numbers> numbers_of(const step& of) const {
        if (!is(of, "BatchNormalization") || of.opset < 7 || of.outputs.size() != 1 || of.is_on_host) return {};
        if (integer(of, "spatial", 1) == 0 || integer(of, "training_mode", 0) != 0) return {};
        std::array<std::span<const float>, 4> given;  // scale, bias, mean, variance
        for (std::size_t i = 0; i < 4; ++i) {
            const any_tensor* const each = constant_input(in_, of, i + 1);
            if (each == nullptr || each->shape().size() != 1) return {};
            given[i] = each->values<float>();
            if (given[i].size() != given[0].size()) return {};  // the operator refuses it
        }
        constexpr double most = std::numeric_limits<float>::max();
        const double epsilon = real(of, "epsilon", 1e-5f);
        channel_numbers made;
        for (std::size_t c = 0; c < given[0].size(); ++c) {
            const double factor = given[0][c] / std::sqrt(given[3][c] + epsilon);
            made.factor.push_back(factor);
            made.addend.push_back(given[1][c] - given[2][c] * factor);
            // Infinity and NaN are left to the operator.
            if (!(std::abs(made.factor.back()) < most) || !(std::abs(made.addend.back()) < most)) return {};
        }
        return made;
    }

    // Whether nothing is left of the normalization.
    bool fold(std::size_t at, const channel_numbers& numbers) {
        step& normalization = in_.steps[at];
        const slot from = normalization.inputs[0], made = normalization.outputs[0];
        if (givers_[from] != no_step && readers_[from] == at && fold_into(in_.steps[givers_[from]], numbers)) {
            in_.steps[givers_[from]].outputs = {made};
            in_.steps[givers_[from]].also.push_back(normalization.from);
            givers_[made] = givers_[from];
            return true;
        }
        normalization.what = &operators::folded_batch_normalization();
        normalization.inputs.resize(1);
        for (const auto& each : {numbers.factor, numbers.addend}) {
            const std::vector<float> rounded(each.begin(), each.end());
            normalization.inputs.push_back(add_constant(in_, any_tensor(rounded, {each.size()})));
            normalization.inputs.push_back(add_constant(in_, any_tensor(each, {each.size()})));
        }
        return false;
    }

    bool fold_into(step& to, const channel_numbers& numbers) {
        if (to.is_on_host || to.outputs.size() != 1) return false;
        return is(to, "Conv") ? fold_into_filters(to, numbers) : is(to, "Gemm") && fold_into_product(to, numbers);
    }

    bool fold_into_filters(step& to, const channel_numbers& numbers) {
        const any_tensor* const filters = constant_input(in_, to, 1);
        if (filters == nullptr || filters->shape().size() < 3) return false;
        const std::size_t count = filters->shape()[0];
        if (count != numbers.factor.size() || count == 0) return false;
        const std::size_t size = filters->elements() / count;
        return scale(to, *filters, [=](std::size_t i) { return i / size; }, numbers);
    }
    bool fold_into_product(step& to, const channel_numbers& numbers) {
        const any_tensor* const weights = constant_input(in_, to, 1);
        if (weights == nullptr || weights->shape().size() != 2 || real(to, "alpha", 1) != 1 || real(to, "beta", 1) != 1)
            return false;
        const bool is_transposed = integer(to, "transB", 0) != 0;
        const std::size_t columns = weights->shape()[is_transposed ? 0 : 1], inner = weights->shape()[1];
        if (columns != numbers.factor.size() || weights->elements() == 0) return false;
        return is_transposed ? scale(
                                   to, *weights, [=](std::size_t i) { return i / inner; }, numbers)
                             : scale(to, *weights, [=](std::size_t i) { return i % columns; }, numbers);
    }

    // The weights of each channel times its factor; the bias likewise, and the addend.
    template <typename Channel>
    bool scale(step& to, const any_tensor& weights, const Channel& channel_of, const channel_numbers& numbers) {
        std::vector<float> bias(numbers.addend.begin(), numbers.addend.end());
        if (to.inputs.size() > 2 && to.inputs[2] != no_slot) {
            const any_tensor* const given = constant_input(in_, to, 2);
            if (given == nullptr || given->shape() != lengths{bias.size()}) return false;
            for (std::size_t c = 0; c < bias.size(); ++c)
                bias[c] = static_cast<float>(given->values<float>()[c] * numbers.factor[c] + numbers.addend[c]);
        }
        std::vector<float> scaled(weights.elements());
        for (std::size_t i = 0; i < scaled.size(); ++i)
            scaled[i] = static_cast<float>(weights.values<float>()[i] * numbers.factor[channel_of(i)]);
        // Too large for one number where the two that follow each other may not be: left to the operator.
        const auto is_finite = [](float each) { return std::isfinite(each); };
        if (!std::ranges::all_of(scaled, is_finite) || !std::ranges::all_of(bias, is_finite)) return false;
        to.inputs.resize(3, no_slot);
        to.inputs[1] = add_constant(in_, any_tensor(scaled, weights.shape()));
        to.inputs[2] = add_constant(in_, any_tensor(bias, {bias.size()}));
        return true;
    }

    prepared_graph& in_;
    const std::vector<std::size_t> readers_;
    std::vector<std::size_t> givers_;
};

}  // namespace

void fold_batch_normalizations(prepared_graph& in) {
    folding(in).fold_all();
    for (step& each : in.steps)
        for (const auto& [from, inner] : each.inner) fold_batch_normalizations(*inner);
}

}  // namespace sluice::nn::detail
