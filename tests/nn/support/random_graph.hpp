// SPDX-License-Identifier: Apache-2.0
// random_graph: networks of random operators with random attributes and inputs. Nothing says whether they keep the rows
// of a batch apart: the operator only has to take what it is given, in a batch of `rows_of_trial` rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "nn/operators/table.hpp"
#include "nn/support/row_recipes.hpp"
#include "sluice/nn/any_tensor.hpp"
#include "sluice/nn/model.hpp"

namespace sluice::nn::testing {

class random_graph {
public:
    explicit random_graph(std::uint32_t seed);

    // Adds a node, or a few. False where no operator that was tried took what it was given.
    bool add_step();
    // Adds a node of this operator, if it takes one of many random inputs and attributes.
    bool add_node_of(const operators::definition& which, std::size_t tries);

    const model& made() const noexcept { return made_; }
    std::int64_t opset() const noexcept { return made_.opsets.at(""); }
    std::size_t row_axis(std::size_t input) const;  // of an input: the dimension named "n"

private:
    struct value {
        std::string name;
        any_tensor trial;  // in a batch of rows_of_trial_: the type, the shape, and the elements if they are known
    };

    std::size_t below(std::size_t end) { return end == 0 ? 0 : random_() % end; }
    bool chance(std::size_t percent) { return below(100) < percent; }
    template <typename T>
    T one_of(std::initializer_list<T> all) {
        return *(all.begin() + below(all.size()));
    }

    std::string next_name() { return "v" + std::to_string(names_++); }
    void add_inputs();
    const value& any_value();
    const value* any_number_list();
    std::string constant_named(constant what);
    std::string new_constant(const std::vector<std::size_t>& like);
    std::string new_integers(std::size_t rank);
    std::string input_of(const operators::definition& which, std::size_t i, const any_tensor& first);
    std::optional<attribute> attribute_of(std::string_view name, const any_tensor& first);
    std::string equation(std::size_t inputs);
    const any_tensor* find(const std::string& name) const;
    bool try_it(const node& which, const operators::definition& what);
    bool add_recipe();
    bool add_layer();

    std::mt19937 random_;
    model made_;
    std::size_t rows_of_trial_ = 3;
    std::vector<value> values_;
    std::vector<value> constants_;
    std::vector<std::string> pending_;  // constants of the node that is being made
    std::size_t names_ = 0;
};

}  // namespace sluice::nn::testing
