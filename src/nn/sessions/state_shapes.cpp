// SPDX-License-Identifier: Apache-2.0
#include "nn/sessions/state_shapes.hpp"

#include <cstddef>
#include <utility>

#include "sluice/base/error.hpp"
#include "sluice/base/printable.hpp"
#include "sluice/io/dtype.hpp"
#include "sluice/nn/any_tensor.hpp"

namespace sluice::nn::detail {

std::string text_of(const value_info& value) {
    std::string text = value.is_text ? "text" : std::string(io::to_string(value.type));
    if (!value.shape) return text + " of any shape";
    std::string lengths;
    for (const dimension& each : *value.shape) {
        if (!lengths.empty()) lengths += ", ";
        lengths += each.length ? std::to_string(*each.length) : each.name.empty() ? "?" : printable(each.name, 40);
    }
    return text + " [" + lengths + "]";
}

std::string why_not_next(const value_info& output, const value_info& input) {
    bool fits = output.type == input.type && output.is_text == input.is_text;
    if (fits && output.shape && input.shape) {
        fits = output.shape->size() == input.shape->size();
        for (std::size_t d = 0; fits && d < input.shape->size(); ++d) {
            const auto &one = (*output.shape)[d].length, &other = (*input.shape)[d].length;
            fits = !one || !other || *one == *other;
        }
    }
    if (fits) return {};
    return "the output " + in_quotes(output.name) + ", " + text_of(output) + ", cannot be the next input " +
           in_quotes(input.name) + ", " + text_of(input);
}

void bind_lengths(const value_info& of, std::span<const std::size_t> shape, bound_lengths& to) {
    if (!of.shape || of.shape->size() != shape.size()) return;
    for (std::size_t d = 0; d < shape.size(); ++d)
        if (const dimension& each = (*of.shape)[d]; !each.length && !each.name.empty()) to.emplace(each.name, shape[d]);
}

std::optional<std::vector<std::size_t>> bound_shape(const value_info& of, const bound_lengths& lengths) {
    if (!of.shape) return {};
    std::vector<std::size_t> shape;
    for (const dimension& each : *of.shape) {
        const auto found = each.name.empty() ? lengths.end() : lengths.find(each.name);
        if (!each.length && found == lengths.end()) return {};
        shape.push_back(each.length ? *each.length : found->second);
    }
    return shape;
}

void require_shape(const value_info& of, std::span<const std::size_t> shape) {
    bool fits = !of.shape || of.shape->size() == shape.size();
    for (std::size_t d = 0; fits && of.shape && d < shape.size(); ++d)
        fits = !(*of.shape)[d].length || *(*of.shape)[d].length == shape[d];
    if (fits) return;
    throw error(errc::shape_mismatch,
                in_quotes(of.name) + " is " + text_of(of) + ", and is given the shape " + to_string(shape),
                {"session"});
}

}  // namespace sluice::nn::detail
