// SPDX-License-Identifier: Apache-2.0
#include "sluice/profiling/profile_rows.hpp"

#include <algorithm>
#include <limits>
#include <set>
#include <tuple>
#include <utility>

namespace sluice::profiling {
namespace {

// "Mul + Add + Relu"; a long list is cut.
std::string joined(const std::vector<std::string>& words, const char* between, std::size_t most) {
    std::string text;
    for (std::size_t i = 0; i < std::min(words.size(), most); ++i) text += (i == 0 ? "" : between) + words[i];
    if (words.size() > most) text += between + std::to_string(words.size() - most) + " more";
    return text;
}
constexpr std::size_t most_operators = 8;

struct step_row {
    std::vector<std::string> operators, nodes;
};

// What each step with commands stands for: itself, and the steps that it has taken into its kernel.
class step_rows {
public:
    step_rows(const std::set<std::string>& with_commands, network_profile& result)
        : with_commands_(with_commands), result_(result) {}

    void add(const std::vector<nn::network_step>& steps) {
        std::map<std::string, step_row> left;  // by value: steps without commands that the next one may have taken in
        for (const nn::network_step& each : steps) {
            step_row row;
            for (const std::string& input : each.inputs) {
                const auto found = left.find(input);
                if (found == left.end()) continue;
                append(row, found->second);
                left.erase(found);
            }
            append(row, {each.operators, {each.name}});
            const bool has_commands = with_commands_.contains(each.name);
            if (has_commands) {
                rows_.emplace(each.name, std::move(row));
            } else if (each.may_join_next && !each.outputs.empty()) {
                left.emplace(each.outputs.front(), std::move(row));
            } else if (each.parts.empty()) {
                ++(each.is_on_host ? result_.on_host : result_.without_commands);
            }
            for (const nn::network_part& part : each.parts) add(part.steps);
        }
        result_.without_commands += left.size();
    }

    const step_row* find(const std::string& name) const {
        const auto found = rows_.find(name);
        return found == rows_.end() ? nullptr : &found->second;
    }

private:
    static void append(step_row& to, const step_row& more) {
        to.operators.insert(to.operators.end(), more.operators.begin(), more.operators.end());
        to.nodes.insert(to.nodes.end(), more.nodes.begin(), more.nodes.end());
    }

    const std::set<std::string>& with_commands_;
    network_profile& result_;
    std::map<std::string, step_row> rows_;
};

}  // namespace

void profile_sums::add(const trace& run) {
    double begin = std::numeric_limits<double>::max(), end = 0;
    for (const trace_event& each : run.events) {
        const bool is_of_step = !each.operation.empty();
        commands& to = is_of_step ? by_operation_[each.operation] : by_kind_[std::string(to_string(each.kind))];
        to.us += each.end_us - each.start_us;
        ++to.counts[each.name];
        to.kind = each.kind;
        begin = std::min(begin, each.start_us);
        end = std::max(end, each.end_us);
    }
    span_us_ += run.events.empty() ? 0 : end - begin;
    ++runs_;
}

// "2 x gemm, bias": of one run.
std::string profile_sums::text_of(const commands& of, std::size_t runs) {
    std::vector<std::string> words;
    for (const auto& [name, count] : of.counts) {
        const std::size_t times = (count + runs / 2) / runs;
        words.push_back((times > 1 ? std::to_string(times) + " x " : "") + name);
    }
    return joined(words, ", ", 4);
}

void profile_sums::fill(network_profile& result, const std::vector<nn::network_step>& steps) const {
    if (runs_ == 0) return;
    std::set<std::string> with_commands;
    for (const auto& [name, of] : by_operation_) with_commands.insert(name);
    step_rows known(with_commands, result);
    known.add(steps);

    const auto runs = static_cast<double>(runs_);
    for (const auto& [name, of] : by_operation_) {
        profile_row row{.operators = "-", .node = name, .commands = text_of(of, runs_), .microseconds = of.us / runs};
        if (const step_row* const step = known.find(name)) {
            row.operators = joined(step->operators, " + ", most_operators);
            row.node = joined(step->nodes, ", ", most_operators);
        }
        result.rows.push_back(std::move(row));
    }
    for (const auto& [kind, of] : by_kind_)
        result.rows.push_back(
            {.operators = "(" + kind + ")", .node = {}, .commands = text_of(of, runs_), .microseconds = of.us / runs});
    std::ranges::sort(result.rows, [](const profile_row& left, const profile_row& right) {
        return std::tie(right.microseconds, left.node) < std::tie(left.microseconds, right.node);
    });
    for (const profile_row& each : result.rows) result.microseconds += each.microseconds;
    for (profile_row& each : result.rows)
        each.share = result.microseconds > 0 ? each.microseconds / result.microseconds : 0;
    result.span_microseconds = span_microseconds();
}

}  // namespace sluice::profiling
