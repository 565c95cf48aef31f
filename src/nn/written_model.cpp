// SPDX-License-Identifier: Apache-2.0
#include "nn/written_model.hpp"

#include <algorithm>
#include <exception>
#include <functional>
#include <limits>

#include "nn/nearest_name.hpp"
#include "nn/node_checks.hpp"
#include "sluice/base/printable.hpp"
#include "sluice/nn/onnx.hpp"

namespace sluice::nn::detail {
namespace {

using operators::definition;

constexpr std::int64_t version_of_onnx_ml = 5;

std::string full_name(std::string_view domain, std::string_view name) {
    return (domain.empty() ? "" : std::string(domain) + ".") + std::string(name);
}

// "7 to 9", "10 and later"
std::string versions_of(const definition& of) {
    const bool is_open = of.until == std::numeric_limits<std::int64_t>::max();
    return std::to_string(of.since) + (is_open ? " and later" : " to " + std::to_string(of.until));
}

}  // namespace

written_model::written_model(std::string name, model_builder_options options)
    : options_(std::move(options)), known_(options_.own) {
    network_.path = name.empty() ? "model" : std::move(name);
    network_.producer = "sluice";
    network_.opsets.emplace("", options_.opset);
}

void written_model::refuse(const source_location& location, const std::string& why, errc code) const {
    throw error(code, printable(network_.path.string()) + ": " + why, {{}, {}, location});
}

void written_model::require_free(const std::string& name, const char* what, const source_location& location) const {
    if (name.empty()) refuse(location, std::string(what) + " has no name");
    if (names_.contains(name))
        refuse(location, std::string(what) + " has the name " + in_quotes(name) + ", which is taken");
}

// --- inputs, constants, outputs -------------------------------------------------------------------------------

std::size_t written_model::add_input(value_info info, const source_location& location) {
    require_free(info.name, "an input", location);
    tried_value tried;
    try {
        tried = lengths_.value_of(info.type, *info.shape);
    } catch (const error& failure) {
        refuse(location, "the input " + in_quotes(info.name) + ": " + failure.what(), errc::shape_mismatch);
    }
    names_.insert(info.name);
    values_.push_back({info.name, std::move(tried), false});
    inputs_.push_back(std::move(info));
    return values_.size() - 1;
}

std::size_t written_model::add_constant(std::string name, any_tensor contents, const source_location& location) {
    if (!contents || contents.host_owner() == nullptr)
        refuse(location, "a constant is " + to_string(contents) + " that is not in host memory");
    if (!name.empty()) {
        while (names_.contains(name)) name += "_";
        names_.insert(name);
    }
    constants_.emplace_back(values_.size(), constant{contents.type(), contents.shape(), contents.host_owner()});
    values_.push_back({std::move(name), {contents, contents}, false});
    return values_.size() - 1;
}

void written_model::add_output(std::string name, std::size_t place, io::dtype type, const source_location& location) {
    require_free(name, "an output", location);
    if (place == left_out) refuse(location, "the output " + in_quotes(name) + " is no value");
    const tried_value& known = tried(place);
    if (is_known(known) && known[0].type() != type) {
        refuse(location, "the output " + in_quotes(name) + " is " + std::string(io::to_string(known[0].type())) +
                             ", and not " + std::string(io::to_string(type)));
    }
    names_.insert(name);
    outputs_.push_back({place, {std::move(name), type, lengths_.shape_of(known)}});
}

// --- nodes ----------------------------------------------------------------------------------------------------

std::int64_t written_model::version_of(std::string_view domain) const {
    if (domain.empty()) return options_.opset;
    if (domain == operators::onnx_ml) return version_of_onnx_ml;
    std::int64_t newest = 1;
    for (const definition& each : known_.own())
        if (each.domain == domain) newest = std::max(newest, each.since);
    return newest;
}

const definition& written_model::find(std::string_view domain, std::string_view op,
                                      const source_location& location) const {
    const std::int64_t version = version_of(domain);
    if (const definition* const found = known_.find(domain, op, version)) return *found;
    std::vector<const definition*> all = operators::all_operators();
    for (const definition& each : known_.own()) all.push_back(&each);
    std::string versions;
    std::vector<std::string> names;
    for (const definition* const each : all) {
        names.push_back(full_name(each->domain, each->name));
        if (each->domain == domain && each->name == op) versions += (versions.empty() ? "" : ", ") + versions_of(*each);
    }
    const std::string name = full_name(domain, op);
    if (!versions.empty()) {
        refuse(location,
               "the operator " + in_quotes(name) + " is in versions " + versions +
                   " of its operator set, and the model is written for version " + std::to_string(version),
               errc::unsupported);
    }
    refuse(location,
           "there is no operator " + in_quotes(name) + "; the nearest is " + in_quotes(nearest_name(name, names)),
           errc::unsupported);
}

written_model::places written_model::add_node(std::size_t output_count, std::string_view op, places inputs,
                                              const std::vector<named_attribute>& with,
                                              const source_location& location) {
    const auto dot = op.rfind('.');
    std::string domain(dot == std::string_view::npos ? std::string_view() : op.substr(0, dot));
    if (domain == "ai.onnx") domain.clear();
    if (dot != std::string_view::npos) op.remove_prefix(dot + 1);
    const definition& what = find(domain, op, location);
    node made;
    made.name = std::string(op) + "_" + std::to_string(nodes_.size());
    made.domain = domain;
    made.op = op;
    for (const std::size_t each : inputs)
        made.inputs.push_back(each == left_out ? std::string() : std::to_string(each));
    for (std::size_t i = 0; i < output_count; ++i) made.outputs.push_back(std::to_string(values_.size() + i));
    for (const named_attribute& each : with) {
        if (!made.attributes.emplace(each.name, each.value).second)
            refuse(location, label_of(made, nodes_.size()) + ": has the attribute " + in_quotes(each.name) + " twice");
    }
    std::vector<tried_value> found = try_all(made, what, inputs, location);
    network_.opsets.emplace(domain, version_of(domain));
    places given;
    for (tried_value& each : found) {
        given.push_back(values_.size());
        values_.push_back({{}, std::move(each), true});
    }
    nodes_.push_back({std::move(made), std::move(inputs), given});
    return given;
}

// What is known of the outputs.
std::vector<tried_value> written_model::try_all(const node& which, const definition& what, const places& inputs,
                                                const source_location& location) const {
    std::vector<tried_value> made(which.outputs.size());
    std::size_t t = 0;
    try {
        check_node(network_.path, which, nodes_.size(), what);
        const node_to_try to_try{network_.path, which, nodes_.size(), version_of(which.domain), what};
        for (; t < tries; ++t) {
            std::vector<any_tensor> given;
            for (const std::size_t each : inputs)
                given.push_back(each == left_out ? any_tensor() : values_[each].tried[t]);
            auto outputs = try_node(to_try, given);
            if (!outputs) return std::vector<tried_value>(made.size());
            for (std::size_t i = 0; i < made.size(); ++i) made[i][t] = std::move((*outputs)[i]);
        }
    } catch (const error& failure) {
        if (failure.code().category() != sluice_category() || failure.code() == errc::out_of_memory) throw;
        const bool is_bad = failure.code() == errc::bad_file;  // there is no file
        const std::string lengths = lengths_.text(t);
        const std::string text = failure.what() + (lengths.empty() ? "" : "; lengths tried: " + lengths);
        std::throw_with_nested(
            error(is_bad ? make_error_code(errc::invalid_argument) : failure.code(), text, {{}, {}, location}));
    }
    return made;
}

void written_model::undo(const sizes& since) {
    values_.erase(values_.begin() + static_cast<std::ptrdiff_t>(since.values), values_.end());
    constants_.erase(constants_.begin() + static_cast<std::ptrdiff_t>(since.constants), constants_.end());
    nodes_.erase(nodes_.begin() + static_cast<std::ptrdiff_t>(since.nodes), nodes_.end());
}

// --- the model ------------------------------------------------------------------------------------------------

// Of all values. A node gives an output of the network itself, under the first name that it has; other outputs are
// copies.
std::vector<std::string> written_model::final_names(std::vector<const written_output*>& copies) const {
    std::vector<std::string> names;
    for (const written_value& each : values_) names.push_back(each.name);
    for (const written_output& each : outputs_) {
        if (values_[each.place].is_of_node && names[each.place].empty()) {
            names[each.place] = each.info.name;
        } else {
            copies.push_back(&each);
        }
    }
    std::set<std::string, std::less<>> taken = names_;
    for (std::size_t i = 0; i < names.size(); ++i) {
        if (!names[i].empty()) continue;
        names[i] = "#" + std::to_string(i);
        while (!taken.insert(names[i]).second) names[i] += "_";
    }
    return names;
}

model written_model::finished() const {
    model made = network_;
    std::vector<const written_output*> copies;
    const std::vector<std::string> names = final_names(copies);
    made.body.inputs = inputs_;
    for (const written_output& each : outputs_) made.body.outputs.push_back(each.info);
    for (const auto& [at, contents] : constants_) made.body.constants.emplace(names[at], contents);
    for (const written_node& each : nodes_) {
        node& next = made.body.nodes.emplace_back(each.what);
        for (std::size_t i = 0; i < each.inputs.size(); ++i)
            if (each.inputs[i] != left_out) next.inputs[i] = names[each.inputs[i]];
        for (std::size_t i = 0; i < each.outputs.size(); ++i) next.outputs[i] = names[each.outputs[i]];
    }
    for (const written_output* const each : copies) {
        node copy;
        copy.name = "Identity_" + std::to_string(made.body.nodes.size());
        copy.op = "Identity";
        copy.inputs = {names[each->place]};
        copy.outputs = {each->info.name};
        made.body.nodes.push_back(std::move(copy));
    }
    check(made);
    return made;
}

}  // namespace sluice::nn::detail
