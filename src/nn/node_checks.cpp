// SPDX-License-Identifier: Apache-2.0
#include "nn/node_checks.hpp"

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <variant>

#include "sluice/base/file_error.hpp"
#include "sluice/base/printable.hpp"

namespace sluice::nn::detail {
namespace {

std::string text_of(const operators::definition& what) {
    std::string text = std::to_string(what.least_inputs);
    if (what.most_inputs == operators::any_number) return text + " or more";
    return what.most_inputs == what.least_inputs ? text : text + " to " + std::to_string(what.most_inputs);
}

}  // namespace

void check_node(const std::filesystem::path& path, const node& which, std::size_t position,
                const operators::definition& what) {
    const auto refuse = [&](const std::string& why) {
        throw file_error(path, file_error::no_offset, label_of(which, position), why);
    };
    if (which.inputs.size() < what.least_inputs || which.inputs.size() > what.most_inputs)
        refuse("has " + std::to_string(which.inputs.size()) + " inputs; the operator takes " + text_of(what));
    for (std::size_t i = 0; i < what.least_inputs; ++i)
        if (which.inputs[i].empty()) refuse("leaves out its input " + std::to_string(i));
    // Where any number of inputs is possible, only those that say how often a graph runs may be left out.
    if (what.most_inputs == operators::any_number && what.own == nullptr) {
        for (std::size_t i = what.least_inputs; i < which.inputs.size(); ++i)
            if (which.inputs[i].empty() && (what.host_inputs & operators::input_bit(i)) == 0)
                refuse("leaves out its input " + std::to_string(i));
    }
    if (std::ranges::all_of(which.outputs, &std::string::empty)) refuse("has no outputs");
    if (which.outputs.size() > what.most_outputs)
        refuse("has " + std::to_string(which.outputs.size()) + " outputs, which is too many");
    for (const auto& [name, value] : which.attributes) {
        if (std::ranges::find(what.attributes, name) == what.attributes.end()) {
            std::string known;
            for (const std::string_view one : what.attributes) known += (known.empty() ? "" : ", ") + std::string(one);
            refuse("has the attribute " + in_quotes(name) + ", which its operator does not have" +
                   (known.empty() ? "" : "; it has " + known));
        }
        if (what.own != nullptr && std::holds_alternative<std::shared_ptr<const graph>>(value))
            refuse("has a graph as its attribute " + in_quotes(name) + ", which only operators of ONNX can run");
    }
}

}  // namespace sluice::nn::detail
