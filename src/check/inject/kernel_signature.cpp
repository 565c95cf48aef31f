// SPDX-License-Identifier: Apache-2.0
#include "check/inject/kernel_signature.hpp"

#include <cstddef>
#include <string_view>

#include "check/inject/demangled.hpp"

namespace sluice::check {
namespace {

bool opens(char each) { return each == '(' || each == '<' || each == '[' || each == '{'; }
bool closes(char each) { return each == ')' || each == '>' || each == ']' || each == '}'; }

// What is in the last parentheses: "float*, float" of "void scale<int>(float*,
// float)".
std::string_view parameters_of_name(std::string_view name) {
    const std::size_t end = name.rfind(')');
    if (end == std::string_view::npos) return {};
    int depth = 0;
    for (std::size_t i = end + 1; i-- > 0;) {
        if (name[i] == ')') ++depth;
        if (name[i] == '(' && --depth == 0) return name.substr(i + 1, end - i - 1);
    }
    return {};
}

parameter_kind kind_of(std::string_view type) {
    if (!type.ends_with('*')) return parameter_kind::no_pointer;
    type.remove_suffix(1);
    return type.ends_with("const") ? parameter_kind::const_pointer : parameter_kind::pointer;
}

std::vector<parameter_kind> kinds_in(std::string_view list) {
    std::vector<parameter_kind> kinds;
    int depth = 0;
    std::size_t begin = 0;
    for (std::size_t i = 0; i <= list.size(); ++i) {
        if (i < list.size() && opens(list[i])) ++depth;
        if (i < list.size() && closes(list[i])) --depth;
        if (i != list.size() && (list[i] != ',' || depth != 0)) continue;
        kinds.push_back(kind_of(list.substr(begin, i - begin)));
        begin = i + 2;
    }
    return list.empty() ? std::vector<parameter_kind>() : kinds;
}

}  // namespace

kernel_signature signature_of(const std::string& mangled, std::size_t parameters) {
    kernel_signature made;
    made.name = demangled(mangled);
    if (made.name != mangled) made.parameters = kinds_in(parameters_of_name(made.name));
    made.has_types = made.name != mangled && made.parameters.size() == parameters;
    if (!made.has_types) made.parameters.assign(parameters, parameter_kind::unknown);
    return made;
}

void refine(kernel_signature& known, const std::vector<ptx_access>& by) {
    if (by.size() != known.parameters.size()) return;
    for (std::size_t i = 0; i < by.size(); ++i) {
        parameter_kind& kind = known.parameters[i];
        if (kind == parameter_kind::no_pointer || by[i] == ptx_access::unknown) continue;
        if (by[i] == ptx_access::none) kind = parameter_kind::no_pointer;
        if (by[i] == ptx_access::read) kind = parameter_kind::const_pointer;
        if (by[i] == ptx_access::written && kind == parameter_kind::unknown) kind = parameter_kind::pointer;
    }
}

}  // namespace sluice::check
