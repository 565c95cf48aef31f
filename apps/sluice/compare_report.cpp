// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <iomanip>
#include <ostream>
#include <span>
#include <sstream>

#include "compare_command.hpp"
#include "json_line.hpp"
#include "sluice/base/printable.hpp"
#include "text_table.hpp"

namespace sluice::app {
namespace {

std::string text_of(double number) {
    std::ostringstream text;
    text << std::setprecision(3) << number;
    return text.str();
}

}  // namespace

void write_json(const compare_options& options, const compare_result& result, std::ostream& out) {
    auto outputs = nlohmann::json::array();
    // JSON has no NaN and no infinity: null says that there was a difference but no number for it.
    const auto number = [](double each) {
        return std::isfinite(each) ? nlohmann::json(each) : nlohmann::json(nullptr);
    };
    for (const compared_output& each : result.outputs) {
        nlohmann::json one{{"a", each.a},
                           {"b", each.b},
                           {"tensor_a", each.type_a},
                           {"tensor_b", each.type_b},
                           {"largest_difference", number(each.difference.absolute)},
                           {"largest_relative_difference", number(each.difference.relative)},
                           {"differing_elements", each.difference.differing},
                           {"place", each.difference.place}};
        if (each.difference.agreeing_rows) {
            one["rows"] = each.rows;
            one["agreeing_rows"] = *each.difference.agreeing_rows;
        }
        outputs.push_back(std::move(one));
    }
    nlohmann::json line{{"a", options.a.string()},
                        {"b", options.b.string()},
                        {"outputs", outputs},
                        {"pairs", result.is_by_place ? "place" : "name"}};
    if (!result.device.empty()) line["device"] = result.device;
    if (!result.inputs.empty()) line["inputs"] = result.inputs;
    if (options.tolerance) {
        line["tolerance"] = *options.tolerance;
        line["passed"] = result.missed.empty();
    }
    out << json_line(line) << '\n';
}

void write_text(const compare_options& options, const compare_result& result, std::ostream& out) {
    out << "a: " << printable(options.a.native()) << "\nb: " << printable(options.b.native()) << '\n';
    if (!result.device.empty()) out << "device: " << printable(result.device) << '\n';
    if (!result.inputs.empty()) out << "inputs: " << printable(result.inputs) << '\n';
    text_table table(
        {"output", "tensor", "largest", "relative", "at", "a there", "b there", "differing", "same class"});
    for (const compared_output& each : result.outputs) {
        const tensor_difference& how = each.difference;
        table.add({each.a == each.b ? each.a : each.a + " / " + each.b,
                   each.type_a == each.type_b ? each.type_a : each.type_a + " / " + each.type_b, text_of(how.absolute),
                   text_of(how.relative), how.differing == 0 ? "-" : nn::to_string(std::span(how.place)),
                   how.differing == 0 ? "-" : text_of(static_cast<double>(how.a)),
                   how.differing == 0 ? "-" : text_of(static_cast<double>(how.b)),
                   std::to_string(how.differing) + " of " + std::to_string(each.elements),
                   how.agreeing_rows ? std::to_string(*how.agreeing_rows) + " of " + std::to_string(each.rows) : "-"});
    }
    out << table;
    if (result.is_by_place && result.outputs.size() > 1)
        out << "outputs belong together by place: their names differ\n";
    if (options.tolerance) {
        out << "largest difference at most " << text_of(*options.tolerance)
            << (result.missed.empty() ? ": passed\n" : ": missed\n");
    }
}

}  // namespace sluice::app
