// SPDX-License-Identifier: Apache-2.0
#include "network_words.hpp"

#include <algorithm>
#include <memory>
#include <sstream>
#include <variant>

#include "sluice/nn/any_tensor.hpp"

namespace sluice::app {
namespace {

constexpr std::size_t most_elements = 8, most_characters = 60;

template <typename T>
std::string list_of(const std::vector<T>& values) {
    std::ostringstream text;
    for (std::size_t i = 0; i < std::min(values.size(), most_elements); ++i) text << (i == 0 ? "" : ", ") << values[i];
    if (values.size() > most_elements) text << " ... (" << values.size() << ")";
    return text.str();
}

std::string cut(const std::string& text) {
    return text.size() <= most_characters ? text : text.substr(0, most_characters) + "...";
}

struct attribute_text {
    std::string operator()(std::int64_t value) const { return std::to_string(value); }
    std::string operator()(float value) const { return list_of(std::vector{value}); }
    std::string operator()(const std::string& value) const { return cut(value); }
    std::string operator()(const nn::constant& value) const { return text_of(value); }
    std::string operator()(const std::shared_ptr<const nn::graph>&) const { return {}; }
    template <typename T>
    std::string operator()(const std::vector<T>& values) const {
        return cut(list_of(values));
    }
};

}  // namespace

std::string text_of(const nn::value_info& value) {
    std::string text = (value.is_text ? "text" : std::string(to_string(value.type))) + " ";
    if (!value.shape) return text + "?";
    text += "[";
    for (std::size_t i = 0; i < value.shape->size(); ++i) {
        const nn::dimension& each = (*value.shape)[i];
        if (i != 0) text += ", ";
        text += each.length ? std::to_string(*each.length) : each.name.empty() ? "?" : each.name;
    }
    return text + "]";
}

std::string text_of(const nn::constant& value) {
    return std::string(to_string(value.type)) + " " + nn::to_string(std::span(value.shape));
}

std::string operator_of(const nn::node& each) { return each.domain.empty() ? each.op : each.domain + "." + each.op; }

std::vector<std::string> attributes_of(const nn::node& each) {
    std::vector<std::string> all;
    for (const auto& [name, value] : each.attributes) {
        const bool is_graph = std::holds_alternative<std::shared_ptr<const nn::graph>>(value);
        if (!is_graph) all.push_back(name + " " + std::visit(attribute_text(), value));
    }
    return all;
}

std::string joined(const std::vector<std::string>& names, const char* between) {
    std::string text;
    for (const std::string& each : names) text += (text.empty() ? "" : between) + (each.empty() ? "-" : each);
    return text;
}

}  // namespace sluice::app
