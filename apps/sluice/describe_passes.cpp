// SPDX-License-Identifier: Apache-2.0
#include "describe_passes.hpp"

#include <algorithm>
#include <iterator>
#include <ostream>
#include <string>

#include "network_words.hpp"
#include "text_table.hpp"

namespace sluice::app {
namespace {

constexpr std::size_t most_named = 3;  // steps in one cell of the table

bool begins_graph(const nn::pass_report& what) { return what.name == "rest" || what.name == "front"; }

// "conv1: Conv + Relu", also of the graphs inside.
void add_words(const std::vector<nn::network_step>& steps, std::vector<std::string>& to) {
    for (const nn::network_step& each : steps) {
        const std::string operators = joined(each.operators, " + ");
        to.push_back(each.name == operators ? operators : each.name + ": " + operators);
        for (const nn::network_part& part : each.parts) add_words(part.steps, to);
    }
}

// In the order of their words.
std::vector<std::string> words_of(const nn::pass_report& of) {
    std::vector<std::string> made;
    add_words(of.steps, made);
    std::ranges::sort(made);
    return made;
}

// Steps that the one has and the other has not.
std::vector<std::string> only_in(const nn::pass_report& one, const nn::pass_report& other) {
    std::vector<std::string> made;
    std::ranges::set_difference(words_of(one), words_of(other), std::back_inserter(made));
    return made;
}

std::string some_of(const std::vector<std::string>& words) {
    std::string text;
    for (std::size_t i = 0; i < std::min(words.size(), most_named); ++i) text += (i == 0 ? "" : ", ") + words[i];
    if (words.size() > most_named) text += " and " + std::to_string(words.size() - most_named) + " more";
    return text;
}

std::string change_of(const nn::pass_report& before, const nn::pass_report& after) {
    if (!after.applies) return "-";
    if (!after.has_changed) return "nothing";
    const std::vector<std::string> gone = only_in(before, after), made = only_in(after, before);
    if (gone.empty() && made.empty()) return "how steps are computed";
    if (made.empty()) return some_of(gone) + (gone.size() == 1 ? " is gone" : " are gone");
    if (gone.empty()) return "new: " + some_of(made);
    return some_of(gone) + (gone.size() == 1 ? " becomes " : " become ") + some_of(made);
}

}  // namespace

std::vector<nn::network_step> steps_after(const std::vector<nn::pass_report>& passes) {
    std::vector<nn::network_step> made;
    const auto rest = std::ranges::find(passes, "rest", &nn::pass_report::name);
    if (rest != passes.end()) made = std::prev(rest)->steps;
    made.insert(made.end(), passes.back().steps.begin(), passes.back().steps.end());
    return made;
}

nlohmann::json to_json(const std::vector<nn::pass_report>& passes) {
    auto array = nlohmann::json::array();
    for (std::size_t i = 0; i < passes.size(); ++i) {
        const nn::pass_report& each = passes[i];
        nlohmann::json one{{"name", each.name},       {"effect", each.effect},       {"condition", each.condition},
                           {"applies", each.applies}, {"changed", each.has_changed}, {"steps", each.steps.size()}};
        if (i != 0 && !begins_graph(each)) {
            using words = std::vector<std::string>;
            one["gone"] = each.has_changed ? only_in(passes[i - 1], each) : words();
            one["new"] = each.has_changed ? only_in(each, passes[i - 1]) : words();
        }
        array.push_back(std::move(one));
    }
    return array;
}

void write_passes(const std::vector<nn::pass_report>& passes, std::ostream& out) {
    text_table table({"pass", "where", "steps", "what it changes"});
    for (std::size_t i = 0; i < passes.size(); ++i) {
        const nn::pass_report& each = passes[i];
        const bool is_graph = i == 0 || begins_graph(each);
        table.add({each.name, is_graph ? "" : each.condition, std::to_string(each.steps.size()),
                   is_graph ? each.effect : change_of(passes[i - 1], each)});
    }
    out << table;
}

}  // namespace sluice::app
