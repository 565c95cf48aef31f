// SPDX-License-Identifier: Apache-2.0
#include "nn/graph_of_model.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "nn/node_checks.hpp"
#include "sluice/base/file_error.hpp"
#include "sluice/base/printable.hpp"

namespace sluice::nn::detail {
namespace {

constexpr std::size_t most_listed = 50;  // operators in one message

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

}  // namespace

prepared_graph graph_of_model(const model& from, const operators::known_to_network& known) {
    return preparation(from, known).prepare();
}

}  // namespace sluice::nn::detail
