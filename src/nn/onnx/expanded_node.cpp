// SPDX-License-Identifier: Apache-2.0
#include "expanded_node.hpp"

#include <algorithm>
#include <memory>

#include "sluice/base/file_error.hpp"
#include "sluice/base/printable.hpp"
#include "sluice/nn/onnx.hpp"

namespace sluice::nn::detail {
namespace {

std::int64_t own_opset(const model& of) {
    const auto found = of.opsets.find("");
    return found != of.opsets.end() ? found->second : newest_onnx_opset;
}

template <typename T>
constant constant_of_values(io::dtype type, const std::vector<T>& values, std::vector<std::size_t> shape) {
    const auto* const bytes = reinterpret_cast<const char*>(values.data());
    return {.type = type,
            .shape = std::move(shape),
            .bytes = std::make_shared<const std::string>(bytes, values.size() * sizeof(T))};
}

}  // namespace

expanded_node::expanded_node(const model& of, node what, std::size_t position, std::span<graph* const> scopes,
                             new_names& names, std::vector<node>& to)
    : model_(of),
      node_(std::move(what)),
      position_(position),
      scopes_(scopes),
      names_(names),
      to_(to),
      opset_(own_opset(of)) {}

void expanded_node::refuse(std::string_view why) const {
    throw file_error(model_.path, file_error::no_offset, label_of(node_, position_), why);
}
void expanded_node::refuse_unsupported(std::string_view why) const {
    throw file_error(model_.path, file_error::no_offset, label_of(node_, position_), why, errc::unsupported);
}

std::int64_t expanded_node::integer(std::string_view name, std::int64_t otherwise) const {
    const auto* const found = node_.find<std::int64_t>(name);
    return found != nullptr ? *found : otherwise;
}
float expanded_node::real(std::string_view name, float otherwise) const {
    const auto* const found = node_.find<float>(name);
    return found != nullptr ? *found : otherwise;
}
std::string expanded_node::text(std::string_view name, std::string_view otherwise) const {
    const auto* const found = node_.find<std::string>(name);
    return found != nullptr ? *found : std::string(otherwise);
}

named_attributes expanded_node::some(std::initializer_list<std::string_view> names) const {
    named_attributes made;
    for (const auto& [name, value] : node_.attributes)
        if (std::ranges::find(names, name) != names.end()) made.emplace(name, value);
    return made;
}

void expanded_node::require(std::size_t least_inputs, std::size_t most_inputs, std::size_t outputs,
                            std::initializer_list<std::string_view> attributes) const {
    if (node_.inputs.size() < least_inputs || node_.inputs.size() > most_inputs) {
        refuse("has " + std::to_string(node_.inputs.size()) + " inputs; " + std::to_string(least_inputs) + " to " +
               std::to_string(most_inputs) + " are possible");
    }
    if (node_.outputs.empty() || node_.outputs.size() > outputs)
        refuse("has " + std::to_string(node_.outputs.size()) + " outputs; 1 to " + std::to_string(outputs) +
               " are possible");
    for (const auto& [name, value] : node_.attributes) {
        if (std::ranges::find(attributes, name) == attributes.end())
            refuse("has the attribute " + in_quotes(name) + ", which its operator does not have");
    }
}

const constant* expanded_node::constant_of(std::string_view value) const {
    for (std::size_t i = scopes_.size(); i-- > 0;) {
        // A caller may give another one.
        if (std::ranges::find(scopes_[i]->defaults, value, &value_info::name) != scopes_[i]->defaults.end())
            return nullptr;
        const auto found = scopes_[i]->constants.find(value);
        if (found != scopes_[i]->constants.end()) return &found->second;
    }
    return nullptr;
}

bool expanded_node::is_given_by(std::string_view value, std::string_view op) const {
    return std::ranges::any_of(to_, [&](const node& each) {
        return each.op == op && std::ranges::find(each.outputs, value) != each.outputs.end();
    });
}

std::string expanded_node::new_name() {
    const std::string base = (node_.name.empty() ? node_.op + "#" + std::to_string(position_) : node_.name) + "/";
    std::string name;
    do name = base + std::to_string(made_++);
    while (!names_.take(name));
    return name;
}

std::string expanded_node::add_constant(constant value) {
    std::string name = new_name();
    scopes_.back()->constants.emplace(name, std::move(value));
    return name;
}
std::string expanded_node::number(float value) {
    return add_constant(constant_of_values(io::dtype::f32, std::vector{value}, {}));
}
std::string expanded_node::integers(const std::vector<std::int64_t>& values) {
    return add_constant(constant_of_values(io::dtype::i64, values, {values.size()}));
}

std::string expanded_node::apply(std::string_view op, std::vector<std::string> inputs, named_attributes with) {
    std::string name = new_name();
    to_.push_back({.name = name,
                   .domain = {},
                   .op = std::string(op),
                   .inputs = std::move(inputs),
                   .outputs = {name},
                   .attributes = std::move(with)});
    return name;
}
std::string expanded_node::give(std::size_t output, std::string_view op, std::vector<std::string> inputs,
                                named_attributes with) {
    to_.push_back({.name = node_.name.empty() ? new_name() : node_.name,
                   .domain = {},
                   .op = std::string(op),
                   .inputs = std::move(inputs),
                   .outputs = {node_.outputs[output]},
                   .attributes = std::move(with)});
    return node_.outputs[output];
}
std::vector<std::string> expanded_node::apply_to_several(std::size_t outputs, std::string_view op,
                                                         std::vector<std::string> inputs) {
    std::vector<std::string> made;
    for (std::size_t i = 0; i < outputs; ++i) made.push_back(new_name());
    to_.push_back({.name = made[0],
                   .domain = {},
                   .op = std::string(op),
                   .inputs = std::move(inputs),
                   .outputs = made,
                   .attributes = {}});
    return made;
}
void expanded_node::give_all(std::string_view op, std::vector<std::string> inputs, named_attributes with) {
    to_.push_back({.name = node_.name,
                   .domain = {},
                   .op = std::string(op),
                   .inputs = std::move(inputs),
                   .outputs = node_.outputs,
                   .attributes = std::move(with)});
}

}  // namespace sluice::nn::detail
