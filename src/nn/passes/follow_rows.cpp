// SPDX-License-Identifier: Apache-2.0
#include "nn/passes/follow_rows.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <set>
#include <stdexcept>
#include <utility>

#include "nn/passes/follow_graphs.hpp"
#include "nn/rows/shape_numbers.hpp"
#include "nn/tried_shapes.hpp"
#include "sluice/base/error.hpp"
#include "sluice/base/printable.hpp"
#include "sluice/nn/network.hpp"

namespace sluice::nn::detail {
namespace {

using operators::definition;
using rows::amount;
using rows::amounts;
using rows::cannot_follow;
using rows::company;
using rows::followed;
using rows::obstacle;

// Lengths that no rule says are found by trying: the operators know numbers only. A batch of this many rows.
constexpr std::array<std::int64_t, 2> tried_rows{5, 7};
constexpr std::size_t most_choices = 32;  // of axes for the inputs

class row_walk final : public graph_walk {
public:
    row_walk(const model& of, const operators::known_to_network& known, const rows::rule_table& rules)
        : model_(of), known_(known), rules_(rules) {}

    followed_values start(const std::vector<std::size_t>& input_axes) {
        followed_values found;
        for (std::size_t i = 0; i < model_.body.inputs.size(); ++i)
            row_names_.insert((*model_.body.inputs[i].shape)[input_axes.at(i)].name);
        for (std::size_t i = 0; i < model_.body.inputs.size(); ++i)
            found.insert_or_assign(model_.body.inputs[i].name, of_input(i, input_axes.at(i)));
        return found;
    }

    void walk(const graph& body, followed_values& known) override {
        for (const auto& [name, value] : body.constants) {
            // What is an input too comes from the request, or from the node whose graph it is.
            if (std::ranges::find(body.inputs, name, &value_info::name) == body.inputs.end())
                known.insert_or_assign(name, value.bytes ? of_constant(any_tensor(value)) : without_numbers(value));
        }
        for (std::size_t i = 0; i < body.nodes.size(); ++i) {
            const node& each = body.nodes[i];
            std::vector<followed> made = follow(each, i, known);
            for (std::size_t o = 0; o < each.outputs.size(); ++o)
                if (!each.outputs[o].empty()) known.insert_or_assign(each.outputs[o], std::move(made[o]));
        }
    }

    amount new_length() override { return symbols_.named("length " + std::to_string(++lengths_), true); }
    std::size_t symbol_count() const override { return symbols_.size(); }

private:
    static followed without_numbers(const constant& value) {
        followed made = of_constant(any_tensor::of_shape(value.type, value.shape));
        made.known = {};
        return made;
    }

    static followed of_constant(any_tensor value) {
        followed made;
        made.type = value.type();
        made.shape.emplace(value.shape().begin(), value.shape().end());
        made.known = std::move(value);
        return made;
    }

    followed of_input(std::size_t i, std::size_t axis) {
        const value_info& its = model_.body.inputs[i];
        followed made;
        made.type = its.type;
        made.what = company::rows;
        made.axis = axis;
        made.shape.emplace();
        const std::vector<dimension>& shape = its.shape.value();
        for (std::size_t d = 0; d < shape.size(); ++d) {
            const dimension& each = shape[d];
            if (d == axis) {
                made.shape->push_back(amount::of(rows::row_count));
            } else if (each.length) {
                made.shape->emplace_back(static_cast<std::int64_t>(*each.length));
            } else if (!each.name.empty() && row_names_.contains(each.name)) {
                return mixed({}, {}, "input " + in_quotes(its.name) + " has the number of rows in two dimensions");
            } else {
                const std::string key =
                    each.name.empty() ? "?" + std::to_string(i) + ":" + std::to_string(d) : each.name;
                made.shape->push_back(symbols_.named("dimension " + key, true));
            }
        }
        return made;
    }

    static followed mixed(std::string node, std::string op, std::string why) {
        followed made;
        made.what = company::mixed;
        made.because = std::make_shared<const obstacle>(obstacle{std::move(node), std::move(op), std::move(why)});
        return made;
    }

    std::vector<followed> all_mixed(const node& which, std::size_t position, const std::string& why) const {
        return std::vector(which.outputs.size(), mixed(label_of(which, position), which.op, why));
    }

    // --- one node ---

    // Whether the operator, or one in the graphs of the node, gives other numbers in each run.
    bool draws_numbers(const node& which, const definition& what) const {
        if (what.is_random) return true;
        return std::ranges::any_of(which.attributes, [&](const auto& each) {
            const graph* const inner = graph_of(each.second);
            return inner != nullptr && std::ranges::any_of(inner->nodes, [&](const node& its) {
                       return draws_numbers(its, *known_.find(its.domain, its.op, model_.opsets.at(its.domain)));
                   });
        });
    }

    std::vector<followed> follow(const node& which, std::size_t position, const followed_values& known) {
        std::vector<const followed*> inputs;
        bool is_alike = true;
        const auto look = [&](const std::string& name) -> const followed* {
            const auto found = known.find(name);
            return found != known.end() ? &found->second : nullptr;
        };
        std::set<std::string> used(which.inputs.begin(), which.inputs.end());
        for (const auto& [name, value] : which.attributes)
            if (const graph* const inner = graph_of(value)) add_used(*inner, used);
        for (const std::string& name : used) {
            const followed* const value = look(name);
            if (value == nullptr) continue;
            if (value->what == company::mixed) return std::vector(which.outputs.size(), *value);
            is_alike = is_alike && value->is_alike();
        }
        for (const std::string& name : which.inputs) inputs.push_back(name.empty() ? nullptr : look(name));
        const std::int64_t opset = model_.opsets.at(which.domain);
        const definition& what = *known_.find(which.domain, which.op, opset);
        const node_to_try to_try{model_.path, which, position, opset, what};
        const bool is_random = draws_numbers(which, what);
        try {
            if (is_random && !what.is_random) throw cannot_follow{"has a graph of its own that draws random numbers"};
            return follow(to_try, inputs, is_alike, known);
        } catch (const cannot_follow& reason) {
            if (!is_alike || is_random) return all_mixed(which, position, reason.why);
        } catch (const error& failure) {  // the node is wrong
            if (failure.code() == errc::out_of_memory) throw;
            if (!is_alike) return all_mixed(which, position, "has attributes that do not fit");
        } catch (const std::out_of_range&) {
            if (!is_alike) return all_mixed(which, position, "has inputs that do not fit");
        }
        return std::vector<followed>(which.outputs.size());  // nothing is known of them but that
    }

    std::vector<followed> follow(const node_to_try& which, const std::vector<const followed*>& inputs, bool is_alike,
                                 const followed_values& known) {
        const rows::rule_of_operator* const its = rules_.find(which.which.domain, which.which.op);
        if (which.what.own != nullptr || (its == nullptr && !is_alike))
            throw cannot_follow{"is an operator of which no rule says what it does with rows"};
        if (which.what.is_random) throw cannot_follow{its != nullptr ? std::string(its->why) : "draws random numbers"};
        if (which.which.domain.empty() && which.which.op == "If") return follow_branches(*this, which, inputs, known);
        if (which.which.domain.empty() && which.which.op == "Scan" && !is_alike && its->how == nullptr &&
            runs_of(inputs).is(1))
            return follow_rounds(*this, which, inputs, known);
        if (auto numbers = rows::compute_numbers(which, inputs, symbols_)) return {std::move(*numbers)};
        const tries tried = try_outputs(which, inputs, is_alike);
        if (is_alike && tried[0] && is_known(*tried[0])) return known_outputs(*tried[0]);
        if (its == nullptr || its->how == nullptr) {
            if (is_alike && tried[0]) return known_outputs(*tried[0]);
            throw cannot_follow{its != nullptr ? std::string(its->why) : "has no rule"};
        }
        const bool has_row_numbers = std::ranges::any_of(
            inputs, [](const followed* each) { return each != nullptr && each->has_row_numbers(); });
        if (has_row_numbers && !its->takes_row_numbers) throw cannot_follow{"uses the numbers of the rows"};
        if (!its->takes_runs && !runs_of(inputs).is(1)) throw cannot_follow{"takes rows that lie in several runs"};
        rows::rule_call call(which.which, which.opset, inputs, symbols_);
        its->how(call);
        call.require_numbers_were_read();
        return outputs_of(which, call, tried, inputs);
    }

    // Of the rows of all inputs that have some.
    static amount runs_of(const std::vector<const followed*>& inputs) {
        std::optional<amount> made;
        for (const followed* const each : inputs) {
            if (each == nullptr || !each->has_rows()) continue;
            if (made && !(*made == each->runs)) throw cannot_follow{"combines rows that lie in different orders"};
            made = each->runs;
        }
        return made.value_or(amount(1));
    }

    // --- what the operators say of numbers ---

    using tries = std::array<std::optional<std::vector<any_tensor>>, tried_rows.size()>;

    // The input in a batch of this many rows; none where more is not known.
    static std::optional<any_tensor> tried_input(const followed& value, std::int64_t count) {
        if (value.known) return value.known;
        if (!value.shape) return {};
        std::vector<std::size_t> shape;
        for (const amount& each : *value.shape) {
            const auto length = each.at(count);
            if (!length || *length < 0) return {};
            shape.push_back(static_cast<std::size_t>(*length));
        }
        if (!value.elements || value.type != io::dtype::i64) return any_tensor::of_shape(value.type, std::move(shape));
        std::vector<std::int64_t> numbers;
        for (const amount& each : *value.elements) {
            const auto number = each.at(count);
            if (!number) return any_tensor::of_shape(value.type, std::move(shape));
            numbers.push_back(*number);
        }
        return any_tensor(numbers, std::move(shape));
    }

    static tries try_outputs(const node_to_try& which, const std::vector<const followed*>& inputs, bool is_alike) {
        tries made;
        for (std::size_t t = 0; t < tried_rows.size(); ++t) {
            if (is_alike && t != 0) {
                made[t] = made[0];
                continue;
            }
            std::vector<any_tensor> given;
            for (const followed* const each : inputs) {
                auto one = each != nullptr ? tried_input(*each, tried_rows[t]) : std::optional(any_tensor());
                if (!one) return {};
                given.push_back(std::move(*one));
            }
            try {
                made[t] = try_node(which, given);
            } catch (const error&) {  // NOLINT(bugprone-empty-catch): it may take other lengths only
            }
        }
        return made;
    }

    static bool is_known(const std::vector<any_tensor>& outputs) {
        return std::ranges::all_of(outputs,
                                   [](const any_tensor& each) { return each.is_on_host() || each.elements() == 0; });
    }

    static std::vector<followed> known_outputs(const std::vector<any_tensor>& outputs) {
        std::vector<followed> made;
        for (const any_tensor& each : outputs) {
            made.push_back(of_constant(each));
            if (!each.is_on_host() && each.elements() != 0) made.back().known = {};
        }
        return made;
    }

    // --- what the rule says ---

    std::vector<followed> outputs_of(const node_to_try& which, const rows::rule_call& call, const tries& tried,
                                     const std::vector<const followed*>& inputs) {
        std::vector<followed> made(which.which.outputs.size());
        for (std::size_t o = 0; o < made.size(); ++o) {
            if (which.which.outputs[o].empty()) continue;
            const auto& given = call.outputs()[o];
            if (!given) throw cannot_follow{"has an output of which its rule says nothing"};
            followed& to = made[o];
            to.what = given->axis ? company::rows : company::alike;
            to.axis = given->axis.value_or(0);
            if (given->axis) to.runs = given->runs ? *given->runs : runs_of(inputs);
            to.is_row_number = given->is_row_number;
            to.row_number_columns = given->row_number_columns;
            to.type = tried[0]                                 ? (*tried[0])[o].type()
                      : inputs.empty() || inputs[0] == nullptr ? io::dtype::f32
                                                               : inputs[0]->type;
            to.shape.emplace();
            for (std::size_t d = 0; d < given->shape.size(); ++d) to.shape->push_back(length_of(*given, o, d, tried));
        }
        return made;
    }

    // The length that the rule says must be the one that the operator gives.
    amount length_of(const rows::given_output& given, std::size_t o, std::size_t d, const tries& tried) {
        const std::optional<amount>& said = given.shape[d];
        const bool is_rows = given.axis == d;
        if (is_rows && (!said || !said->is_multiple_of_rows() || !said->without_rows().is_whole()))
            throw cannot_follow{"gives a shape in which a row is not a part of its own"};
        if (!is_rows && said && said->depends_on_rows())
            throw cannot_follow{"gives a shape with the number of rows in two dimensions"};
        if (tried[0] && tried[1]) {
            std::array<std::int64_t, tried_rows.size()> its{};
            for (std::size_t t = 0; t < its.size(); ++t) {
                const std::vector<std::size_t>& shape = (*tried[t])[o].shape();
                if (shape.size() != given.shape.size()) throw cannot_follow{"gives other shapes than its rule says"};
                its[t] = static_cast<std::int64_t>(shape[d]);
                const auto expected = said ? said->at(tried_rows[t]) : std::nullopt;
                if (expected && *expected != its[t]) throw cannot_follow{"gives other shapes than its rule says"};
            }
            if (is_rows) return *said;
            if (its[0] != its[1]) throw cannot_follow{"gives a shape that depends on the number of rows"};
            return its[0];
        }
        if (said) return *said;
        return new_length();
    }

    const model& model_;
    const operators::known_to_network& known_;
    const rows::rule_table& rules_;
    rows::symbol_table symbols_;
    std::set<std::string> row_names_;
    std::size_t lengths_ = 0;
};

// --- which axes the rows have ---------------------------------------------------------------------------------

// The dimensions of any length.
std::vector<std::size_t> open_dimensions(const value_info& of) {
    std::vector<std::size_t> found;
    if (!of.shape) return found;
    for (std::size_t d = 0; d < of.shape->size(); ++d)
        if (!(*of.shape)[d].length) found.push_back(d);
    return found;
}

// Axes of all inputs, the likeliest first: the first ones, then those of one name.
std::vector<std::vector<std::size_t>> choices_of(const std::vector<value_info>& inputs) {
    std::vector<std::vector<std::size_t>> all{{}};
    for (const value_info& each : inputs) {
        std::vector<std::vector<std::size_t>> longer;
        for (const auto& begin : all) {
            for (const std::size_t axis : open_dimensions(each)) {
                // One name is one length.
                const std::string& name = (*each.shape)[axis].name;
                const bool is_first = begin.empty();
                const std::string& first = is_first ? name : (*inputs[0].shape)[begin[0]].name;
                if (!is_first && !name.empty() && !first.empty() && name != first) continue;
                longer.push_back(begin);
                longer.back().push_back(axis);
            }
        }
        all = std::move(longer);
        if (all.size() > most_choices) all.resize(most_choices);
    }
    // Equals stay in the order in which they were made, which is that of the axes.
    const auto unlike = [&](const std::vector<std::size_t>& axes) {
        std::size_t count = 0;
        for (std::size_t i = 0; i < axes.size(); ++i) {
            if (axes[i] != 0) ++count;
            if ((*inputs[i].shape)[axes[i]].name != (*inputs[0].shape)[axes[0]].name) ++count;
        }
        return count;
    };
    std::ranges::sort(all, {}, [&](const std::vector<std::size_t>& axes) { return std::pair(unlike(axes), axes); });
    return all;
}

row_independence not_proven(std::string node, std::string op, std::string why) {
    return {.node = std::move(node), .op = std::move(op), .why = std::move(why)};
}

// Why the rows of an output have no places of their own; empty: they are along an axis.
std::string what_is_missing(const followed& output) {
    switch (output.what) {
        case company::alike: return "gives the same for any rows";
        case company::counts: return "gives the number of rows";
        case company::mixed: return output.because->why;
        case company::rows: break;
    }
    if (output.has_row_numbers()) return "gives the numbers of the rows";
    if (!((*output.shape)[output.axis] == amount::of(rows::row_count)))
        return "gives several elements along the axis of the rows for each row";
    return {};
}

row_independence judge(const model& of, const followed_values& found, const std::vector<std::size_t>& input_axes) {
    row_independence made{.is_proven = true, .input_axes = input_axes};
    for (const value_info& each : of.body.outputs) {
        const followed& its = found.at(each.name);
        const std::string why = what_is_missing(its);
        if (why.empty()) {
            made.output_axes.push_back(its.axis);
            continue;
        }
        if (its.what == company::mixed) return not_proven(its.because->node, its.because->op, why);
        for (std::size_t i = 0; i < of.body.nodes.size(); ++i) {
            const node& giver = of.body.nodes[i];
            if (std::ranges::find(giver.outputs, each.name) != giver.outputs.end())
                return not_proven(label_of(giver, i), giver.op, why + " as output " + in_quotes(each.name));
        }
        return not_proven({}, {}, "output " + in_quotes(each.name) + " has no rows");
    }
    return made;
}

}  // namespace

std::map<std::string, followed, std::less<>> follow_rows(const model& of, const operators::known_to_network& known,
                                                         const rows::rule_table& rules,
                                                         const std::vector<std::size_t>& input_axes) {
    row_walk walk(of, known, rules);
    followed_values found = walk.start(input_axes);
    walk.walk(of.body, found);
    return found;
}

row_independence find_row_independence(const model& of, const own_operators& own, const rows::rule_table& rules) {
    nn::check_operators(of, own);
    return row_independence_of_checked(of, operators::known_to_network(own), rules);
}

row_independence row_independence_of_checked(const model& of, const operators::known_to_network& known,
                                             const rows::rule_table& rules) {
    if (of.body.inputs.empty()) return not_proven({}, {}, "the network has no inputs");
    if (of.body.outputs.empty()) return not_proven({}, {}, "the network has no outputs");
    for (const value_info& each : of.body.inputs) {
        if (open_dimensions(each).empty())
            return not_proven({}, {}, "input " + in_quotes(each.name) + " has no dimension of any length");
    }
    std::optional<row_independence> first;
    for (const std::vector<std::size_t>& axes : choices_of(of.body.inputs)) {
        row_independence made = judge(of, follow_rows(of, known, rules, axes), axes);
        if (made.is_proven) return made;
        if (!first) first = std::move(made);
    }
    return first ? *first : not_proven({}, {}, "the inputs have no dimensions of any length with one name");
}

}  // namespace sluice::nn::detail

namespace sluice::nn {

bool row_independence::is_along_first_axes() const noexcept {
    const auto is_first = [](std::size_t axis) { return axis == 0; };
    return is_proven && std::ranges::all_of(input_axes, is_first) && std::ranges::all_of(output_axes, is_first);
}

std::string row_independence::text() const {
    if (!is_proven) return node.empty() ? why : printable(node, 200) + " " + why;
    if (is_along_first_axes()) return "proven";
    const auto list = [](const std::vector<std::size_t>& axes) {
        std::string all;
        for (const std::size_t each : axes) all += (all.empty() ? "" : ", ") + std::to_string(each);
        return all;
    };
    return "proven along the axes " + list(input_axes) + " of the inputs and " + list(output_axes) + " of the outputs";
}

row_independence find_row_independence(const model& of, const own_operators& own) {
    return detail::find_row_independence(of, own, rows::all_rules());
}

}  // namespace sluice::nn
