// SPDX-License-Identifier: Apache-2.0
#include "compare_command.hpp"

#include <sstream>

#include "compare_sides.hpp"
#include "sluice/base/error.hpp"
#include "sluice/base/printable.hpp"
#include "sluice/runtime/runtime.hpp"
#include "sluice/runtime/scheduling_policy.hpp"

namespace sluice::app {
namespace {

[[noreturn]] void refuse(const std::string& why, errc code) { throw error(code, why, {"compare"}); }

void compare_outputs(const std::vector<nn::any_tensor>& left, const std::vector<nn::any_tensor>& right,
                     const compared_side& a, const compared_side& b, compare_result& result) {
    const value_pairs outputs = pair_values(a.outputs(), b.outputs(), "outputs");
    result.is_by_place = outputs.is_by_place;
    for (std::size_t i = 0; i < left.size(); ++i) {
        const std::size_t at = outputs.of_a[i];
        if (left[i].shape() != right[at].shape()) {
            refuse("the outputs " + in_quotes(a.outputs()[i].name) + " and " + in_quotes(b.outputs()[at].name) +
                       " are " + nn::to_string(left[i]) + " and " + nn::to_string(right[at]),
                   errc::shape_mismatch);
        }
        result.outputs.push_back({.a = a.outputs()[i].name,
                                  .b = b.outputs()[at].name,
                                  .type_a = nn::to_string(left[i]),
                                  .type_b = nn::to_string(right[at]),
                                  .elements = left[i].elements(),
                                  .rows = left[i].shape().empty() ? 1 : left[i].shape()[0],
                                  .difference = difference_of(left[i], right[at])});
    }
}

std::string text_of(double number) {
    std::ostringstream text;
    text.precision(3);
    text << number;
    return text.str();
}

// In words; empty when all outputs are near enough. NaN is never near.
std::string missed_tolerance(const compare_options& options, const compare_result& result) {
    if (!options.tolerance) return {};
    for (const compared_output& each : result.outputs) {
        if (each.difference.absolute <= *options.tolerance) continue;
        return "the largest difference of the output " + in_quotes(each.a) + " is " +
               text_of(each.difference.absolute) + ", --tolerance allows " + text_of(*options.tolerance);
    }
    return {};
}

// Where both sides are files.
void refuse_inputs(const compare_options& options) {
    if (options.input.empty() && options.inputs.files.empty() && options.inputs.lengths.empty() && options.batch == 0)
        return;
    refuse("two files of outputs are compared as they are: leave out inputs, --size and --batch",
           errc::invalid_argument);
}

}  // namespace

compare_result compare(const compare_options& options) {
    compared_side a(options.a, options.network), b(options.b, options.network);
    compare_result result;
    if (!a.is_network() && !b.is_network()) {
        refuse_inputs(options);
        compare_outputs(a.outputs_for({}, nullptr), b.outputs_for({}, nullptr), a, b, result);
    } else {
        const runtime machine({.cuda = !options.device.starts_with("cpu")});
        device& on = machine.find(options.device);
        result.device = on.name() + " (" + on.properties().name + ")";
        round_robin pool(on, 4);
        a.bring(pool);
        b.bring(pool);
        const same_inputs inputs(options, a, b);
        result.inputs = inputs.source();
        compare_outputs(a.outputs_for(inputs.of_a(), &pool), b.outputs_for(inputs.of_b(), &pool), a, b, result);
    }
    result.missed = missed_tolerance(options, result);
    return result;
}

}  // namespace sluice::app
