// SPDX-License-Identifier: Apache-2.0
// Parts of random networks: each uses one operator on rows [rows, 4], in a way that keeps them apart or in one that
// mixes them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/nn/model.hpp"

namespace sluice::nn::testing {

using recipe_attributes = std::map<std::string, attribute, std::less<>>;

// Writes nodes one after the other. Values have new names.
class row_network {
public:
    explicit row_network(std::int64_t opset = 28);

    std::string constant_of(const std::vector<float>& values, std::vector<std::size_t> shape);
    std::string integers(const std::vector<std::int64_t>& values);
    std::string integer(std::int64_t value);
    // `op` with its domain: "ai.onnx.ml.Scaler".
    std::vector<std::string> node_of(std::size_t outputs, const std::string& op, std::vector<std::string> inputs,
                                     recipe_attributes attributes = {});
    std::string add(const std::string& op, std::vector<std::string> inputs, recipe_attributes attributes = {}) {
        return node_of(1, op, std::move(inputs), std::move(attributes)).front();
    }
    void give(const std::string& value) { outputs_.push_back(value); }
    // With the input x [rows, 4] and what was given as outputs.
    model finished() const;

private:
    std::string next();

    model made_;
    std::vector<std::string> outputs_;
    std::size_t names_ = 0;
};

struct row_recipe {
    std::string op;  // with its domain, as in row_network::node_of
    bool keeps;      // rows apart
    std::function<std::vector<std::string>(row_network&, const std::string& x)> write;  // x: [rows, 4], f32
    std::int64_t opset = 28;
};

// At least one for each operator that has a rule; where the operator can mix rows, also one that does.
const std::vector<row_recipe>& row_recipes();

}  // namespace sluice::nn::testing
