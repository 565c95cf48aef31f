// SPDX-License-Identifier: Apache-2.0
#include "nn/passes/gelu_nodes.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "nn/passes/steps.hpp"

namespace sluice::nn::detail {
namespace {

class gelu_search {
public:
    gelu_search(const prepared_graph& in, std::span<const std::size_t> only, slot x) : in_(in), only_(only), x_(x) {}

    std::vector<std::size_t> find() const {
        if (in_.needed_on_host[x_] || std::ranges::find(in_.outputs, x_) != in_.outputs.end()) return {};
        std::vector<std::size_t> readers;
        for (std::size_t i = 0; i < in_.steps.size(); ++i) {
            const step& each = in_.steps[i];
            for (const auto& [from, inner] : each.inner)
                if (std::ranges::find(inner->captures, x_, &prepared_graph::capture::outside) != inner->captures.end())
                    return {};
            if (std::ranges::find(each.inputs, x_) != each.inputs.end()) readers.push_back(i);
        }
        if (readers.size() != 2) return {};
        std::vector<std::size_t> found = from(readers[0], readers[1]);
        return found.empty() ? from(readers[1], readers[0]) : found;
    }

private:
    // Whether the step is this operation of the value and a constant number.
    bool is_by(std::size_t at, std::string_view op, slot value, double number) const {
        const step& of = in_.steps[at];
        if (!is(of, op) || of.opset < 7 || of.is_on_host || of.inputs.size() != 2) return false;
        for (const std::size_t other : {std::size_t{1}, std::size_t{0}}) {
            if (of.inputs[1 - other] != value || (other == 0 && op == "Div")) continue;
            const any_tensor* const by = constant_input(in_, of, other);
            if (by != nullptr && by->elements() == 1 && by->shape().size() <= 1 &&
                std::abs(double{by->values<float>()[0]} - number) < 1e-6 * number) {
                return true;
            }
        }
        return false;
    }
    bool is_product(std::size_t at, slot a, slot b) const {
        const step& of = in_.steps[at];
        return is(of, "Mul") && of.opset >= 7 && !of.is_on_host &&
               ((of.inputs[0] == a && of.inputs[1] == b) || (of.inputs[0] == b && of.inputs[1] == a));
    }
    // The only step that reads what this one gives, or no_step.
    std::size_t next(std::size_t at) const {
        const std::size_t found = only_[made_by(at)];
        return found == several_steps || in_.needed_on_host[made_by(at)] ? no_step : found;
    }
    slot made_by(std::size_t at) const { return in_.steps[at].outputs[0]; }

    // x is divided by `divided` and multiplied by `multiplied`.
    std::vector<std::size_t> from(std::size_t divided, std::size_t multiplied) const {
        const double root = std::sqrt(2.0);
        if (!is_by(divided, "Div", x_, root) && !is_by(divided, "Mul", x_, 1 / root)) return {};
        const std::size_t erf = next(divided);
        if (erf == no_step || !is(in_.steps[erf], "Erf") || in_.steps[erf].is_on_host) return {};
        const std::size_t sum = next(erf);
        if (sum == no_step || !is_by(sum, "Add", made_by(erf), 1)) return {};
        const std::size_t after = next(sum);
        if (after == no_step) return {};
        if (after == multiplied) {
            const std::size_t last = next(after);
            if (last == no_step || !is_product(after, x_, made_by(sum)) || !is_by(last, "Mul", made_by(after), 0.5))
                return {};
            return {divided, erf, sum, after, last};
        }
        if (!is_by(after, "Mul", made_by(sum), 0.5) || next(after) != multiplied ||
            !is_product(multiplied, x_, made_by(after))) {
            return {};
        }
        return {divided, erf, sum, after, multiplied};
    }

    const prepared_graph& in_;
    const std::span<const std::size_t> only_;
    const slot x_;
};

}  // namespace

std::vector<std::size_t> gelu_nodes_of(const prepared_graph& in, std::span<const std::size_t> only, slot x) {
    return gelu_search(in, only, x).find();
}

}  // namespace sluice::nn::detail
