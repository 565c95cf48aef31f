// SPDX-License-Identifier: Apache-2.0
// graph_run: carries out the steps of a prepared graph in their order, on a device, on the host, or for types and
// shapes.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "nn/operators/run_memory.hpp"
#include "nn/operators/table.hpp"
#include "nn/prepared_graph.hpp"
#include "sluice/nn/any_tensor.hpp"
#include "sluice/nn/model.hpp"
#include "sluice/runtime/execution_context.hpp"

namespace sluice::nn::detail {

class graph_run {
public:
    // What expressions have left to the next ones.
    using left_values = std::map<slot, std::shared_ptr<const operators::expression_part>>;

    // Without a context nothing goes to a device. Checks that a GPU makes are noted in `checks`, unless it is null.
    graph_run(const model& of, execution_context* context, std::vector<operators::device_check>* checks)
        : model_(of), context_(context), checks_(checks) {}

    // The graph's outputs. `outside`: the values of the graph around this one; null if it captures none.
    std::vector<any_tensor> operator()(const prepared_graph& body, std::vector<any_tensor> inputs,
                                       std::vector<any_tensor>* outside, operators::place where) const;

    // One step. `slots`: the values of its graph.
    void carry_out(const step& each, std::vector<any_tensor>& slots, operators::place where,
                   left_values* left = nullptr) const;

private:
    void submit(const step& each, std::vector<any_tensor>& slots, operators::place where, left_values* left) const;
    void require_as_inferred(const step& each, const std::vector<any_tensor>& slots) const;
    void carry_out(const joined_steps& stretch, const step& of, std::vector<any_tensor> inputs,
                   std::vector<any_tensor>& slots, operators::place where) const;
    operators::place place_of(const step& each, const std::vector<any_tensor>& slots, operators::place where) const;
    bool carry_out_ahead(const step& each, std::vector<any_tensor>& slots) const;

    const model& model_;
    execution_context* const context_;
    std::vector<operators::device_check>* const checks_;
    operators::run_memory* const memory_ = operators::run_memory::now();
};

}  // namespace sluice::nn::detail
