// SPDX-License-Identifier: Apache-2.0
#include "inline_functions.hpp"

#include <onnx.pb.h>
#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "sluice/base/file_error.hpp"
#include "sluice/base/printable.hpp"

namespace sluice::nn::detail {
namespace {

// Files of some kilobytes could name more nodes than memory can hold.
constexpr std::size_t most_nodes = 100'000;
constexpr int deepest_call = 64;

std::string own_domain(const std::string& domain) { return domain == "ai.onnx" ? std::string() : domain; }

class inliner {
public:
    inliner(const std::filesystem::path& path, onnx::ModelProto& file, const own_operators& own)
        : path_(path), file_(file), own_(own) {
        for (const onnx::FunctionProto& each : file.functions()) {
            const std::string label = "function " + in_quotes(each.name());
            if (!each.unknown_fields().empty()) refuse(label, "has a field that is not known");
            if (!functions_.emplace(key_of(each.domain(), each.name(), each.overload()), &each).second)
                refuse(label, "is there twice");
        }
    }

    void run() {
        if (functions_.empty()) return;
        expand(*file_.mutable_graph(), 0);
        for (const auto& [domain, version] : imports_) {
            const bool is_there = std::ranges::any_of(
                file_.opset_import(), [&](const auto& each) { return own_domain(each.domain()) == domain; });
            if (is_there) continue;
            onnx::OperatorSetIdProto& made = *file_.add_opset_import();
            made.set_domain(domain);
            made.set_version(version);
        }
    }

private:
    [[noreturn]] void refuse(std::string_view field, std::string_view why) const {
        throw file_error(path_, file_error::no_offset, field, why);
    }

    static std::string key_of(const std::string& domain, const std::string& name, const std::string& overload) {
        return own_domain(domain) + "\n" + name + "\n" + overload;
    }
    static std::string label_of(const onnx::NodeProto& each) {
        return "node " + in_quotes(each.name()) + " (" + printable(each.op_type()) + ")";
    }

    const onnx::FunctionProto* called_by(const onnx::NodeProto& each) const {
        if (own_.contains(each.domain(), each.op_type())) return nullptr;
        const auto found = functions_.find(key_of(each.domain(), each.op_type(), each.overload()));
        return found == functions_.end() ? nullptr : found->second;
    }

    void count(std::size_t& what) const {
        if (++what > most_nodes)
            refuse("functions", "make more than " + std::to_string(most_nodes) + " nodes of the model");
    }

    // The nodes' own lists are replaced: those before a call, the function's, those after it.
    void expand(onnx::GraphProto& in, int depth) {
        onnx::GraphProto made;
        for (onnx::NodeProto& each : *in.mutable_node()) add(made, each, depth);
        in.mutable_node()->Swap(made.mutable_node());
    }

    // Takes the node.
    void add(onnx::GraphProto& to, onnx::NodeProto& each, int depth) {
        for (onnx::AttributeProto& attribute : *each.mutable_attribute())
            if (attribute.has_g()) expand(*attribute.mutable_g(), depth);
        const onnx::FunctionProto* const function = called_by(each);
        if (function == nullptr) {
            count(nodes_);
            to.add_node()->Swap(&each);
            return;
        }
        if (depth == deepest_call) refuse(label_of(each), "calls functions in a circle, or too deep");
        check(each, *function);
        count(calls_);
        const std::string prefix =
            (each.name().empty() ? function->name() : each.name()) + "#" + std::to_string(calls_) + "/";
        std::map<std::string, std::string> names;
        for (int i = 0; i < function->input_size(); ++i)
            names[function->input(i)] = i < each.input_size() ? each.input(i) : std::string();
        for (int i = 0; i < function->output_size(); ++i)
            if (i < each.output_size() && !each.output(i).empty()) names[function->output(i)] = each.output(i);
        for (const onnx::NodeProto& inside : function->node()) {
            onnx::NodeProto copy = inside;
            rename(copy, names, prefix);
            fill_attributes(copy, each, *function);
            add(to, copy, depth + 1);
        }
    }

    void check(const onnx::NodeProto& call, const onnx::FunctionProto& function) {
        if (call.input_size() > function.input_size() || call.output_size() > function.output_size())
            refuse(label_of(call), "has more inputs or outputs than the function that it calls");
        for (const onnx::AttributeProto& each : call.attribute()) {
            const auto has_name = [&](const auto& one) { return one.name() == each.name(); };
            const bool is_known = std::ranges::find(function.attribute(), each.name()) != function.attribute().end() ||
                                  std::ranges::any_of(function.attribute_proto(), has_name);
            if (!is_known)
                refuse(label_of(call), "has the attribute " + in_quotes(each.name()) + ", which its function has not");
        }
        for (const onnx::OperatorSetIdProto& each : function.opset_import()) {
            const std::string domain = own_domain(each.domain());
            for (const onnx::OperatorSetIdProto& own : file_.opset_import()) {
                if (own_domain(own.domain()) == domain && own.version() != each.version()) {
                    refuse("function " + in_quotes(function.name()),
                           "is written for operator set " + std::to_string(each.version()) + ", and the model for " +
                               std::to_string(own.version()));
                }
            }
            const auto [known, is_new] = imports_.emplace(domain, each.version());
            if (!is_new && known->second != each.version())
                refuse("functions", "are written for different versions of one operator set");
        }
    }

    static std::string renamed(const std::string& name, const std::map<std::string, std::string>& names,
                               const std::string& prefix) {
        if (name.empty()) return name;
        const auto found = names.find(name);
        return found != names.end() ? found->second : prefix + name;
    }

    static void rename(onnx::NodeProto& each, const std::map<std::string, std::string>& names,
                       const std::string& prefix) {
        each.set_name(prefix + each.name());
        for (std::string& name : *each.mutable_input()) name = renamed(name, names, prefix);
        for (std::string& name : *each.mutable_output()) name = renamed(name, names, prefix);
        for (onnx::AttributeProto& attribute : *each.mutable_attribute())
            if (attribute.has_g()) rename(*attribute.mutable_g(), names, prefix);
    }
    static void rename(onnx::GraphProto& in, const std::map<std::string, std::string>& names,
                       const std::string& prefix) {
        for (onnx::ValueInfoProto& each : *in.mutable_input()) each.set_name(renamed(each.name(), names, prefix));
        for (onnx::ValueInfoProto& each : *in.mutable_output()) each.set_name(renamed(each.name(), names, prefix));
        for (onnx::TensorProto& each : *in.mutable_initializer()) each.set_name(renamed(each.name(), names, prefix));
        for (onnx::NodeProto& each : *in.mutable_node()) rename(each, names, prefix);
    }

    // An attribute that refers to one of the function's gets the call's value, or the function's own; without both it
    // is left out.
    void fill_attributes(onnx::NodeProto& each, const onnx::NodeProto& call,
                         const onnx::FunctionProto& function) const {
        onnx::NodeProto filled;
        for (onnx::AttributeProto& attribute : *each.mutable_attribute()) {
            if (attribute.has_g()) {
                for (onnx::NodeProto& inside : *attribute.mutable_g()->mutable_node())
                    fill_attributes(inside, call, function);
            }
            if (!attribute.has_ref_attr_name()) {
                filled.add_attribute()->Swap(&attribute);
                continue;
            }
            const onnx::AttributeProto* const value = value_of(attribute.ref_attr_name(), call, function);
            if (value == nullptr) continue;
            onnx::AttributeProto& made = *filled.add_attribute();
            made = *value;
            made.set_name(attribute.name());
        }
        each.mutable_attribute()->Swap(filled.mutable_attribute());
    }
    static const onnx::AttributeProto* value_of(const std::string& name, const onnx::NodeProto& call,
                                                const onnx::FunctionProto& function) {
        for (const onnx::AttributeProto& each : call.attribute())
            if (each.name() == name) return &each;
        for (const onnx::AttributeProto& each : function.attribute_proto())
            if (each.name() == name) return &each;
        return nullptr;
    }

    const std::filesystem::path& path_;
    onnx::ModelProto& file_;
    const own_operators& own_;
    std::map<std::string, const onnx::FunctionProto*> functions_;
    std::map<std::string, std::int64_t> imports_;
    std::size_t nodes_ = 0, calls_ = 0;
};

}  // namespace

void inline_functions(const std::filesystem::path& path, onnx::ModelProto& file, const own_operators& own) {
    inliner(path, file, own).run();
}

}  // namespace sluice::nn::detail
