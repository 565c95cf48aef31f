// SPDX-License-Identifier: Apache-2.0
// What the pass says of each value of a network is held against what the network computes: networks of random operators
// with random attributes (support/random_graph.hpp), batches of 1, 2, 3 and 5 rows, whose numbers differ by powers of
// ten, with NaN and infinity.
// Of a value with rows, the part of each row is that of the row alone, within 1e-5 of the row's own magnitude; one that
// is alike is the same in each batch; numbers that are computed from the number of rows are what the pass says, and so
// are all lengths.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iostream>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "nn/operators/own.hpp"
#include "nn/operators/table.hpp"
#include "nn/passes/follow_rows.hpp"
#include "nn/rows/rule.hpp"
#include "nn/support/compared_rows.hpp"
#include "nn/support/random_graph.hpp"
#include "sluice/base/error.hpp"
#include "sluice/nn/network.hpp"
#include "sluice/runtime/runtime.hpp"
#include "sluice/runtime/scheduling_policy.hpp"
#include "sluice/runtime/sync.hpp"

namespace sluice::nn::random_graph_rows_tests {
namespace {

using rows::company;
using rows::followed;
using testing::difference;
using testing::numbers_of;
using testing::random_graph;
using testing::row_of;

constexpr double tolerance = 1e-5;  // of a row's own magnitude
constexpr double of_roundings = 1e-2;
constexpr std::array<std::size_t, 4> batches{1, 2, 3, 5};
constexpr std::size_t most_rows = 5;
constexpr std::size_t length_of_s = 2;

struct cpu {
    runtime machine;
    single_stream stream{machine.find("cpu")};
};
cpu& here() {
    static cpu made;
    return made;
}

std::size_t from_environment(const char* name, std::size_t otherwise) {
    const char* const given = std::getenv(name);
    return given != nullptr ? std::strtoull(given, nullptr, 10) : otherwise;
}

// --- rows -----------------------------------------------------------------------------------------------------

using row = std::vector<std::vector<double>>;  // of each input, its elements

std::size_t elements_of_row(const value_info& of) {
    std::size_t count = 1;
    for (const dimension& each : *of.shape) count *= each.length ? *each.length : each.name == "n" ? 1 : length_of_s;
    return count;
}

std::vector<row> rows_for(const model& of, std::mt19937& random) {
    std::vector<row> made;
    for (std::size_t r = 0; r < most_rows; ++r) {
        const float power = std::pow(10.f, static_cast<float>(static_cast<int>(random() % 6) - 4));
        row next;
        for (const value_info& each : of.body.inputs) {
            std::vector<double> numbers(elements_of_row(each));
            for (double& one : numbers)
                one = each.type == io::dtype::i64 ? static_cast<double>(random() % 2)
                                                  : std::uniform_real_distribution<float>(-1, 1)(random) * power;
            if (each.type != io::dtype::i64 && random() % 4 == 0)
                numbers[random() % numbers.size()] = random() % 2 == 0 ? std::numeric_limits<float>::quiet_NaN()
                                                                       : std::numeric_limits<float>::infinity();
            next.push_back(std::move(numbers));
        }
        made.push_back(std::move(next));
    }
    return made;
}

template <typename T>
any_tensor joined(const std::vector<const std::vector<double>*>& parts, const value_info& of, std::size_t axis) {
    std::vector<std::size_t> shape;
    std::size_t before = 1, after = 1;
    for (std::size_t d = 0; d < of.shape->size(); ++d) {
        const dimension& each = (*of.shape)[d];
        shape.push_back(d == axis ? parts.size() : each.length ? *each.length : length_of_s);
        if (d != axis) (d < axis ? before : after) *= shape.back();
    }
    std::vector<T> numbers;
    for (std::size_t b = 0; b < before; ++b)
        for (const auto* const each : parts)
            for (std::size_t a = 0; a < after; ++a) numbers.push_back(static_cast<T>((*each)[b * after + a]));
    return any_tensor(numbers, std::move(shape));
}

std::vector<any_tensor> computed(const network& by, const model& of, const std::vector<std::size_t>& axes,
                                 const std::vector<const row*>& rows) {
    std::vector<any_tensor> inputs;
    for (std::size_t i = 0; i < of.body.inputs.size(); ++i) {
        std::vector<const std::vector<double>*> parts;
        for (const row* const each : rows) parts.push_back(&(*each)[i]);
        inputs.push_back(of.body.inputs[i].type == io::dtype::i64
                             ? joined<std::int64_t>(parts, of.body.inputs[i], axes[i])
                             : joined<float>(parts, of.body.inputs[i], axes[i]));
    }
    std::vector<input_view> views;
    for (const any_tensor& each : inputs) views.emplace_back(each);
    return by(views);
}

// --- what is said, and what is so -----------------------------------------------------------------------------

// Whether the lengths and the numbers that are said are those of a batch of `rows` rows.
std::string wrong_lengths(const followed& said, const any_tensor& its, std::size_t rows) {
    const auto count = static_cast<std::int64_t>(rows);
    if (said.shape) {
        if (said.shape->size() != its.shape().size()) return "has another number of dimensions than is said";
        for (std::size_t d = 0; d < said.shape->size(); ++d) {
            const auto length = (*said.shape)[d].at(count);
            if (length && *length != static_cast<std::int64_t>(its.shape()[d]))
                return "has a dimension of " + std::to_string(its.shape()[d]) + ", and " + std::to_string(*length) +
                       " is said";
        }
    }
    if (said.elements) {
        const std::vector<double> numbers = numbers_of(its);
        if (numbers.size() != said.elements->size()) return "has another number of elements than is said";
        for (std::size_t i = 0; i < numbers.size(); ++i) {
            const auto number = (*said.elements)[i].at(count);
            if (number && static_cast<double>(*number) != numbers[i])
                return "is " + std::to_string(numbers[i]) + ", and " + std::to_string(*number) + " is said";
        }
    }
    if (said.known) {
        const std::string text = difference(numbers_of(its), numbers_of(said.known), tolerance);
        if (!text.empty()) return "is said to be another number: " + text;
    }
    return {};
}

struct run {
    std::vector<any_tensor> outputs;  // empty: refused
    std::string why;
};
run run_of(const network& by, const model& of, const std::vector<std::size_t>& axes,
           const std::vector<const row*>& rows) {
    try {
        return {computed(by, of, axes, rows), {}};
    } catch (const error& failure) {
        return {{}, failure.what()};
    }
}

// `with_itself`: what each row gives in a batch of as many rows that are all this one.
template <typename Function>
std::string wrong_value(const followed& said, std::size_t o, const std::vector<any_tensor>& together,
                        const std::vector<run>& alone, std::size_t rows, const Function& with_itself) {
    std::string text = wrong_lengths(said, together[o], rows);
    if (!text.empty()) return text;
    if (said.is_alike() || said.what == company::counts) {
        if (said.what == company::counts) return {};
        for (std::size_t r = 0; r < rows; ++r) {
            text = difference(numbers_of(together[o]), numbers_of(alone[r].outputs[o]), tolerance);
            if (!text.empty()) return "is said to be the same for any rows, and " + text;
        }
        return {};
    }
    // Of runs whose number is a length of the inputs, s.
    const auto number = said.runs.number();
    std::size_t runs = static_cast<std::size_t>(number.value_or(said.runs.factor()));
    for (const auto& [symbol, power] : said.runs.powers())
        for (int i = 0; i < power; ++i) runs *= length_of_s;
    runs /= number ? 1 : static_cast<std::size_t>(said.runs.divisor());
    if (together[o].shape()[said.axis] % (rows * runs) != 0) return "does not have the rows";
    for (std::size_t r = 0; r < rows; ++r) {
        const std::vector<double> its = row_of(together[o], said.axis, r, rows, runs);
        if (said.is_row_number && std::ranges::any_of(its, [&](double each) { return each != static_cast<double>(r); }))
            return "is said to be the numbers of the rows";
        if (said.has_row_numbers()) continue;
        const std::vector<double> by_itself = row_of(alone[r].outputs[o], said.axis, 0, 1);
        text = difference(its, by_itself, tolerance);
        // Sums of another order, whose roundings what comes after may make larger (sin(100), log(1)): then they are
        // small, and they are there, too, in a batch in which no other row is.
        if (!text.empty() && difference(its, by_itself, of_roundings).empty() &&
            difference(its, row_of(with_itself(r)[o], said.axis, r, rows, runs), tolerance).empty())
            continue;
        if (!text.empty()) return "in row " + std::to_string(r) + " of " + std::to_string(rows) + " " + text;
    }
    return {};
}

std::string text_of(const node& of) {
    std::ostringstream text;
    text << of.op << '(';
    for (const std::string& each : of.inputs) text << each << ' ';
    text << ") -> ";
    for (const std::string& each : of.outputs) text << each << ' ';
    const auto list = [&](const auto& all) {
        text << '[';
        for (const auto& one : all) text << one << ' ';
        text << ']';
    };
    for (const auto& [name, value] : of.attributes) {
        text << ' ' << name << '=';
        if (const auto* const number = std::get_if<std::int64_t>(&value)) text << *number;
        if (const auto* const real = std::get_if<float>(&value)) text << *real;
        if (const auto* const words = std::get_if<std::string>(&value)) text << *words;
        if (const auto* const all = std::get_if<std::vector<std::int64_t>>(&value)) list(*all);
    }
    return text.str();
}

std::string text_of(const model& of) {
    std::ostringstream text;
    text << "\n  opset " << of.opsets.at("");
    for (const value_info& each : of.body.inputs) {
        text << "\n  " << each.name;
        for (const dimension& its : *each.shape) text << ' ' << (its.length ? std::to_string(*its.length) : its.name);
    }
    for (const auto& [name, its] : of.body.constants) {
        text << "\n  " << name << " = [";
        for (const std::size_t each : its.shape) text << each << ' ';
        text << "]:";
        for (const double each : numbers_of(any_tensor(its))) text << ' ' << each;
    }
    for (const node& each : of.body.nodes) text << "\n  " << text_of(each);
    return text.str();
}

struct counts {
    std::size_t values = 0, with_rows = 0, refused = 0;
    std::map<std::string, std::size_t> operators;  // that gave a value with rows
};

// Empty where all that is said of the values is so.
std::string find_lie(const random_graph& from, std::mt19937& random, const rows::rule_table& rules, counts& seen) {
    model of = from.made();
    std::vector<std::size_t> axes;
    for (std::size_t i = 0; i < of.body.inputs.size(); ++i) axes.push_back(from.row_axis(i));
    const operators::known_to_network known{own_operators()};
    const auto said = detail::follow_rows(of, known, rules, axes);
    std::vector<const followed*> followed_outputs;
    // What mixes is not carried out: it may refuse what else is taken.
    std::erase_if(of.body.nodes, [&](const node& each) {
        return std::ranges::all_of(each.outputs,
                                   [&](const std::string& name) { return said.at(name).what == company::mixed; });
    });
    for (const node& each : of.body.nodes) {
        for (const std::string& name : each.outputs) {
            const followed& its = said.at(name);
            if (its.what == company::mixed) continue;
            of.body.outputs.push_back({name, io::dtype::f32, {}});
            followed_outputs.push_back(&its);
            ++seen.values;
            if (its.has_rows()) ++seen.operators[each.op], ++seen.with_rows;
        }
    }
    if (of.body.outputs.empty()) return {};
    std::optional<network> made;
    try {
        made.emplace(sync(make_network(of), here().stream));
    } catch (const error&) {
        return {};
    }
    const std::vector<row> rows = rows_for(of, random);
    std::vector<run> alone;
    for (const row& each : rows) alone.push_back(run_of(*made, of, axes, {&each}));
    const bool all_run = std::ranges::none_of(alone, [](const run& each) { return each.outputs.empty(); });
    for (const std::size_t count : batches) {
        std::vector<const row*> some;
        for (std::size_t r = 0; r < count; ++r) some.push_back(&rows[r]);
        const run together = run_of(*made, of, axes, some);
        if (together.outputs.empty() != !all_run) {
            // A row that is refused may be one that is not in this batch.
            bool these_run = true;
            for (std::size_t r = 0; r < count; ++r) these_run = these_run && !alone[r].outputs.empty();
            if (these_run && together.outputs.empty())
                return "rows are refused only together: " + together.why + text_of(of);
            if (!these_run && !together.outputs.empty()) return "rows are refused only alone" + text_of(of);
        }
        if (together.outputs.empty() || !all_run) {
            ++seen.refused;
            continue;
        }
        for (std::size_t o = 0; o < followed_outputs.size(); ++o) {
            const std::string text = wrong_value(
                *followed_outputs[o], o, together.outputs, alone, count,
                [&](std::size_t r) { return computed(*made, of, axes, std::vector<const row*>(count, &rows[r])); });
            if (!text.empty()) return of.body.outputs[o].name + " " + text + text_of(of);
        }
    }
    return {};
}

// SLUICE_RANDOM_GRAPHS: how many networks; SLUICE_RANDOM_GRAPHS_FROM: the first of them.
TEST(random_graph_rows, what_is_said_of_the_values_of_random_networks_is_so) {
    counts seen;
    std::size_t lies = 0;
    const std::size_t from = from_environment("SLUICE_RANDOM_GRAPHS_FROM", 0);
    for (std::size_t seed = from; seed < from + from_environment("SLUICE_RANDOM_GRAPHS", 400); ++seed) {
        random_graph graph(static_cast<std::uint32_t>(seed));
        std::mt19937 random(static_cast<std::uint32_t>(seed));
        for (std::size_t i = 0; i < 1 + random() % 6; ++i) graph.add_step();
        const std::string lie = find_lie(graph, random, rows::all_rules(), seen);
        EXPECT_TRUE(lie.empty()) << "seed " << seed << ": " << lie;
        if (!lie.empty() && ++lies > from_environment("SLUICE_RANDOM_GRAPHS_LIES", 3)) break;
    }
    EXPECT_GT(seen.with_rows, 0U);
    if (std::getenv("SLUICE_RANDOM_GRAPHS") != nullptr) {
        std::cout << seen.values << " values, " << seen.with_rows << " with rows, " << seen.refused << " refused\n";
        for (const auto& [op, count] : seen.operators) std::cout << op << ' ' << count << '\n';
    }
}

}  // namespace
}  // namespace sluice::nn::random_graph_rows_tests
