// SPDX-License-Identifier: Apache-2.0
#include "nn/passes/steps.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "nn/passes/passes.hpp"

namespace sluice::nn::detail {
namespace {

template <typename T, typename Value>
Value attribute_of(const step& of, std::string_view name, Value otherwise) {
    const T* const found = of.from->find<T>(name);
    return found != nullptr ? Value(*found) : otherwise;
}

}  // namespace

bool is(const step& what, std::string_view op) { return what.from->domain.empty() && what.from->op == op; }
std::int64_t integer(const step& of, std::string_view attribute, std::int64_t otherwise) {
    return attribute_of<std::int64_t>(of, attribute, otherwise);
}
float real(const step& of, std::string_view attribute, float otherwise) {
    return attribute_of<float>(of, attribute, otherwise);
}
std::string_view text(const step& of, std::string_view attribute, std::string_view otherwise) {
    return attribute_of<std::string>(of, attribute, otherwise);
}

bool takes_on_host(const step& in, std::size_t input) {
    return (in.what->host_inputs & operators::input_bit(input)) != 0;
}
bool takes_shape_only(const step& in, std::size_t input) {
    return (in.what->shape_inputs & operators::input_bit(input)) != 0;
}

const any_tensor* constant_input(const prepared_graph& in, const step& of, std::size_t input) {
    if (input >= of.inputs.size() || of.inputs[input] == no_slot) return nullptr;
    const auto found = in.constants.find(of.inputs[input]);
    if (found == in.constants.end() || !found->second.is_on_host()) return nullptr;
    return found->second.type() == io::dtype::f32 ? &found->second : nullptr;
}

slot add_constant(prepared_graph& in, any_tensor value) {
    const slot made = static_cast<slot>(in.slots++);
    in.needed_on_host.push_back(false);
    in.constants.emplace(made, std::move(value));
    return made;
}

std::vector<std::size_t> only_readers(const prepared_graph& in) {
    std::vector<std::size_t> readers(in.slots, no_step);
    const auto note = [&](slot one, std::size_t by) {
        if (one != no_slot) readers[one] = readers[one] == no_step ? by : several_steps;
    };
    for (std::size_t i = 0; i < in.steps.size(); ++i) {
        for (const slot each : in.steps[i].inputs) note(each, i);
        for (const auto& [from, inner] : in.steps[i].inner)
            for (const auto& each : inner->captures) note(each.outside, several_steps);
    }
    for (const slot each : in.outputs) note(each, several_steps);
    return readers;
}

std::vector<std::size_t> givers(const prepared_graph& in) {
    std::vector<std::size_t> made(in.slots, no_step);
    for (std::size_t i = 0; i < in.steps.size(); ++i)
        for (const slot each : in.steps[i].outputs)
            if (each != no_slot) made[each] = i;
    return made;
}

prepared_graph part_of(const prepared_graph& in, const std::vector<std::size_t>& steps) {
    prepared_graph made;
    made.slots = in.slots;
    made.names = in.names;
    made.needed_on_host.assign(in.slots, false);
    std::vector<bool> is_given(in.slots, false), is_read_outside(in.slots, false), is_known(in.slots, false);
    const auto note = [](std::vector<bool>& to, slot one) {
        if (one != no_slot) to[one] = true;
    };
    std::size_t next = 0;
    for (std::size_t i = 0; i < in.steps.size(); ++i) {
        const step& each = in.steps[i];
        if (next < steps.size() && steps[next] == i) {
            ++next;
            for (const slot one : each.inputs) {
                if (one == no_slot || is_given[one] || is_known[one]) continue;
                is_known[one] = true;
                if (const auto constant = in.constants.find(one); constant != in.constants.end()) {
                    made.constants.insert(*constant);
                } else {
                    made.inputs.push_back(one);
                }
            }
            for (const slot one : each.outputs) note(is_given, one);
            made.steps.push_back(each);
            continue;
        }
        for (const slot one : each.inputs) note(is_read_outside, one);
        for (const auto& [from, inner] : each.inner)
            for (const auto& one : inner->captures) note(is_read_outside, one.outside);
    }
    for (const slot one : in.outputs) note(is_read_outside, one);
    for (const step& each : made.steps)
        for (const slot one : each.outputs)
            if (one != no_slot && is_read_outside[one]) made.outputs.push_back(one);
    find_last_uses(made);
    return made;
}

namespace {

// What passes have made of a node may have no form for the host. No table has operators of the user.
bool is_as_written(const step& of) { return of.what == operators::find(of.from->domain, of.from->op, of.opset); }

void find_what_follows_from_shapes(prepared_graph& in) {
    std::vector<bool> follows(in.slots, false);
    for (const auto& [at, value] : in.constants) follows[at] = true;
    for (step& each : in.steps) {
        bool all = each.inner.empty() && !each.what->is_random;
        for (std::size_t i = 0; i < each.inputs.size(); ++i)
            all = all && (each.inputs[i] == no_slot || takes_shape_only(each, i) || follows[each.inputs[i]]);
        each.may_be_ahead = all && is_as_written(each);
        for (const slot one : each.outputs) {
            if (one == no_slot) continue;
            follows[one] = all;
            if (std::ranges::find(in.outputs, one) != in.outputs.end()) each.may_be_ahead = false;
        }
    }
}

}  // namespace

void find_last_uses(prepared_graph& in) {
    find_what_follows_from_shapes(in);
    std::vector<bool> is_used_later(in.slots, false);
    for (const slot each : in.outputs) is_used_later[each] = true;
    const auto use = [&](step& by, slot each) {
        if (each == no_slot || is_used_later[each]) return;
        is_used_later[each] = true;
        by.released.push_back(each);
    };
    for (std::size_t i = in.steps.size(); i-- > 0;) {
        step& each = in.steps[i];
        each.released.clear();
        for (const slot one : each.outputs) use(each, one);  // one that nothing uses
        for (const slot one : each.inputs) use(each, one);
        for (const auto& [body, inner] : each.inner) {
            find_last_uses(*inner);
            for (const auto& one : inner->captures) use(each, one.outside);
        }
    }
}

void note_joined(const step& one, step& to) {
    to.also.push_back(one.from);
    to.also.insert(to.also.end(), one.also.begin(), one.also.end());
}

}  // namespace sluice::nn::detail
