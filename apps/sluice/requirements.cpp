// SPDX-License-Identifier: Apache-2.0
#include "requirements.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

namespace sluice::app {
namespace {

// The fewest digits that identify the number: a rounded one could look as if it met the requirement.
template <class Number>
std::string exact(Number value) {
    std::array<char, 32> text{};
    const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
    return {text.data(), end};
}

}  // namespace

bool meets_tolerance(const run_options& options, const run_outcome& result) noexcept {
    if (!options.tolerance) return true;
    // As float, like the difference: then 0.1 allows a difference that is printed as 0.1.
    const double largest = std::numeric_limits<float>::max();
    const auto tolerance = static_cast<float>(std::min(*options.tolerance, largest));
    return result.largest_difference && *result.largest_difference <= tolerance;
}

bool meets_accuracy(const run_options& options, const run_outcome& result) noexcept {
    if (!options.min_accuracy) return true;
    return result.correct && accuracy_of(result) >= *options.min_accuracy;
}

double accuracy_of(const run_outcome& result) noexcept {
    return static_cast<double>(*result.correct) / static_cast<double>(result.rows);
}

std::string missed_requirements(const run_options& options, const run_outcome& result) {
    std::string text;
    if (!meets_tolerance(options, result)) {
        text = "the largest difference from " + options.reference->string() + " is " +
               exact(*result.largest_difference) + ", --tolerance allows " + exact(*options.tolerance);
    }
    if (!meets_accuracy(options, result)) {
        if (!text.empty()) text += "; ";
        text += "the accuracy is " + exact(accuracy_of(result)) + ", --min-accuracy requires " +
                exact(*options.min_accuracy);
    }
    const bool has_output = options.output || !options.outputs_of_network.empty();
    return text.empty() || !has_output ? text : text + "; no output is written";
}

}  // namespace sluice::app
