// SPDX-License-Identifier: Apache-2.0
// prepared_network: a model's steps as the passes leave them, and the constants on a device.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "nn/operators/own.hpp"
#include "nn/prepared_graph.hpp"
#include "sluice/nn/any_tensor.hpp"
#include "sluice/nn/host_view.hpp"
#include "sluice/nn/model.hpp"
#include "sluice/nn/network.hpp"
#include "sluice/nn/row_independence.hpp"

namespace sluice::nn::detail {

class kept_calls;
class pass_watch;

class prepared_network {
public:
    // Throws what make_network says. `watch` (may be null) sees what each pass leaves.
    prepared_network(model from, const network_options& options, execution_context& context,
                     pass_watch* watch = nullptr);
    prepared_network(const prepared_network&) = delete;  // its calls point to it
    prepared_network& operator=(const prepared_network&) = delete;
    ~prepared_network();

    // Large constants of floats have no bytes here: the steps have them, in their own form.
    const model& from() const noexcept { return model_; }
    row_independence rows() const;
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
    // These go, but for those in use; later ones are made again.
    void forget_calls() const noexcept;

private:
    // The front of another network, whose model lives longer; `names` has only the names of inputs and outputs.
    prepared_network(model names, prepared_graph body, const network_options& options, execution_context& context,
                     pass_watch* watch);
    void take_front(const network_options& options, execution_context& context, pass_watch* watch);
    void add_front_values(operators::place where, std::vector<any_tensor>& inputs) const;
    void drop_large_constants() noexcept;
    void require_fitting(const std::vector<any_tensor>& inputs) const;

    model model_;
    operators::known_to_network known_;
    prepared_graph body_;
    rounding_report rounding_;
    std::unique_ptr<const prepared_network> front_;
    std::vector<std::size_t> front_inputs_;  // the network's inputs that it takes
    device& on_;
    const std::unique_ptr<kept_calls> calls_;  // last: they use the others
};

}  // namespace sluice::nn::detail
