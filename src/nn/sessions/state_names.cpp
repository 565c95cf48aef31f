// SPDX-License-Identifier: Apache-2.0
// find_state: see docs/sessions.md.
#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <string>
#include <utility>

#include "nn/sessions/state_shapes.hpp"
#include "sluice/base/error.hpp"
#include "sluice/base/printable.hpp"
#include "sluice/nn/session.hpp"

namespace sluice::nn {
namespace {

using words = std::vector<std::string>;

template <std::size_t N>
bool is_one_of(const std::array<std::string_view, N>& all, const std::string& word) {
    return std::ranges::find(all, word) != all.end();
}

constexpr std::array<std::string_view, 8> of_inputs = {"in",       "input", "past", "prev",
                                                       "previous", "old",   "init", "initial"};
constexpr std::array<std::string_view, 7> of_outputs = {"out", "output", "present", "next", "new", "updated", "n"};
constexpr std::array<std::string_view, 18> of_states = {"state",  "states", "hidden", "cell", "cache", "cached",
                                                        "caches", "memory", "mem",    "mems", "h",     "c",
                                                        "hx",     "cx",     "rnn",    "lstm", "gru",   "recurrent"};
// Values of an encoder stay the same from step to step.
constexpr std::array<std::string_view, 2> of_no_state = {"encoder", "cross"};

// Letters in lower case and numbers, as separators, changes of case and digits part them: "stateN" is state, n.
words words_of(std::string_view name) {
    enum class kind : unsigned char { none, lower, upper, digit };
    words made;
    kind before = kind::none;
    for (const char each : name) {
        const auto letter = static_cast<unsigned char>(each);
        const kind now = std::isdigit(letter) != 0   ? kind::digit
                         : std::isupper(letter) != 0 ? kind::upper
                         : std::isalpha(letter) != 0 ? kind::lower
                                                     : kind::none;
        const bool goes_on = before == now || (before == kind::upper && now == kind::lower);
        if (now != kind::none && !goes_on) made.emplace_back();
        if (now != kind::none) made.back() += static_cast<char>(std::tolower(letter));
        before = now;
    }
    return made;
}

// A name without the words that say whether it is an input or an output.
struct stem {
    words rest;
    bool has_mark = false;  // such a word was there
    bool is_state = false;
};

stem stem_of(std::string_view name, bool is_output) {
    stem made;
    words all = words_of(name);
    // "hn" and "cn", as PyTorch's documentation calls them.
    if (is_output && !all.empty() && (all.back() == "hn" || all.back() == "cn"))
        all.back().pop_back(), all.emplace_back("n");
    const bool is_cache = !all.empty() && (all[0] == "past" || all[0] == "present");
    // "past_key_values.0.key" and "present.0.key".
    if (is_cache && all.size() > 3 && all[1] == "key" && all[2] == "values")
        all.erase(all.begin() + 1, all.begin() + 3);
    for (std::string& each : all) {
        if (is_output ? is_one_of(of_outputs, each) : is_one_of(of_inputs, each))
            made.has_mark = true;
        else
            made.rest.push_back(std::move(each));
    }
    const auto has = [&](const auto& list) {
        return std::ranges::any_of(made.rest, [&](const std::string& each) { return is_one_of(list, each); });
    };
    // "hidden_states" are what layers of transformers call any value between them.
    const auto at = std::ranges::find(made.rest, "hidden");
    const bool is_between = at != made.rest.end() && at + 1 != made.rest.end() && *(at + 1) == "states";
    made.is_state = (is_cache || has(of_states)) && !has(of_no_state) && !is_between;
    return made;
}

// The 0 of "h0" says that it is the first state, unless there is an "h1".
void drop_zero(std::vector<stem>& inputs) {
    const std::vector<stem> all = inputs;
    const auto is_number = [](const std::string& word) {
        return std::isdigit(static_cast<unsigned char>(word[0])) != 0;
    };
    for (std::size_t i = 0; i < all.size(); ++i) {
        const words& its = all[i].rest;
        if (all[i].has_mark || its.size() < 2 || its.back() != "0") continue;
        const auto is_another = [&](const stem& other) {
            return &other != &all[i] && other.rest.size() == its.size() && is_number(other.rest.back()) &&
                   std::equal(its.begin(), its.end() - 1, other.rest.begin());
        };
        if (std::ranges::any_of(all, is_another)) continue;
        inputs[i].rest.pop_back();
        inputs[i].has_mark = true;
    }
}

std::vector<stem> stems_of(std::span<const value_info> values, bool are_outputs) {
    std::vector<stem> made;
    for (const value_info& each : values) made.push_back(stem_of(each.name, are_outputs));
    return made;
}

bool belong_together(const stem& input, const stem& output) {
    return input.is_state && output.is_state && input.rest == output.rest && (input.has_mark || output.has_mark);
}

std::string list_of(std::span<const value_info> values) {
    std::string all;
    for (const value_info& each : values) all += (all.empty() ? "" : ", ") + in_quotes(each.name);
    return all.empty() ? "none" : all;
}

[[noreturn]] void refuse_names(const std::string& why) {
    throw error(errc::invalid_argument, why + ": give session_options::pairs, which outputs are the next inputs",
                {"session"});
}

}  // namespace

std::vector<state_pair> find_state(std::span<const value_info> inputs, std::span<const value_info> outputs) {
    const std::vector<stem> of_output = stems_of(outputs, true);
    std::vector<stem> of_input = stems_of(inputs, false);
    // "state0" and "state_out0" first: there the 0 is a number.
    const auto is_exact = [&](const stem& input) {
        return std::ranges::any_of(of_output, [&](const stem& each) { return belong_together(input, each); });
    };
    std::vector<stem> without_zero = of_input;
    drop_zero(without_zero);
    for (std::size_t i = 0; i < of_input.size(); ++i)
        if (!is_exact(of_input[i])) of_input[i] = without_zero[i];

    std::vector<state_pair> found;
    std::vector<std::size_t> uses(outputs.size(), inputs.size());  // by which input
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        std::optional<std::size_t> its;
        for (std::size_t o = 0; o < outputs.size(); ++o) {
            if (!belong_together(of_input[i], of_output[o])) continue;
            const std::string two = in_quotes(outputs[o].name) + " for the input " + in_quotes(inputs[i].name);
            if (its) refuse_names("the names are ambiguous: " + in_quotes(outputs[*its].name) + " or " + two);
            if (uses[o] != inputs.size())
                refuse_names("the names are ambiguous: the output " + two + " or for " +
                             in_quotes(inputs[uses[o]].name));
            if (const std::string why = detail::why_not_next(outputs[o], inputs[i]); !why.empty()) refuse_names(why);
            its = o;
            uses[o] = i;
        }
        if (its) found.push_back({outputs[*its].name, inputs[i].name});
    }
    if (found.empty()) {
        refuse_names("no output is by its name the next value of an input (inputs: " + list_of(inputs) +
                     "; outputs: " + list_of(outputs) + ")");
    }
    if (found.size() == inputs.size()) refuse_names("by their names all inputs are state (" + list_of(inputs) + ")");
    return found;
}

}  // namespace sluice::nn
