// SPDX-License-Identifier: Apache-2.0
#include "nn/prepared_network.hpp"

#include <algorithm>
#include <functional>
#include <optional>
#include <set>
#include <utility>

#include "nn/halves/wide_values.hpp"
#include "nn/joined_steps.hpp"
#include "nn/kept_calls.hpp"
#include "nn/node_checks.hpp"
#include "nn/operators/run_memory.hpp"
#include "nn/passes/fixed_part.hpp"
#include "nn/passes/passes.hpp"
#include "nn/passes/steps.hpp"
#include "sluice/base/error.hpp"
#include "sluice/base/file_error.hpp"
#include "sluice/base/printable.hpp"
#include "sluice/base/run_guard.hpp"
#include "sluice/nn/run_limit.hpp"
#include "sluice/op/detail/runtime_hooks.hpp"
#include "sluice/runtime/device.hpp"
#include "sluice/runtime/execution_context.hpp"
#include "sluice/runtime/transfer.hpp"

namespace sluice::nn::detail {
namespace {

using operators::definition;
using operators::node_call;
using operators::place;
using operators::run_environment;

constexpr std::size_t most_listed = 50;  // operators in one message
// What depends on constants only is computed beforehand, as long as all that is held of it takes no more memory than
// this and this many times the constants' bytes: bytes may become numbers of eight.
constexpr std::size_t always_folded_bytes = std::size_t{64} << 20, folded_bytes_of_one = 8;
// A larger constant is not copied into the graphs inside.
constexpr std::size_t copied_inside_bytes = std::size_t{1} << 20;

// --- from names to slots --------------------------------------------------------------------------------------

class preparation {
public:
    preparation(const model& from, const operators::known_to_network& known) : model_(from), known_(known) {}

    prepared_graph prepare() {
        nn::check(model_);  // a model need not come from a file
        list_unknown(model_.body);
        if (!unknown_.empty()) {
            throw file_error(model_.path, file_error::no_offset, {},
                             "needs operators that Sluice does not have: " + text_of_unknown(), errc::unsupported);
        }
        return prepare(model_.body, nullptr);
    }

private:
    struct scope {
        const scope* around;
        prepared_graph* made;
        std::unordered_map<std::string_view, slot> names;
    };

    struct unknown {
        std::string first;
        std::size_t nodes = 0;
    };

    std::int64_t opset_of(const node& each, std::size_t position) const {
        const auto found = model_.opsets.find(each.domain);
        if (found == model_.opsets.end())
            refuse(each, position, "is of a domain of which the model does not say the version");
        return found->second;
    }

    // All of them at once, so that a model is not mended one node at a time; each operator once.
    void list_unknown(const graph& body) {
        for (std::size_t i = 0; i < body.nodes.size(); ++i) {
            const node& each = body.nodes[i];
            if (known_.find(each.domain, each.op, opset_of(each, i)) == nullptr) {
                const std::string version = (each.domain.empty() ? "ai.onnx" : printable(each.domain)) + " " +
                                            std::to_string(opset_of(each, i)) +
                                            (known_.is_known(each.domain, each.op) ? " (known in other versions)" : "");
                const auto [known, is_new] = unknown_.try_emplace({each.domain, each.op}, unknown{});
                if (is_new) known->second.first = label_of(each, i) + " of " + version;
                ++known->second.nodes;
            }
            for (const auto& [name, value] : each.attributes) {
                if (const auto* const inner = std::get_if<std::shared_ptr<const graph>>(&value)) list_unknown(**inner);
            }
        }
    }
    std::string text_of_unknown() const {
        std::string text;
        std::size_t listed = 0;
        for (const auto& [name, each] : unknown_) {
            if (++listed > most_listed)
                return text + "; and " + std::to_string(unknown_.size() - most_listed) + " more";
            text += (text.empty() ? "" : "; ") + each.first;
            if (each.nodes > 1) text += " and " + std::to_string(each.nodes - 1) + " more";
        }
        return text;
    }

    [[noreturn]] void refuse(const node& which, std::size_t position, std::string_view why) const {
        throw file_error(model_.path, file_error::no_offset, label_of(which, position), why);
    }

    // The slot of a value; a value of the graphs around is brought in.
    slot slot_of(scope& here, const std::string& name) {
        if (name.empty()) return no_slot;
        if (const auto found = here.names.find(name); found != here.names.end()) return found->second;
        // nn::check has found the value: it is outside.
        const slot outside = slot_of(*const_cast<scope*>(here.around), name);
        const slot inside = new_slot(here, name);
        here.made->captures.push_back({outside, inside});
        return inside;
    }
    static slot new_slot(scope& here, const std::string& name) {
        const slot made = static_cast<slot>(here.made->slots++);
        here.made->names.push_back(name);
        if (!name.empty()) here.names[name] = made;
        return made;
    }

    static std::vector<const value_info*> declared_outputs(const graph& body, const node& of) {
        std::vector<const value_info*> found;
        for (const std::string& name : of.outputs) {
            const auto output = std::ranges::find(body.outputs, name, &value_info::name);
            found.push_back(output != body.outputs.end() ? &*output : nullptr);
        }
        return found;
    }

    prepared_graph prepare(const graph& body, const scope* around) {
        prepared_graph made;
        scope here{around, &made, {}};
        for (const value_info& each : body.inputs) made.inputs.push_back(new_slot(here, each.name));
        for (const auto& [name, value] : body.constants)
            made.constants.emplace(new_slot(here, name), any_tensor(value));
        for (std::size_t i = 0; i < body.nodes.size(); ++i) {
            const node& each = body.nodes[i];
            const std::int64_t opset = opset_of(each, i);
            step next{.what = known_.find(each.domain, each.op, opset),
                      .from = &each,
                      .position = i,
                      .opset = opset,
                      .label = each.name.empty() ? each.op : each.name,
                      .inputs = {},
                      .outputs = {},
                      .released = {}};
            check_node(model_.path, each, i, *next.what);
            if (next.what->own != nullptr && around == nullptr) next.declared = declared_outputs(body, each);
            for (const std::string& name : each.inputs) next.inputs.push_back(slot_of(here, name));
            for (const auto& [name, value] : each.attributes) {
                if (const auto* const inner = std::get_if<std::shared_ptr<const graph>>(&value))
                    next.inner.emplace(inner->get(), std::make_shared<prepared_graph>(prepare(**inner, &here)));
            }
            for (const std::string& name : each.outputs) next.outputs.push_back(new_slot(here, name));
            made.steps.push_back(std::move(next));
        }
        for (const value_info& each : body.outputs) made.outputs.push_back(slot_of(here, each.name));
        made.needed_on_host.assign(made.slots, false);
        return made;
    }

    const model& model_;
    const operators::known_to_network& known_;
    std::map<std::pair<std::string, std::string>, unknown> unknown_;  // by domain and operator
};

// --- what is needed on the host -------------------------------------------------------------------------------

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

void find_host_values(prepared_graph& in);

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

// --- expressions that become one ----------------------------------------------------------------------------------

// Since operator set 7, operands are broadcast as expressions do it.
bool is_fusible(const step& each) {
    return each.what->fused_inputs != operators::none && each.opset >= 7 && !each.is_on_host && each.inner.empty() &&
           !each.gives_shape_only && each.stretch == nullptr;
}

// Finds the values of expressions that only one other expression reads.
void find_left_values(prepared_graph& in) {
    const std::vector<std::size_t> readers = only_readers(in);
    const auto takes = [&](std::size_t at, slot value) {
        const step& reader = in.steps[at];
        const auto input = std::ranges::find(reader.inputs, value) - reader.inputs.begin();
        return is_fusible(reader) &&
               (reader.what->fused_inputs & operators::input_bit(static_cast<std::size_t>(input))) != 0;
    };
    for (step& each : in.steps) {
        for (const auto& [from, inner] : each.inner) find_left_values(*inner);
        if (!is_fusible(each) || each.outputs.empty() || each.outputs[0] == no_slot) continue;
        const slot made = each.outputs[0];
        const std::size_t by = readers[made];
        each.leaves_to_next = by < several_steps && !in.needed_on_host[made] && takes(by, made);
    }
}

// --- running --------------------------------------------------------------------------------------------------

any_tensor uploaded(execution_context& context, const any_tensor& from) {
    const command_info info{"upload"};
    storage_ref to = context.stream().allocate(std::max<std::size_t>(from.size_bytes(), 1), info);
    if (from.elements() != 0) {
        sluice::detail::upload_bytes(context.stream(), *to, from.bytes().data(), from.size_bytes(), from.host_owner(),
                                     info.location);
    }
    return from.with_memory(std::move(to));
}

// Commands keep the name's address, and outlive networks.
std::string_view command_name(const definition& of) { return of.own != nullptr ? "own operator" : of.name; }

class graph_run {
public:
    graph_run(const model& of, execution_context* context, std::vector<operators::device_check>* checks)
        : model_(of), context_(context), checks_(checks) {}

    std::vector<any_tensor> operator()(const prepared_graph& body, std::vector<any_tensor> inputs,
                                       std::vector<any_tensor>* outside, place where) const {
        if (inputs.size() != body.inputs.size()) {
            throw error(errc::bad_file, "an inner graph with " + std::to_string(body.inputs.size()) +
                                            " inputs is given " + std::to_string(inputs.size()));
        }
        run_guard::check();  // also of a graph without steps, which a Loop may run for ever
        std::vector<any_tensor> slots(body.slots);
        operators::held_slots held(memory_, body.slots);
        left_values left;
        for (const auto& [at, value] : body.constants) slots[at] = value;
        for (std::size_t i = 0; i < inputs.size(); ++i) slots[body.inputs[i]] = std::move(inputs[i]);
        for (const auto& each : body.captures) slots[each.inside] = (*outside)[each.outside];
        for (const step& each : body.steps) {
            run_guard::check();
            carry_out(each, slots, where, &left);
            for (const slot one : each.outputs)
                if (one != no_slot) held.hold(one, slots[one]);
            for (const slot one : each.released) {
                held.drop(one);
                slots[one] = {};
                left.erase(one);
            }
        }
        std::vector<any_tensor> outputs;
        for (const slot each : body.outputs) outputs.push_back(slots[each]);
        return outputs;
    }

    // What expressions have left to the next ones.
    using left_values = std::map<slot, std::shared_ptr<const operators::expression_part>>;

    void carry_out(const step& each, std::vector<any_tensor>& slots, place where, left_values* left = nullptr) const {
        const place here = place_of(each, slots, where);
        const operators::run_memory::node_scope charged(memory_);
        std::vector<any_tensor> inputs, outputs(each.outputs.size());
        std::vector<std::shared_ptr<const operators::expression_part>> left_to_it;
        inputs.reserve(each.inputs.size());
        for (std::size_t i = 0; i < each.inputs.size(); ++i) {
            const slot at = each.inputs[i];
            if (at == no_slot) {
                inputs.emplace_back();
                continue;
            }
            if (left != nullptr && left->contains(at)) {
                left_to_it.resize(each.inputs.size());
                left_to_it[i] = left->at(at);
            } else if (here == place::device && !takes_on_host(each, i) && !takes_shape_only(each, i) &&
                       !slots[at].is_on_device() && each.inner.empty()) {
                slots[at] = uploaded(*context_, slots[at]);
            }
            inputs.push_back(slots[at]);
        }
        if (here == place::device) {
            for (const slot one : each.read_inside)
                if (slots[one] && !slots[one].is_on_device()) slots[one] = uploaded(*context_, slots[one]);
        }
        if (each.stretch != nullptr) return carry_out(*each.stretch, each, std::move(inputs), slots, here);
        run_environment environment{.path = &model_.path,
                                    .command_name = command_name(*each.what),
                                    .context = context_,
                                    .run_graph = {},
                                    .layers = each.layers.get(),
                                    .checks = checks_,
                                    .own = each.what->own,
                                    .declared = each.declared};
        environment.run_graph = [&](const graph& body, std::vector<any_tensor> given) {
            return (*this)(*each.inner.at(&body), std::move(given), &slots, here);
        };
        std::shared_ptr<const operators::expression_part> left_by_it;
        environment.left_to_us = left_to_it;
        if (left != nullptr && here == place::device && each.leaves_to_next) environment.leave_to_next = &left_by_it;
        node_call call(environment, *each.from, each.position, each.opset, here, inputs, outputs);
        std::optional<sluice::detail::name_scope> name;
        if (here == place::device) name.emplace(*context_, each.label);
        each.what->run(call);
        for (std::size_t i = 0; i < outputs.size(); ++i) {
            if (each.outputs[i] == no_slot) continue;
            if (!outputs[i] && call.wants_output(i)) call.refuse("does not give its output " + std::to_string(i));
            slots[each.outputs[i]] = std::move(outputs[i]);
        }
        if (left_by_it != nullptr) left->emplace(each.outputs[0], std::move(left_by_it));
    }

private:
    void carry_out(const joined_steps& stretch, const step& of, std::vector<any_tensor> inputs,
                   std::vector<any_tensor>& slots, place where) const {
        std::optional<std::vector<any_tensor>> outputs;
        if (where == place::device) {
            const sluice::detail::name_scope name(*context_, of.label);
            outputs = stretch.submit(model_.path, *context_, inputs);
        }
        if (!outputs) {
            stretch.widen(model_.path, where == place::device ? context_ : nullptr, inputs);
            outputs = (*this)(stretch.body(), std::move(inputs), nullptr, where);
        }
        for (std::size_t i = 0; i < of.outputs.size(); ++i) slots[of.outputs[i]] = std::move((*outputs)[i]);
    }

    // On the host where the outputs are needed there. For shape inference too: numbers that shapes depend on are
    // computed.
    place place_of(const step& each, const std::vector<any_tensor>& slots, place where) const {
        const auto is_there = [&](std::size_t i) {
            const slot at = each.inputs[i];
            return at == no_slot || takes_shape_only(each, i) || slots[at].is_on_host() || !slots[at];
        };
        if (each.gives_shape_only) return place::nowhere;
        if (where == place::host) return place::host;
        if (!each.is_on_host) return where;
        for (std::size_t i = 0; i < each.inputs.size(); ++i) {
            if (!is_there(i)) return where;  // the operator refuses it
        }
        return place::host;
    }

    const model& model_;
    execution_context* const context_;
    std::vector<operators::device_check>* const checks_;
    operators::run_memory* const memory_ = operators::run_memory::now();
};

// The values that steps read on a device: of a graph, and of the graphs inside a step.
std::vector<slot> read_inside(const step& by);
std::set<slot> device_uses(const prepared_graph& body) {
    std::set<slot> found;
    for (const step& each : body.steps) {
        if (each.inner.empty() && !each.is_on_host && !each.gives_shape_only) {
            for (std::size_t i = 0; i < each.inputs.size(); ++i)
                if (!takes_on_host(each, i) && !takes_shape_only(each, i)) found.insert(each.inputs[i]);
        }
        const std::vector<slot> inside = read_inside(each);
        found.insert(inside.begin(), inside.end());
    }
    return found;
}

std::vector<slot> read_inside(const step& by) {
    std::vector<slot> found;
    for (const auto& [from, inner] : by.inner) {
        const std::set<slot> inside = device_uses(*inner);
        for (const auto& one : inner->captures)
            if (inside.contains(one.inside)) found.push_back(one.outside);
    }
    return found;
}

// How often steps, their inner graphs and the graph's caller read each value.
std::vector<std::size_t> uses_of_slots(const prepared_graph& in) {
    std::vector<std::size_t> uses(in.slots);
    for (const step& each : in.steps) {
        for (const slot one : each.inputs)
            if (one != no_slot) ++uses[one];
        for (const auto& [from, inner] : each.inner)
            for (const auto& one : inner->captures) ++uses[one.outside];
    }
    for (const slot one : in.outputs) ++uses[one];
    return uses;
}

// Of the graph, of its nodes' attributes and of the graphs inside.
std::size_t bytes_of_constants(const graph& in) {
    std::size_t bytes = 0;
    for (const auto& [name, value] : in.constants) bytes += value.bytes->size();
    for (const node& each : in.nodes) {
        for (const auto& [name, value] : each.attributes) {
            if (const auto* const held = std::get_if<constant>(&value)) bytes += held->bytes->size();
            if (const auto* const inner = std::get_if<std::shared_ptr<const graph>>(&value))
                bytes += bytes_of_constants(**inner);
        }
    }
    return bytes;
}

// Values of one name of a dimension have one length.
class bound_dimensions {
public:
    // The length that was bound before, if it is another one.
    std::optional<std::size_t> bind(const dimension& what, std::size_t length) {
        if (what.length) return *what.length == length ? std::nullopt : what.length;
        if (what.name.empty()) return {};
        const auto [at, is_new] = lengths_.emplace(what.name, length);
        return is_new || at->second == length ? std::nullopt : std::optional(at->second);
    }

private:
    std::map<std::string, std::size_t, std::less<>> lengths_;
};

}  // namespace

void check_operators(const model& from, const own_operators& own) {
    const operators::known_to_network known(own);
    static_cast<void>(preparation(from, known).prepare());
}

prepared_network::prepared_network(model from, const network_options& options, execution_context& context)
    : model_(std::move(from)), known_(options.own), on_(context.device()), calls_(std::make_unique<kept_calls>(*this)) {
    body_ = preparation(model_, known_).prepare();
    find_host_values(body_);
    take_front(options, context);
    complete(options, context);
    if (front_ == nullptr) return;
    rounding_.rounded += front_->rounding_.rounded;
    rounding_.quantized += front_->rounding_.quantized;
    rounding_.kept.insert(rounding_.kept.begin(), front_->rounding_.kept.begin(), front_->rounding_.kept.end());
}

prepared_network::prepared_network(model names, prepared_graph body, const network_options& options,
                                   execution_context& context)
    : model_(std::move(names)),
      known_(options.own),
      body_(std::move(body)),
      on_(context.device()),
      calls_(std::make_unique<kept_calls>(*this)) {
    find_host_values(body_);
    complete(options, context);
}

// On a CPU. A GPU's numbers would have to come to the host before the rest is submitted, which needs a wait there.
void prepared_network::take_front(const network_options& options, execution_context& context) {
    // Views of the inputs are what it is called with, and have at most eight dimensions.
    const auto fits = [](const value_info& each) {
        return each.shape && each.shape->size() <= view_form::most_dimensions;
    };
    if (context.device().kind() != device_kind::cpu || !std::ranges::all_of(model_.body.inputs, fits)) return;
    std::optional<prepared_graph> part = take_fixed_part(body_);
    if (!part) return;
    model names{.path = model_.path, .opsets = model_.opsets, .producer = model_.producer, .texts = {}, .body = {}};
    for (const slot each : part->inputs) {
        front_inputs_.push_back(static_cast<std::size_t>(std::ranges::find(body_.inputs, each) - body_.inputs.begin()));
        names.body.inputs.push_back(model_.body.inputs[front_inputs_.back()]);
    }
    // The front is called with views, also of inputs of which it needs the shape only.
    for (const std::size_t each : front_inputs_) body_.needed_on_host[body_.inputs[each]] = true;
    for (const slot each : part->outputs) names.body.outputs.push_back({.name = part->names[each], .shape = {}});
    for (const auto& [name, value] : model_.body.constants) names.body.constants.emplace(name, value);
    front_.reset(new prepared_network(std::move(names), std::move(*part), options, context));
}

void prepared_network::complete(const network_options& options, execution_context& context) {
    most_folded_bytes_ = always_folded_bytes + folded_bytes_of_one * bytes_of_constants(model_.body);
    widen_values(body_, model_.body.inputs, context);
    fold(body_, false, folding::all_but_dequantized);
    rounding_.quantized = fuse_quantized_products(body_, context) + fuse_dynamic_products(body_, context);
    fold(body_, false, folding::all);
    fold_batch_normalizations(body_);
    rounding_.precision = options.precision;
    rounding_.support = support_of(options.precision, context.device());
    fuse_short_image_stretches(body_, options.precision, context, rounding_);
    fuse_attention(body_, options.precision, context, rounding_);
    round_products(body_, options.precision, context, rounding_);
    fuse_residual_norms(body_, options.precision, context);
    keep_values_narrow(body_);
    fuse_dense_layers(body_, context);
    pack_recurrent_layers(body_, context);
    pack_trees(body_, model_.path, context);
    if (options.precision == precision::f32) fuse_image_stretches(body_, context);
    find_last_uses(body_);
    find_left_values(body_);
    upload_constants(body_, context);
}

prepared_network::~prepared_network() = default;

// Carries out the steps whose inputs are all constants. Constants that nothing reads any more are dropped.
void prepared_network::fold(prepared_graph& body, bool is_inner, folding what) {
    std::vector<std::size_t> uses = uses_of_slots(body);
    std::vector<step> left;
    for (step& each : body.steps) {
        bool is_folded = false;
        try {
            is_folded = fold_step(body, each, what);
        } catch (const error&) {
            // A graph inside may never run, and then it does not matter that one of its nodes cannot.
            if (!is_inner) throw;
        }
        if (!is_folded) {
            left.push_back(std::move(each));
            continue;
        }
        for (const slot one : each.inputs)
            if (one != no_slot && --uses[one] == 0) drop_constant(body, one);
        for (const slot one : each.outputs)
            if (one != no_slot && uses[one] == 0) drop_constant(body, one);
    }
    body.steps = std::move(left);
    for (step& each : body.steps)
        for (const auto& [from, inner] : each.inner) fold_inside(body, *inner, what);
}

// Constants of the graph around are brought in, as others may be computed from them. Large ones that are still read
// afterwards stay where they are shared.
void prepared_network::fold_inside(const prepared_graph& around, prepared_graph& inner, folding what) {
    std::vector<prepared_graph::capture> shared;
    std::erase_if(inner.captures, [&](const prepared_graph::capture& one) {
        const auto found = around.constants.find(one.outside);
        if (found == around.constants.end()) return false;
        inner.constants.insert_or_assign(one.inside, found->second);
        if (found->second.size_bytes() > copied_inside_bytes) shared.push_back(one);
        return true;
    });
    fold(inner, true, what);
    for (const auto& each : shared)
        if (inner.constants.erase(each.inside) != 0) inner.captures.push_back(each);
}

void prepared_network::drop_constant(prepared_graph& body, slot which) {
    const auto found = body.constants.find(which);
    if (found == body.constants.end()) return;
    if (body.computed.erase(which) != 0) folded_bytes_ -= found->second.size_bytes();
    body.constants.erase(found);
}

// Carries out a step whose inputs are all constants, unless that takes too much memory. Says whether it did.
bool prepared_network::fold_step(prepared_graph& body, const step& each, folding what) {
    if (what == folding::all_but_dequantized && is(each, "DequantizeLinear")) return false;
    const auto is_constant = [&](slot one) { return one == no_slot || body.constants.contains(one); };
    if (!each.inner.empty() || each.what->is_random || !std::ranges::all_of(each.inputs, is_constant)) return false;
    operators::run_memory memory;
    const graph_run runner(model_, nullptr, nullptr);
    std::vector<any_tensor> slots(body.slots);
    for (const slot one : each.inputs)
        if (one != no_slot) slots[one] = body.constants.at(one);
    std::vector<any_tensor> shapes = slots;
    step without_elements = each;
    without_elements.is_on_host = false;
    runner.carry_out(without_elements, shapes, place::nowhere);
    std::size_t needed = 0, most = most_folded_bytes_;
    for (const slot one : each.outputs)
        if (one != no_slot) needed += shapes[one].size_bytes();
    if (memory.most() != 0) most = std::min(most, memory.most());
    if (needed > most - std::min(folded_bytes_, most)) return false;
    try {
        runner.carry_out(each, slots, place::host);
    } catch (const operators::needs_device&) {
        return false;
    } catch (const run_too_large&) {
        return false;
    }
    for (const slot one : each.outputs) {
        if (one == no_slot || !slots[one]) continue;
        folded_bytes_ += slots[one].size_bytes();
        body.computed.insert(one);
        body.constants.insert_or_assign(one, std::move(slots[one]));
    }
    return true;
}

void prepared_network::upload_constants(prepared_graph& body, execution_context& context) {
    std::set<slot> used;
    for (step& each : body.steps) {
        used.insert(each.inputs.begin(), each.inputs.end());
        for (const auto& [from, inner] : each.inner) {
            upload_constants(*inner, context);
            for (const auto& one : inner->captures) used.insert(one.outside);
        }
        each.read_inside = read_inside(each);
    }
    used.insert(body.outputs.begin(), body.outputs.end());
    const std::set<slot> on_device = device_uses(body);
    std::erase_if(body.constants, [&](const auto& each) { return !used.contains(each.first); });
    for (auto& [at, value] : body.constants)
        if (on_device.contains(at) && !value.is_on_device()) value = uploaded(context, value);
}

void prepared_network::require_fitting(const std::vector<any_tensor>& inputs) const {
    const std::vector<value_info>& expected = model_.body.inputs;
    const auto refuse = [&](const std::string& why, errc code = errc::shape_mismatch) {
        throw error(code, model_.path.string() + ": " + why);
    };
    if (inputs.size() != expected.size()) {
        refuse("the network takes " + std::to_string(expected.size()) + " inputs, and is given " +
               std::to_string(inputs.size()));
    }
    bound_dimensions bound;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        const value_info& what = expected[i];
        const any_tensor& given = inputs[i];
        const std::string name = "input " + in_quotes(what.name);
        if (!given) refuse(name + " is left out");
        if (given.type() != what.type) {
            refuse(name + " is " + std::string(io::to_string(what.type)) + ", and is given " +
                   std::string(io::to_string(given.type())));
        }
        if (is_host_input(i) && !given.is_on_host()) {
            refuse(name + " has to be in host memory: other shapes depend on its numbers", errc::unsupported);
        }
        if (!what.shape) continue;
        if (what.shape->size() != given.shape().size()) {
            refuse(name + " has " + std::to_string(what.shape->size()) + " dimensions, and is given " +
                   to_string(std::span(given.shape())));
        }
        for (std::size_t d = 0; d < given.shape().size(); ++d) {
            const auto other = bound.bind((*what.shape)[d], given.shape()[d]);
            if (!other) continue;
            const std::string& label = (*what.shape)[d].name;
            refuse(name + ": dimension " + std::to_string(d) + (label.empty() ? "" : ", " + in_quotes(label) + ",") +
                   " is " + std::to_string(*other) + ", and is given " + std::to_string(given.shape()[d]));
        }
    }
}

// What the front gives, as inputs after the others. It runs at once, as every step does whose numbers the host needs.
void prepared_network::add_front_values(operators::place where, std::vector<any_tensor>& inputs) const {
    std::vector<any_tensor> given;
    for (const std::size_t each : front_inputs_) given.push_back(inputs[each]);
    const bool has_numbers =
        std::ranges::all_of(given, [](const any_tensor& each) { return each.is_on_host() || each.elements() == 0; });
    std::vector<any_tensor> values;
    if (where == operators::place::device || (where == operators::place::nowhere && has_numbers)) {
        std::vector<input_view> views;
        for (const any_tensor& each : given) views.emplace_back(each.type(), each.bytes().data(), each.shape());
        values = front_->calls()(views);
    } else {
        values = front_->run(nullptr, where, std::move(given));
    }
    inputs.insert(inputs.end(), values.begin(), values.end());
}

std::vector<any_tensor> prepared_network::run(execution_context* context, place where, std::vector<any_tensor> inputs,
                                              std::vector<operators::device_check>* checks) const {
    require_fitting(inputs);
    if (front_ != nullptr) add_front_values(where, inputs);
    operators::run_memory memory;
    return graph_run(model_, context, checks)(body_, std::move(inputs), nullptr, where);
}

}  // namespace sluice::nn::detail
