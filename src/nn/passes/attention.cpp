// SPDX-License-Identifier: Apache-2.0
// Finds attention as exporters write it: MatMul, what scales and masks its numbers, Softmax, MatMul.
#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "nn/attention/attention_step.hpp"
#include "nn/passes/dense_search.hpp"
#include "nn/passes/passes.hpp"
#include "nn/passes/steps.hpp"
#include "sluice/base/printable.hpp"
#include "sluice/runtime/device.hpp"
#include "sluice/runtime/execution_context.hpp"

namespace sluice::nn::detail {
namespace {

// Steps of the graph, by their number there.
struct found_attention {
    std::set<std::size_t> members;
    std::vector<std::size_t> changes;
    std::size_t product = no_step, softmax = no_step, sums = no_step;
    std::vector<std::size_t> zeros;  // IsNaN and Where, which make probabilities that are NaN 0
    std::vector<std::size_t> after;  // views of the result; the last one gives what others read
    std::size_t last() const { return after.empty() ? sums : after.back(); }
    std::map<std::size_t, std::size_t> path;
    std::map<std::size_t, view_place> places;
    std::set<std::size_t> seen_shapes;  // members of whose values others need the shape
};

class attention_search {
public:
    explicit attention_search(const prepared_graph& in)
        : in_(in), only_(only_readers(in)), givers_(givers(in)), readers_(in.slots) {
        for (std::size_t i = 0; i < in.steps.size(); ++i)
            for (const slot each : in.steps[i].inputs)
                if (each != no_slot) readers_[each].push_back(i);
    }

    // Around this Softmax.
    std::optional<found_attention> around(std::size_t softmax) const {
        const step& of = in_.steps[softmax];
        if (!is(of, "Softmax") || !is_possible(of)) return {};
        found_attention made;
        made.softmax = softmax;
        if (!take_scores(of.inputs[0], softmax, made) || !take_sums(made)) return {};
        std::ranges::reverse(made.changes);
        // A number that scales after a mask would scale the mask.
        const auto is_scale = [&](std::size_t each) {
            return is(in_.steps[each], "Mul") || is(in_.steps[each], "Div");
        };
        const auto first_mask = std::ranges::find_if_not(made.changes, is_scale);
        if (std::any_of(first_mask, made.changes.end(), is_scale)) return {};
        made.members.insert(made.changes.begin(), made.changes.end());
        made.members.insert({made.product, made.softmax, made.sums});
        made.members.insert(made.zeros.begin(), made.zeros.end());
        const step &product = in_.steps[made.product], &sums = in_.steps[made.sums];
        for (const slot each : product.inputs) take_views(each, true, made);
        take_views(sums.inputs[1], false, made);
        take_turn(made);
        drop_what_others_read(made);
        return made;
    }

private:
    static bool is_possible(const step& of) {
        return !of.is_on_host && of.inner.empty() && of.layers == nullptr && of.stretch == nullptr &&
               !of.leaves_to_next && !of.gives_shape_only && !of.outputs.empty() && of.outputs[0] != no_slot &&
               of.what->own == nullptr && std::ranges::find(of.inputs, no_slot) == of.inputs.end();
    }
    // The step that gives the value, if only `reader` reads it.
    std::size_t giver_for(slot value, std::size_t reader) const {
        const std::size_t found = givers_[value];
        return found != no_step && only_[value] == reader && is_possible(in_.steps[found]) ? found : no_step;
    }

    // Whether the value is one number: a constant, or what exporters compute from a length.
    bool is_number(slot value) const {
        if (const auto found = in_.constants.find(value); found != in_.constants.end())
            return found->second.elements() == 1;
        static constexpr std::array<std::string_view, 5> known{"Sqrt", "Cast", "Div", "Pow", "Reciprocal"};
        return givers_[value] != no_step &&
               std::ranges::any_of(known, [&](std::string_view op) { return is(in_.steps[givers_[value]], op); });
    }
    // Of Mul and Div: the input that is not the one number; no_input if there is none.
    static constexpr std::size_t no_input = ~std::size_t{0};
    std::size_t scaled_input(const step& of) const {
        if (of.opset < 7 || of.inputs.size() != 2) return no_input;
        if ((is(of, "Mul") || is(of, "Div")) && is_number(of.inputs[1])) return 0;
        if (is(of, "Mul") && is_number(of.inputs[0])) return 1;
        return no_input;
    }

    // From the Softmax back to the product, over what one step alone reads.
    bool take_scores(slot value, std::size_t reader, found_attention& to) const {
        const std::size_t at = giver_for(value, reader);
        if (at == no_step || to.changes.size() > kernels::attention_call::most_masks + 2) return false;
        const step& of = in_.steps[at];
        if (is(of, "MatMul")) {
            to.product = at;
            return true;
        }
        const auto take_by = [&](std::size_t input) {
            found_attention tried = to;
            tried.changes.push_back(at);
            tried.path[at] = input;
            if (!take_scores(of.inputs[input], at, tried)) return false;
            to = std::move(tried);
            return true;
        };
        if (is(of, "Mul") || is(of, "Div")) {
            const std::size_t input = scaled_input(of);
            return input != no_input && take_by(input);
        }
        if (is(of, "Add") && of.opset >= 7) return take_by(0) || take_by(1);
        return is(of, "Where") && (take_by(1) || take_by(2));
    }

    // PyTorch writes queries whose keys are all masked so: Where(IsNaN(p), 0, p).
    bool is_zero_for_nan(std::size_t at, slot probabilities) const {
        const step& of = in_.steps[at];
        if (!is(of, "Where") || !is_possible(of) || of.inputs[2] != probabilities) return false;
        const std::size_t asks = givers_[of.inputs[0]];
        return asks != no_step && is(in_.steps[asks], "IsNaN") && is_possible(in_.steps[asks]) &&
               in_.steps[asks].inputs[0] == probabilities && only_[of.inputs[0]] == at && is_zero(of.inputs[1]);
    }
    bool is_zero(slot value) const {
        const auto found = in_.constants.find(value);
        return found != in_.constants.end() && found->second.is_on_host() && found->second.elements() == 1 &&
               found->second.shape().size() <= 1 &&
               std::ranges::all_of(found->second.bytes(), [](std::byte each) { return each == std::byte{0}; });
    }
    void take_zeros(slot& probabilities, found_attention& to) const {
        const std::vector<std::size_t>& readers = readers_[probabilities];
        if (readers.size() != 2 || is_read_elsewhere(probabilities)) return;
        for (const std::size_t each : readers) {
            if (!is_zero_for_nan(each, probabilities)) continue;
            to.zeros = {givers_[in_.steps[each].inputs[0]], each};
            probabilities = in_.steps[each].outputs[0];
            return;
        }
    }

    bool take_sums(found_attention& to) const {
        slot probabilities = in_.steps[to.softmax].outputs[0];
        take_zeros(probabilities, to);
        const std::size_t at = only_[probabilities];
        if (at >= several_steps) return false;
        const step& of = in_.steps[at];
        to.sums = at;
        return is(of, "MatMul") && is_possible(of) && of.inputs[0] == probabilities && of.inputs[1] != probabilities;
    }

    // What comes before as many as that is a step of its own.
    static constexpr std::size_t most_members = 64;
    // Back over the steps that say how the value is seen.
    void take_views(slot value, bool may_scale, found_attention& to) const {
        const std::size_t at = givers_[value];
        if (at == no_step || to.members.size() >= most_members || to.members.contains(at) ||
            !is_possible(in_.steps[at])) {
            return;
        }
        const step& of = in_.steps[at];
        const std::size_t input = may_scale ? scaled_input(of) : no_input;
        if (input == no_input && !is_view(of)) return;
        if (is(of, "Gather") || is(of, "Slice")) {
            const auto place = is(of, "Gather") ? place_of_gather(of) : place_of_slice(of);
            if (!place) return;
            to.places[at] = *place;
        }
        if (input != no_input) to.path[at] = input;
        to.members.insert(at);
        take_views(of.inputs[input != no_input ? input : 0], may_scale, to);
    }

    // A constant that is one number.
    std::optional<std::int64_t> constant_number(slot value) const {
        const auto found = in_.constants.find(value);
        if (found == in_.constants.end() || found->second.elements() != 1 || found->second.type() != io::dtype::i64 ||
            !found->second.is_on_host()) {
            return {};
        }
        return found->second.values<std::int64_t>()[0];
    }
    std::optional<view_place> place_of_gather(const step& of) const {
        const auto place = constant_number(of.inputs[1]);
        return place ? std::optional(view_place{integer(of, "axis", 0), *place}) : std::nullopt;
    }
    // Of neighbours along one axis that is named.
    std::optional<view_place> place_of_slice(const step& of) const {
        if (of.inputs.size() < 4) return {};
        const auto first = constant_number(of.inputs[1]), axis = constant_number(of.inputs[3]);
        const auto distance = of.inputs.size() > 4 ? constant_number(of.inputs[4]) : std::optional<std::int64_t>(1);
        return first && axis && distance == 1 ? std::optional(view_place{*axis, *first}) : std::nullopt;
    }

    // The only step that reads elements of the value; others may ask for its shape.
    std::size_t only_reader(slot value) const {
        if (is_read_elsewhere(value)) return no_step;
        std::size_t found = no_step;
        for (const std::size_t reader : readers_[value]) {
            if (reads_shape_only(reader, value)) continue;
            if (found != no_step) return no_step;
            found = reader;
        }
        return found;
    }
    bool reads_shape_only(std::size_t reader, slot value) const {
        const step& by = in_.steps[reader];
        if (by.gives_shape_only) return true;
        for (std::size_t i = 0; i < by.inputs.size(); ++i)
            if (by.inputs[i] == value && !takes_shape_only(by, i)) return false;
        return true;
    }
    // The Transpose of the result, and what gives it other shapes before.
    void take_turn(found_attention& to) const {
        static constexpr std::array<std::string_view, 5> shaped{"Reshape", "Flatten", "Squeeze", "Unsqueeze",
                                                                "Identity"};
        std::vector<std::size_t> views;
        for (slot value = in_.steps[to.sums].outputs[0]; views.size() < most_members;) {
            const std::size_t at = only_reader(value);
            if (at == no_step || !is_possible(in_.steps[at]) || in_.steps[at].inputs[0] != value) return;
            const step& of = in_.steps[at];
            views.push_back(at);
            if (is(of, "Transpose")) break;
            if (std::ranges::none_of(shaped, [&](std::string_view op) { return is(of, op); })) return;
            value = of.outputs[0];
        }
        to.after = std::move(views);
        to.members.insert(to.after.begin(), to.after.end());
    }

    // Whether a step that is not of them reads elements of the value, or its shape.
    bool is_read_outside(slot value, const found_attention& of, bool shapes_too) const {
        if (is_read_elsewhere(value)) return true;
        return std::ranges::any_of(readers_[value], [&](std::size_t reader) {
            if (of.members.contains(reader)) return false;
            return shapes_too || !reads_shape_only(reader, value);
        });
    }
    // A step whose elements others need too remains where it is, and what it reads. One of which they need the shape
    // remains as a step without elements.
    void drop_what_others_read(found_attention& of) const {
        const auto is_seen = [&](std::size_t at, bool shapes_too) {
            return std::ranges::any_of(in_.steps[at].outputs, [&](slot each) {
                return each != no_slot && is_read_outside(each, of, shapes_too);
            });
        };
        const std::size_t last = of.last();
        for (bool is_changed = true; is_changed;) {
            is_changed =
                std::erase_if(of.members, [&](std::size_t at) { return at != last && is_seen(at, false); }) != 0;
        }
        for (auto at = of.members.rbegin(); at != of.members.rend(); ++at) {
            const auto needs_it = [&](std::size_t other) {
                return std::ranges::any_of(in_.steps[*at].outputs, [&](slot each) {
                    return std::ranges::find(in_.steps[other].inputs, each) != in_.steps[other].inputs.end();
                });
            };
            if (*at != last && (is_seen(*at, true) || std::ranges::any_of(of.seen_shapes, needs_it)))
                of.seen_shapes.insert(*at);
        }
    }
    // By the graph's caller, or in a graph of a step.
    bool is_read_elsewhere(slot value) const {
        return std::ranges::find(in_.outputs, value) != in_.outputs.end() ||
               std::ranges::any_of(in_.steps, [&](const step& each) {
                   return std::ranges::any_of(each.inner, [&](const auto& inner) {
                       return std::ranges::any_of(inner.second->captures,
                                                  [&](const auto& one) { return one.outside == value; });
                   });
               });
    }

    const prepared_graph& in_;
    const std::vector<std::size_t> only_, givers_;
    std::vector<std::vector<std::size_t>> readers_;
};

// What is constant outside is an input: constants of a body are not on the device. Bits of those that steps need in
// host memory; nothing if one is needed on both sides.
std::optional<std::uint32_t> take_inputs(prepared_graph& body, const std::set<slot>& numbers) {
    std::set<slot> constants;
    for (const auto& [at, value] : body.constants) constants.insert(at);
    body.inputs.insert(body.inputs.end(), constants.begin(), constants.end());
    body.constants.clear();
    std::uint32_t on_host = 0, on_device = 0;
    for (const step& each : body.steps) {
        for (std::size_t i = 0; i < each.inputs.size(); ++i) {
            const auto at = std::ranges::find(body.inputs, each.inputs[i]);
            if (at == body.inputs.end()) continue;
            const std::uint32_t bit = operators::input_bit(static_cast<std::size_t>(at - body.inputs.begin()));
            const bool is_number = numbers.contains(each.inputs[i]);
            (is_number || (each.what->host_inputs & operators::input_bit(i)) != 0 ? on_host : on_device) |= bit;
        }
    }
    return body.inputs.size() < 31 && (on_host & on_device) == 0 ? std::optional(on_host) : std::nullopt;
}

// Whether the value is computed from shapes and constants, by steps that the host may carry out.
bool follows_from_shapes(const prepared_graph& in, const std::vector<std::size_t>& givers, slot value, int depth = 0) {
    constexpr int deepest = 12;
    static constexpr std::array<std::string_view, 10> known{"Shape", "Cast",  "Sqrt",   "Div",     "Mul",
                                                            "Pow",   "Slice", "Gather", "Squeeze", "Reciprocal"};
    if (value == no_slot || in.constants.contains(value)) return true;
    if (givers[value] == no_step || depth > deepest) return false;
    const step& of = in.steps[givers[value]];
    if (!std::ranges::any_of(known, [&](std::string_view op) { return is(of, op); })) return false;
    if (is(of, "Shape")) return true;
    return std::ranges::all_of(of.inputs, [&](slot each) { return follows_from_shapes(in, givers, each, depth + 1); });
}
void compute_on_host(prepared_graph& in, const std::vector<std::size_t>& givers, slot value) {
    if (value == no_slot || in.constants.contains(value) || in.needed_on_host[value]) return;
    in.needed_on_host[value] = true;
    step& of = in.steps[givers[value]];
    of.is_on_host = true;
    if (is(of, "Shape")) return;
    for (const slot each : of.inputs) compute_on_host(in, givers, each);
}

// The numbers that scale, which the command gets from the host: constants, and what follows from shapes.
std::set<slot> numbers_on_host(prepared_graph& in, const found_attention& found) {
    const std::vector<std::size_t> by = givers(in);
    std::set<slot> made;
    for (const auto& [at, input] : found.path) {
        const step& of = in.steps[at];
        if (!found.members.contains(at) || (!is(of, "Mul") && !is(of, "Div"))) continue;
        const slot number = of.inputs[1 - input];
        if (!follows_from_shapes(in, by, number)) continue;
        compute_on_host(in, by, number);
        made.insert(number);
    }
    return made;
}

attention_recipe recipe_of(const found_attention& found) {
    const std::vector<std::size_t> order(found.members.begin(), found.members.end());
    const auto place = [&](std::size_t step_of_graph) {
        return static_cast<std::size_t>(std::ranges::lower_bound(order, step_of_graph) - order.begin());
    };
    attention_recipe made;
    std::set<std::size_t> others(found.members);
    for (const std::size_t each : found.changes) {
        made.changes.push_back(place(each));
        others.erase(each);
    }
    made.product = place(found.product);
    made.softmax = place(found.softmax);
    made.sums = place(found.sums);
    made.gives_zeros = !found.zeros.empty();
    for (const std::size_t each : found.after) made.after.push_back(place(each));
    for (const std::size_t each : {found.product, found.softmax, found.sums}) others.erase(each);
    for (const auto* const known : {&found.zeros, &found.after})
        for (const std::size_t each : *known) others.erase(each);
    for (const std::size_t each : others) made.views.push_back(place(each));
    for (const auto& [at, input] : found.path)
        if (found.members.contains(at)) made.path[place(at)] = input;
    for (const auto& [at, where] : found.places)
        if (found.members.contains(at)) made.places[place(at)] = where;
    return made;
}

}  // namespace

void fuse_attention(prepared_graph& in, precision what, execution_context& context, rounding_report& report) {
    for (step& each : in.steps)
        for (const auto& [from, inner] : each.inner) fuse_attention(*inner, what, context, report);
    const bool is_on_cpu = context.device().kind() == device_kind::cpu;
    const bool is_rounded = !is_on_cpu && (what == precision::f16 || what == precision::bf16);
    std::vector<bool> is_left(in.steps.size(), true);
    const attention_search search(in);
    std::vector<std::pair<std::size_t, step>> made;
    for (std::size_t i = 0; i < in.steps.size(); ++i) {
        const auto found = search.around(i);
        if (!found || !std::ranges::all_of(found->members, [&](std::size_t each) { return is_left[each]; })) continue;
        const std::vector<std::size_t> members(found->members.begin(), found->members.end());
        prepared_graph body = part_of(in, members);
        body.outputs = {in.steps[members.back()].outputs[0]};  // of others only the shapes are needed
        find_last_uses(body);
        const auto host_inputs = take_inputs(body, numbers_on_host(in, *found));
        if (!host_inputs) continue;
        step whole = in.steps[found->product];
        whole.label = in.steps[found->softmax].label;
        for (const std::size_t each : members)
            if (each != found->product) note_joined(in.steps[each], whole);
        whole.inputs = body.inputs;
        whole.outputs = body.outputs;
        const auto attention =
            std::make_shared<const attention_step>(std::move(body), recipe_of(*found), what, *host_inputs);
        whole.what = &attention->definition();
        whole.stretch = attention;
        for (const std::size_t each : members) {
            is_left[each] = found->seen_shapes.contains(each);
            in.steps[each].gives_shape_only = is_left[each];
        }
        made.emplace_back(members.back(), std::move(whole));
        for (const std::size_t each : {found->product, found->sums}) {
            if (is_rounded) {
                ++report.rounded;
            } else if (what != precision::f32) {
                report.kept.push_back(printable(in.steps[each].label) + ": its weights are not constant, or not f32");
            }
        }
    }
    for (auto& [at, whole] : made) {
        in.steps[at] = std::move(whole);
        is_left[at] = true;
    }
    erase_steps(in, is_left);
}

}  // namespace sluice::nn::detail
