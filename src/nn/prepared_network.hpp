// SPDX-License-Identifier: Apache-2.0
// prepared_network: the nodes of a model with their operators, in order, and the constants on a device.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "nn/operators/table.hpp"
#include "sluice/nn/any_tensor.hpp"
#include "sluice/nn/model.hpp"

namespace sluice::nn::detail {

// The values of a graph are numbered: slots.
using slot = std::uint32_t;
inline constexpr slot no_slot = ~slot{0};

class prepared_graph;

struct step {
    const operators::definition* what;
    const node* from;
    std::size_t position;
    std::int64_t opset;
    std::string label;  // of its commands
    std::vector<slot> inputs, outputs;
    std::vector<slot> released;  // values that nothing after this step uses
    std::map<const graph*, std::shared_ptr<prepared_graph>> inner = {};
    std::vector<slot> read_inside = {};                          // values that steps of inner graphs read on a device
    bool is_on_host = false;                                     // its outputs are needed there
    bool leaves_to_next = false;                                 // its output is left to the next expression
    std::shared_ptr<const operators::dense_layers> layers = {};  // which are this step
    std::vector<const node*> also = {};                          // nodes after `from` that passes made a part of it
};

class prepared_graph {
public:
    // A value of the graph around this one that this one uses.
    struct capture {
        slot outside, inside;
    };

    std::vector<step> steps;
    std::vector<slot> inputs, outputs;
    std::vector<capture> captures;
    std::unordered_map<slot, any_tensor> constants;
    std::vector<bool> needed_on_host;  // for each slot
    std::size_t slots = 0;
    std::vector<std::string> names;  // of the values, by slot; those that passes add have none
};

class prepared_network {
public:
    // Throws what make_network says.
    prepared_network(model from, execution_context& context);

    const model& from() const noexcept { return model_; }
    bool is_host_input(std::size_t input) const noexcept { return body_.needed_on_host[body_.inputs[input]]; }
    std::size_t commands() const noexcept { return body_.steps.size(); }
    const prepared_graph& body() const noexcept { return body_; }

    // Checks that a GPU makes are noted in `checks`, unless it is null.
    std::vector<any_tensor> run(execution_context* context, operators::place where, std::vector<any_tensor> inputs,
                                std::vector<operators::device_check>* checks = nullptr) const;

private:
    void require_fitting(const std::vector<any_tensor>& inputs) const;
    void fold(prepared_graph& body, bool is_inner);
    bool fold_step(prepared_graph& body, const step& each) const;
    void upload_constants(prepared_graph& body, execution_context& context);

    model model_;
    prepared_graph body_;
};

// See nn::check_operators.
void check_operators(const model& from);

}  // namespace sluice::nn::detail
