// SPDX-License-Identifier: Apache-2.0
#include "nn/passes/fixed_part.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "nn/passes/steps.hpp"

namespace sluice::nn::detail {
namespace {

class fixed_part_search {
public:
    explicit fixed_part_search(const prepared_graph& in)
        : in_(in),
          givers_(givers(in)),
          has_numbers_(in.slots, false),
          is_dependent_(in.slots, false),
          is_taken_(in.steps.size(), false) {
        for (const slot each : in.inputs) has_numbers_[each] = !in.constants.contains(each);
        for (const step& each : in.steps) follow(each);
        for (std::size_t i = in.steps.size(); i-- > 0;)
            if (in.steps[i].is_on_host && computes(in.steps[i]) && !gives(in.steps[i], is_dependent_)) take(i);
        // What is computed of the shapes of these needs only them.
        for (std::size_t i = 0; i < in.steps.size(); ++i)
            if (in.steps[i].is_on_host && !gives(in.steps[i], is_dependent_) && reads_taken(in.steps[i]))
                is_taken_[i] = true;
    }

    const std::vector<bool>& taken() const noexcept { return is_taken_; }

    // With the others that they need, which stay in the network too.
    std::vector<std::size_t> with_shared() const {
        std::vector<bool> is_needed = is_taken_;
        for (std::size_t i = in_.steps.size(); i-- > 0;) {
            if (!is_needed[i]) continue;
            for (const slot each : in_.steps[i].inputs)
                if (each != no_slot && givers_[each] != no_step) is_needed[givers_[each]] = true;
        }
        std::vector<std::size_t> made;
        for (std::size_t i = 0; i < is_needed.size(); ++i)
            if (is_needed[i]) made.push_back(i);
        return made;
    }

private:
    // Whether outputs depend on the numbers of inputs of the network, and whether their shapes do. What an operator of
    // the user, a graph of a step, or chance gives counts as the latter: such steps stay where they are.
    void follow(const step& of) {
        bool is_dependent = of.what->is_random || of.what->own != nullptr || !of.inner.empty(), has_numbers = false;
        for (std::size_t i = 0; i < of.inputs.size(); ++i) {
            const slot each = of.inputs[i];
            if (each == no_slot) continue;
            is_dependent = is_dependent || is_dependent_[each] || (takes_on_host(of, i) && has_numbers_[each]);
            has_numbers = has_numbers || (has_numbers_[each] && !takes_shape_only(of, i));
        }
        for (const slot each : of.outputs) {
            if (each == no_slot) continue;
            is_dependent_[each] = is_dependent;
            has_numbers_[each] = has_numbers || is_dependent;
        }
    }
    static bool gives(const step& of, const std::vector<bool>& values) {
        return std::ranges::any_of(of.outputs, [&](slot one) { return one != no_slot && values[one]; });
    }
    bool computes(const step& of) const { return gives(of, has_numbers_); }
    bool reads_taken(const step& of) const {
        return std::ranges::any_of(
            of.inputs, [&](slot one) { return one != no_slot && givers_[one] != no_step && is_taken_[givers_[one]]; });
    }
    // With those that it depends on and that compute too. They come before it.
    void take(std::size_t at) {
        std::vector<std::size_t> open{at};
        while (!open.empty()) {
            const std::size_t next = open.back();
            open.pop_back();
            if (is_taken_[next]) continue;
            is_taken_[next] = true;
            for (const slot each : in_.steps[next].inputs) {
                const std::size_t giver = each != no_slot ? givers_[each] : no_step;
                if (giver != no_step && computes(in_.steps[giver])) open.push_back(giver);
            }
        }
    }

    const prepared_graph& in_;
    const std::vector<std::size_t> givers_;
    std::vector<bool> has_numbers_, is_dependent_;  // of slots
    std::vector<bool> is_taken_;                    // of steps
};

}  // namespace

std::optional<prepared_graph> take_fixed_part(prepared_graph& in) {
    const fixed_part_search search(in);
    if (std::ranges::none_of(search.taken(), [](bool is_taken) { return is_taken; })) return {};
    prepared_graph made = part_of(in, search.with_shared());
    std::vector<step> left;
    std::vector<bool> is_given_by_it(in.slots, false), is_read(in.slots, false);
    for (std::size_t i = 0; i < in.steps.size(); ++i) {
        if (!search.taken()[i]) {
            left.push_back(std::move(in.steps[i]));
            continue;
        }
        for (const slot each : in.steps[i].outputs)
            if (each != no_slot) is_given_by_it[each] = true;
    }
    in.steps = std::move(left);
    for (const step& each : in.steps) {
        for (const slot one : each.inputs)
            if (one != no_slot) is_read[one] = true;
        for (const auto& [from, inner] : each.inner)
            for (const auto& one : inner->captures) is_read[one.outside] = true;
    }
    for (const slot each : in.outputs) is_read[each] = true;
    std::erase_if(made.outputs, [&](slot each) { return !is_given_by_it[each] || !is_read[each]; });
    for (step& each : made.steps) each.is_on_host = false;
    in.inputs.insert(in.inputs.end(), made.outputs.begin(), made.outputs.end());
    return made;
}

}  // namespace sluice::nn::detail
