// SPDX-License-Identifier: Apache-2.0
// The random tester of row independence: networks of random operators compute rows whose numbers differ by powers of
// ten, with NaN and infinity, joined and alone. Where the pass says that rows are independent, each output of a row
// must be that of the row alone, within 1e-5 of that row's own magnitude. Then each rule of the table is replaced by a
// wrong one, and the same tester must notice it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nn/operators/node_call.hpp"
#include "nn/operators/table.hpp"
#include "nn/passes/follow_rows.hpp"
#include "nn/rows/rule.hpp"
#include "nn/support/compared_rows.hpp"
#include "nn/support/row_recipes.hpp"
#include "nn/tried_shapes.hpp"
#include "sluice/base/error.hpp"
#include "sluice/nn/network.hpp"
#include "sluice/nn/row_independence.hpp"
#include "sluice/runtime/runtime.hpp"
#include "sluice/runtime/scheduling_policy.hpp"
#include "sluice/runtime/sync.hpp"

namespace sluice::nn::random_rows_tests {
namespace {

using testing::difference;
using testing::row_network;
using testing::row_of;
using testing::row_recipe;
using testing::row_recipes;

constexpr std::size_t width = 4;
constexpr double tolerance = 1e-5;  // of a row's own magnitude
constexpr double of_roundings = 1e-3;

struct cpu {
    runtime machine;
    single_stream stream{machine.find("cpu")};
};
cpu& here() {
    static cpu made;
    return made;
}

// --- rows -----------------------------------------------------------------------------------------------------

// No two rows of one magnitude; the last ones are not finite.
std::vector<std::vector<float>> rows_of(std::mt19937& random) {
    std::uniform_real_distribution<float> number(-1, 1);
    std::vector<std::vector<float>> made;
    for (int power = -3; power <= 4; ++power) {
        std::vector<float> row(width);
        for (float& each : row) each = number(random) * std::pow(10.f, static_cast<float>(power));
        made.push_back(std::move(row));
    }
    made.push_back({std::numeric_limits<float>::quiet_NaN(), 1, -2, 3});
    made.push_back({std::numeric_limits<float>::infinity(), 1, -2, 0.5f});
    std::ranges::shuffle(made, random);
    return made;
}

std::vector<any_tensor> computed(const network& by, const std::vector<std::vector<float>>& rows) {
    std::vector<float> all;
    for (const auto& each : rows) all.insert(all.end(), each.begin(), each.end());
    const any_tensor x(all, {rows.size(), width});
    const std::vector<input_view> views{input_view(x)};
    return by(views);
}

// Of one output: empty where the row has what it has alone.
std::string difference(const any_tensor& together, const any_tensor& alone, std::size_t axis, std::size_t row,
                       std::size_t rows, double allowed) {
    if (together.shape().size() <= axis || together.shape()[axis] != rows) return "does not have the rows";
    if (alone.shape().size() <= axis || alone.shape()[axis] != 1) return "of a row alone does not have one row";
    const std::string text = difference(row_of(together, axis, row, rows), row_of(alone, axis, 0, 1), allowed);
    return text.empty() ? text : "in row " + std::to_string(row) + " " + text;
}

// Empty where the outputs of each row are those of the row alone, along the axes that were found.
std::string difference(const model& of, const row_independence& found, std::mt19937& random) {
    const network made = sync(make_network(of), here().stream);
    const auto rows = rows_of(random);
    const std::vector<any_tensor> together = computed(made, rows);
    for (std::size_t row = 0; row < rows.size(); ++row) {
        const std::vector<any_tensor> alone = computed(made, {rows[row]});
        for (std::size_t o = 0; o < together.size(); ++o) {
            const std::size_t axis = found.output_axes[o];
            const std::string text = difference(together[o], alone[o], axis, row, rows.size(), tolerance);
            if (text.empty()) continue;
            // Sums of another order, whose roundings what comes after may make larger (exp(-60) by 60): then they are
            // small, and they are there, too, in a batch in which no other row is.
            const std::vector<any_tensor> with_itself = computed(made, std::vector(rows.size(), rows[row]));
            const auto& its = with_itself[o];
            const bool has_rows = its.shape() == together[o].shape() && its.shape().size() > axis;
            const bool is_small = difference(together[o], alone[o], axis, row, rows.size(), of_roundings).empty();
            if (has_rows && is_small &&
                difference(row_of(together[o], axis, row, rows.size()), row_of(its, axis, row, rows.size()), tolerance)
                    .empty())
                continue;
            return "output " + std::to_string(o) + " " + text;
        }
    }
    return {};
}

// --- networks -------------------------------------------------------------------------------------------------

// Recipes one after the other; elementwise operators before and between them.
model network_of(const std::vector<const row_recipe*>& parts, std::mt19937& random) {
    row_network to(parts.front()->opset);
    std::string x = "x";
    for (const row_recipe* const each : parts) {
        switch (random() % 4) {
            case 0: x = to.add("Neg", {x}); break;
            case 1: x = to.add("Add", {x, to.constant_of({0.5f, -1, 2, 0.25f}, {4})}); break;
            case 2:
                x = to.add("MatMul", {x, to.constant_of({1, 0, 2, 0, 0, 1, 0, 1, 1, 0, 1, 0, 0, 3, 0, 1}, {4, 4})});
                break;
            default: break;
        }
        for (const std::string& made : each->write(to, x)) to.give(made);
    }
    return to.finished();
}

std::string text_of(const model& of) {
    std::string text;
    for (const node& each : of.body.nodes) text += (text.empty() ? "" : ", ") + each.op;
    return text;
}

std::size_t count_from_environment(const char* name, std::size_t otherwise) {
    const char* const given = std::getenv(name);
    return given != nullptr ? std::strtoull(given, nullptr, 10) : otherwise;
}

TEST(random_rows, each_recipe_is_right_about_its_operator) {
    for (const row_recipe& each : row_recipes()) {
        SCOPED_TRACE(each.op + (each.keeps ? ", keeps" : ", mixes"));
        std::mt19937 random(7);
        const model from = network_of({&each}, random);
        row_independence found;
        ASSERT_NO_THROW(found = find_row_independence(from));
        EXPECT_EQ(found.is_proven, each.keeps) << found.text();
        const std::string text = found.is_proven ? difference(from, found, random) : std::string();
        EXPECT_EQ(text, "");
    }
}

// SLUICE_RANDOM_ROWS: how many networks; SLUICE_RANDOM_ROWS_FROM: the first of them.
TEST(random_rows, rows_of_random_networks_are_the_same_alone_and_joined_where_that_is_proven) {
    std::vector<const row_recipe*> keep, mix;
    for (const row_recipe& each : row_recipes())
        if (each.opset == 28) (each.keeps ? keep : mix).push_back(&each);
    std::size_t proven = 0;
    for (std::size_t seed = count_from_environment("SLUICE_RANDOM_ROWS_FROM", 0);
         seed < count_from_environment("SLUICE_RANDOM_ROWS", 250); ++seed) {
        std::mt19937 random(static_cast<std::uint32_t>(seed));
        std::vector<const row_recipe*> parts;
        for (std::size_t i = 0; i < 1 + random() % 6; ++i) parts.push_back(keep[random() % keep.size()]);
        const bool mixes = random() % 4 == 0;
        if (mixes) parts[random() % parts.size()] = mix[random() % mix.size()];
        const model from = network_of(parts, random);
        const row_independence found = find_row_independence(from);
        ASSERT_EQ(found.is_proven, !mixes) << "seed " << seed << ": " << found.text() << " in " << text_of(from);
        if (!found.is_proven) continue;
        ++proven;
        ASSERT_EQ(difference(from, found, random), "") << "seed " << seed << ": " << text_of(from);
    }
    EXPECT_GT(proven, 0U);
}

// --- wrong rules ----------------------------------------------------------------------------------------------

// Says that the rows are where the lengths grow with them, whatever the operator does with them.
void believes_the_shape(rows::rule_call& in) {
    std::optional<std::size_t> of_input;
    std::array<std::vector<any_tensor>, 2> outputs;
    bool is_tried = true;
    for (std::size_t t = 0; t < outputs.size(); ++t) {
        std::vector<any_tensor> inputs;
        for (std::size_t i = 0; i < in.input_count(); ++i) {
            if (!in.has_input(i)) {
                inputs.emplace_back();
                continue;
            }
            if (in.has_rows(i) && !of_input) of_input = i;
            if (in.input(i).known) {
                inputs.push_back(in.input(i).known);
                continue;
            }
            const std::int64_t rows = t == 0 ? 5 : 7;
            std::vector<std::size_t> shape;
            for (const rows::amount& each : in.shape(i))
                shape.push_back(static_cast<std::size_t>(each.at(rows).value()));
            if (in.input(i).what == rows::company::counts) {
                std::vector<std::int64_t> numbers;
                for (const rows::amount& each : in.numbers(i)) numbers.push_back(each.at(rows).value());
                inputs.emplace_back(numbers, std::move(shape));
            } else {
                inputs.push_back(any_tensor::of_shape(in.input(i).type, std::move(shape)));
            }
        }
        const auto* const what = operators::find(in.what().domain, in.what().op, in.opset());
        const std::filesystem::path path("rows.onnx");
        try {
            const auto made = detail::try_node({path, in.what(), 0, in.opset(), *what}, inputs);
            is_tried = is_tried && made.has_value();
            if (made) outputs[t] = *made;
        } catch (const error&) {
            is_tried = false;
        }
    }
    for (std::size_t o = 0; o < in.output_count(); ++o) {
        if (!is_tried) {  // what it gives depends on numbers
            if (!of_input) throw rows::cannot_follow{"has no rows"};
            in.give(o, rows::open(in.shape(*of_input)), in.axis(*of_input));
            continue;
        }
        std::optional<std::size_t> axis;
        rows::open_shape to;
        for (std::size_t d = 0; d < outputs[0][o].shape().size(); ++d) {
            const std::size_t five = outputs[0][o].shape()[d], seven = outputs[1][o].shape()[d];
            if (five == seven) {
                to.emplace_back(rows::amount(static_cast<std::int64_t>(five)));
                continue;
            }
            to.emplace_back(rows::amount::of(rows::row_count) * rows::amount(static_cast<std::int64_t>(five / 5)));
            axis = d;
        }
        in.give(o, std::move(to), axis);
    }
}

class flipped_rules final : public rows::rule_table {
public:
    explicit flipped_rules(rows::rule_of_operator to) : to_(std::move(to)) {}
    const rows::rule_of_operator* find(std::string_view domain, std::string_view name) const override {
        return domain == to_.domain && name == to_.name ? &to_ : rows::all_rules().find(domain, name);
    }

private:
    rows::rule_of_operator to_;
};

std::string full_name(const rows::rule_of_operator& of) {
    return of.domain.empty() ? std::string(of.name) : std::string(of.domain) + "." + std::string(of.name);
}

// Whether the tester notices these rules: a network is said to be what it is not, or rows differ.
bool notices(const rows::rule_table& rules, const row_recipe& by) {
    std::mt19937 random(11);
    const model from = network_of({&by}, random);
    const row_independence found = detail::find_row_independence(from, {}, rules);
    if (by.keeps) return !found.is_proven || !difference(from, found, random).empty();
    return found.is_proven && !difference(from, found, random).empty();
}

// The pass itself decides on these: their lines have only the words.
const std::set<std::string_view> without_a_rule{
    "Shape",        "Size",          "Constant",         "If",
    "RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike",
    "Bernoulli",    "Multinomial"};

TEST(random_rows, a_rule_that_mixes_where_the_operator_does_not_is_noticed) {
    for (const rows::rule_of_operator* const each : rows::list_of_rules()) {
        if (each->how == nullptr) continue;
        rows::rule_of_operator strict = *each;
        strict.how = nullptr;
        strict.why = "mixes, says a test";
        const flipped_rules rules(strict);
        EXPECT_TRUE(std::ranges::any_of(row_recipes(), [&](const row_recipe& by) {
            return by.op == full_name(*each) && by.keeps && notices(rules, by);
        })) << full_name(*each);
    }
}

TEST(random_rows, a_rule_that_keeps_rows_apart_where_the_operator_does_not_is_noticed) {
    std::set<std::string> flipped;
    for (const row_recipe& by : row_recipes()) {
        if (by.keeps || flipped.contains(by.op)) continue;
        const std::size_t dot = by.op.rfind('.');
        const std::string domain = dot == std::string::npos ? "" : by.op.substr(0, dot);
        const rows::rule_of_operator* const its =
            rows::all_rules().find(domain, by.op.substr(dot == std::string::npos ? 0 : dot + 1));
        ASSERT_NE(its, nullptr) << by.op;
        rows::rule_of_operator loose = *its;
        loose.how = &believes_the_shape;
        loose.takes_row_numbers = true;
        const flipped_rules rules(loose);
        EXPECT_TRUE(std::ranges::any_of(row_recipes(), [&](const row_recipe& each) {
            return each.op == by.op && !each.keeps && notices(rules, each);
        })) << by.op;
        flipped.insert(by.op);
    }
    // Of what mixes in every case, each line was flipped.
    for (const rows::rule_of_operator* const each : rows::list_of_rules()) {
        if (each->how != nullptr || without_a_rule.contains(each->name)) continue;
        EXPECT_TRUE(flipped.contains(full_name(*each))) << full_name(*each);
    }
}

}  // namespace
}  // namespace sluice::nn::random_rows_tests
