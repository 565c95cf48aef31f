// SPDX-License-Identifier: Apache-2.0
// Which values the host needs.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "nn/passes/passes.hpp"
#include "nn/passes/steps.hpp"

namespace sluice::nn::detail {
namespace {

// How the values of a node and of its inner graph belong together.
class inner_values {
public:
    static constexpr std::size_t none = ~std::size_t{0};

    explicit inner_values(const step& of) : op_(of.from->domain.empty() ? of.from->op : std::string()) {
        if (op_ != "Scan") return;
        const auto* const scanned = of.from->find<std::int64_t>("num_scan_inputs");
        first_ = of.opset < 9 ? 1 : 0;
        const std::size_t count = of.inputs.size() - std::min(first_, of.inputs.size());
        const auto slices = scanned != nullptr && *scanned >= 0 ? static_cast<std::size_t>(*scanned) : count;
        states_ = count - std::min(slices, count);
    }

    // Whether the rest is known.
    bool are_known() const noexcept { return op_ == "If" || op_ == "Loop" || op_ == "Scan"; }
    // The output of the inner graph that becomes this output of the node.
    std::size_t inner_output(std::size_t output) const noexcept { return op_ == "Loop" ? output + 1 : output; }
    // The input of the node that this input of the inner graph comes from, at first.
    std::size_t outer_input(std::size_t input) const noexcept {
        if (op_ == "Scan") return input + first_;
        return op_ == "Loop" && input >= 1 ? input : none;
    }
    // The output of the inner graph that this input of it comes from in the next round.
    std::size_t carried_output(std::size_t input) const noexcept {
        if (op_ == "Loop" && input >= 1) return input - 1;
        return op_ == "Scan" && input < states_ ? input : none;
    }
    // The output that says whether there is another round.
    std::size_t condition() const noexcept { return op_ == "Loop" ? 0 : none; }

private:
    std::string op_;
    std::size_t first_ = 0, states_ = 0;
};

// What a node with inner graphs needs on the host: only some of its outputs may be needed there, and only what these
// come from is computed there. So the node itself is not on the host; steps of its inner graphs are.
void find_inner_host_values(step& each, std::vector<bool>& needed) {
    const inner_values values(each);
    const auto is_needed = [&](std::size_t output) {
        return each.outputs[output] != no_slot && needed[each.outputs[output]];
    };
    for (const auto& [body, inner] : each.inner) {
        const auto need_output = [&](std::size_t i) {
            if (i >= inner->outputs.size() || inner->needed_on_host[inner->outputs[i]]) return false;
            inner->needed_on_host[inner->outputs[i]] = true;
            return true;
        };
        for (std::size_t i = 0; i < each.outputs.size(); ++i) {
            if (!is_needed(i)) continue;
            if (values.are_known()) {
                need_output(values.inner_output(i));
            } else {
                for (std::size_t k = 0; k < inner->outputs.size(); ++k) need_output(k);
            }
        }
        need_output(values.condition());
        // What is needed of one round's inputs is needed of the outputs of the round before.
        for (bool is_changed = true; is_changed;) {
            find_host_values(*inner);
            is_changed = false;
            for (std::size_t i = 0; i < inner->inputs.size(); ++i)
                if (inner->needed_on_host[inner->inputs[i]] && need_output(values.carried_output(i))) is_changed = true;
        }
        for (const auto& one : inner->captures)
            if (inner->needed_on_host[one.inside]) needed[one.outside] = true;
        for (std::size_t i = 0; i < inner->inputs.size(); ++i) {
            if (!inner->needed_on_host[inner->inputs[i]]) continue;
            if (values.are_known()) {
                const std::size_t from = values.outer_input(i);
                if (from < each.inputs.size() && each.inputs[from] != no_slot) needed[each.inputs[from]] = true;
            } else {
                for (const slot one : each.inputs)
                    if (one != no_slot) needed[one] = true;
            }
        }
    }
}

}  // namespace

void find_host_values(prepared_graph& in) {
    auto& needed = in.needed_on_host;
    for (std::size_t i = in.steps.size(); i-- > 0;) {
        step& each = in.steps[i];
        each.is_on_host = (each.inner.empty() || !inner_values(each).are_known()) &&
                          (each.what->host_inputs == operators::all ||
                           std::ranges::any_of(each.outputs, [&](slot one) { return one != no_slot && needed[one]; }));
        for (std::size_t k = 0; k < each.inputs.size(); ++k) {
            if (each.inputs[k] == no_slot || takes_shape_only(each, k)) continue;
            if (each.is_on_host || takes_on_host(each, k)) needed[each.inputs[k]] = true;
        }
        if (!each.inner.empty()) find_inner_host_values(each, needed);
    }
}

}  // namespace sluice::nn::detail
