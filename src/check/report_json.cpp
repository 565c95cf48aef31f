// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>

#include "sluice/check/check_trace.hpp"

namespace sluice::check {
namespace {

using nlohmann::json;

// Whatever the texts are: bytes that are no UTF-8 are replaced.
void write(const json& value, std::ostream& to) {
    to << value.dump(-1, ' ', true, json::error_handler_t::replace) << '\n';
}

json json_of(const place& from) {
    if (from.what.empty()) return nullptr;
    return {{"what", from.what},
            {"stream", from.stream.empty() ? json(nullptr) : json(from.stream)},
            {"line", from.call},
            {"thread", from.thread},
            {"frames", from.frames}};
}

json json_of(const finding& from) {
    return {{"kind", std::string(to_string(from.what))},
            {"certain", from.is_certain},
            {"message", from.message},
            {"first", json_of(from.first)},
            {"second", json_of(from.second)},
            {"memory", from.memory},
            {"remedy", from.remedy},
            {"times", from.times}};
}

// "use after free" as the name of a rule: "use-after-free".
std::string rule_of(fault what) {
    std::string name(to_string(what));
    for (char& each : name)
        if (each == ' ') each = '-';
    return name;
}

// SARIF's locations are places in files; a call has a line of the trace and a stack.
json sarif_stack(const place& from, const char* which) {
    json frames = json::array();
    for (const std::string& each : from.frames) frames.push_back({{"location", {{"message", {{"text", each}}}}}});
    return {{"message", {{"text", std::string(which) + ": " + from.what + " " + from.stream}}}, {"frames", frames}};
}

json sarif_result(const finding& from) {
    json stacks = json::array(), locations = json::array();
    if (!from.first.what.empty()) stacks.push_back(sarif_stack(from.first, "first"));
    if (!from.second.what.empty()) {
        stacks.push_back(sarif_stack(from.second, "second"));
        locations.push_back({{"logicalLocations", {{{"name", from.second.what}, {"kind", "function"}}}}});
    }
    const std::string remedy = from.remedy.empty() ? "" : " Missing: " + from.remedy;
    const char* const level = from.what == fault::useless_wait ? "note" : from.is_certain ? "error" : "warning";
    return {{"ruleId", rule_of(from.what)},
            {"level", level},
            {"message", {{"text", from.message + "." + remedy}}},
            {"locations", locations},
            {"stacks", stacks}};
}

}  // namespace

void write_json(const check_report& report, std::ostream& to) {
    json found = json::array();
    for (const finding& each : report.findings) found.push_back(json_of(each));
    write({{"program", report.program},
           {"calls", report.calls},
           {"findings", found},
           {"suppressed", report.suppressed},
           {"uncertain", report.uncertain},
           {"hints", report.hints},
           {"orders", report.orders},
           {"unseen", report.unseen}},
          to);
}

void write_sarif(const check_report& report, std::ostream& to) {
    json results = json::array(), rules = json::array();
    for (const finding& each : report.findings) results.push_back(sarif_result(each));
    for (int i = 0; i <= static_cast<int>(fault::useless_wait); ++i) {
        const auto what = static_cast<fault>(i);
        rules.push_back({{"id", rule_of(what)}, {"shortDescription", {{"text", std::string(to_string(what))}}}});
    }
    const json driver{{"name", "sluice check"}, {"rules", rules}};
    write({{"$schema", "https://json.schemastore.org/sarif-2.1.0.json"},
           {"version", "2.1.0"},
           {"runs", {{{"tool", {{"driver", driver}}}, {"results", results}}}}},
          to);
}

}  // namespace sluice::check
