// SPDX-License-Identifier: Apache-2.0
// prepared_network: the nodes of a model with their operators, in order, and the constants on a device.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "nn/operators/own.hpp"
#include "nn/operators/table.hpp"
#include "sluice/nn/any_tensor.hpp"
#include "sluice/nn/host_view.hpp"
#include "sluice/nn/model.hpp"
#include "sluice/nn/network.hpp"

namespace sluice::nn::detail {

// The values of a graph are numbered: slots.
using slot = std::uint32_t;
inline constexpr slot no_slot = ~slot{0};

class joined_steps;
class kept_calls;
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
    std::shared_ptr<const joined_steps> stretch = {};            // the same
    std::vector<const value_info*> declared = {};                // outputs of an own operator: run_environment
    std::vector<const node*> also = {};                          // nodes after `from` that passes made a part of it
    bool gives_shape_only = false;                               // nothing reads the elements of its outputs
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
    std::unordered_set<slot> computed;  // those constants that were computed from others
    std::vector<bool> needed_on_host;   // for each slot
    std::size_t slots = 0;
    std::vector<std::string> names;  // of the values, by slot; those that passes add have none
};

// Whether a step is meant, of the graph or of those inside its steps.
template <typename Predicate>
bool has_step(const prepared_graph& in, const Predicate& is_meant) {
    return std::ranges::any_of(in.steps, [&](const step& each) {
        return is_meant(each) ||
               std::ranges::any_of(each.inner, [&](const auto& inner) { return has_step(*inner.second, is_meant); });
    });
}

class prepared_network {
public:
    // Throws what make_network says.
    prepared_network(model from, const network_options& options, execution_context& context);
    prepared_network(const prepared_network&) = delete;  // its calls point to it
    prepared_network& operator=(const prepared_network&) = delete;
    ~prepared_network();

    const model& from() const noexcept { return model_; }
    device& on() const noexcept { return on_; }
    bool is_host_input(std::size_t input) const noexcept { return body_.needed_on_host[body_.inputs[input]]; }
    std::size_t commands() const noexcept { return body_.steps.size() + (front_ ? front_->commands() : 0); }
    const prepared_graph& body() const noexcept { return body_; }
    // The steps before shapes depend on numbers, where the host needs what they give (passes/fixed_part.hpp); or null.
    const prepared_network* front() const noexcept { return front_.get(); }
    const rounding_report& rounding() const noexcept { return rounding_; }

    // Checks that a GPU makes are noted in `checks`, unless it is null.
    std::vector<any_tensor> run(execution_context* context, operators::place where, std::vector<any_tensor> inputs,
                                std::vector<operators::device_check>* checks = nullptr) const;
    // The calls that network::operator() has made.
    kept_calls& calls() const noexcept { return *calls_; }

private:
    // The front of another network, whose model lives longer; `names` has only the names of inputs and outputs.
    prepared_network(model names, prepared_graph body, const network_options& options, execution_context& context);
    void take_front(const network_options& options, execution_context& context);
    void complete(const network_options& options, execution_context& context);
    void add_front_values(operators::place where, std::vector<any_tensor>& inputs) const;
    void require_fitting(const std::vector<any_tensor>& inputs) const;
    enum class folding : unsigned char { all_but_dequantized, all };
    void fold(prepared_graph& body, bool is_inner, folding what);
    void fold_inside(const prepared_graph& around, prepared_graph& inner, folding what);
    void drop_constant(prepared_graph& body, slot which);
    bool fold_step(prepared_graph& body, const step& each, folding what);
    void upload_constants(prepared_graph& body, execution_context& context);

    model model_;
    operators::known_to_network known_;
    prepared_graph body_;
    rounding_report rounding_;
    std::size_t folded_bytes_ = 0;  // of what was computed from constants and is held
    std::size_t most_folded_bytes_ = 0;
    std::unique_ptr<const prepared_network> front_;
    std::vector<std::size_t> front_inputs_;  // the network's inputs that it takes
    device& on_;
    const std::unique_ptr<kept_calls> calls_;  // last: they use the others
};

// See nn::check_operators.
void check_operators(const model& from, const own_operators& own);

}  // namespace sluice::nn::detail
