// SPDX-License-Identifier: Apache-2.0
// device_steps: the steps of a session whose state stays on a device that has memory of its own.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "nn/landed_outputs.hpp"
#include "nn/sessions/step_graph.hpp"
#include "sluice/nn/any_tensor.hpp"
#include "sluice/nn/host_view.hpp"
#include "sluice/nn/kept_limit.hpp"

namespace sluice::nn::detail {

class prepared_network;

class device_steps {
public:
    device_steps(const prepared_network& of, std::vector<step_state> states) : of_(of), states_(std::move(states)) {}

    // One step, before it returns: `deliver` gets the outputs that are no state, and the states are the next ones then.
    // After an error, also one of `deliver`, they are what they were. From the third step in a row with the same shapes
    // on, a step is one launch, where the network can be a graph of at most kept_limit bytes and the states keep their
    // shapes. Throws what network::run and the wait for it throw.
    void run(std::span<const input_view> inputs, std::span<any_tensor* const> states, const deliver_outputs& deliver);

    // Without the states themselves.
    std::size_t memory_bytes() const noexcept { return graph_ != nullptr ? graph_->memory_bytes() : 0; }

private:
    void submit(std::span<const input_view> inputs, std::span<any_tensor* const> states,
                const deliver_outputs& deliver);
    void note(std::span<const input_view> inputs, std::span<any_tensor* const> states);
    std::vector<view_form> forms_of(std::span<const input_view> inputs, std::span<any_tensor* const> states) const;

    const prepared_network& of_;
    const std::vector<step_state> states_;
    const std::size_t most_bytes_ = kept_limit::current();
    std::vector<view_form> latest_;  // all inputs of the latest step, unless it was a launch of the graph
    std::size_t repeats_ = 0;        // how many steps before it had the same
    std::unique_ptr<step_graph> graph_;
};

// Copies in host memory, before it returns.
std::vector<any_tensor> bring_to_host(const prepared_network& of, std::vector<any_tensor> values);

}  // namespace sluice::nn::detail
