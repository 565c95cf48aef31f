// SPDX-License-Identifier: Apache-2.0
// step_graph: a step of a session as one launch, on a device that has memory of its own.
//
// The graph reads the state in one place and writes the next one to another: a step that fails leaves it. Before a
// launch the state is copied to the first place.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "nn/landed_outputs.hpp"
#include "sluice/graph/compiled_graph.hpp"
#include "sluice/nn/any_tensor.hpp"
#include "sluice/nn/host_view.hpp"
#include "sluice/runtime/device.hpp"
#include "sluice/runtime/storage.hpp"

namespace sluice::nn::detail {

class prepared_network;

// Which inputs and outputs of a network belong together.
struct step_state {
    std::size_t input, output;
};

using deliver_outputs = std::function<void(const landed_outputs&)>;

class step_graph {
public:
    // `inputs`: the forms of all inputs of the network. Throws errc::graph_refused where the network cannot be a graph,
    // or where a state does not keep its type and shape; else what prepared_network::run throws.
    step_graph(const prepared_network& of, std::vector<view_form> inputs, std::vector<step_state> states);
    step_graph(const step_graph&) = delete;  // the recording points to it
    step_graph& operator=(const step_graph&) = delete;

    // Whether it is for these: the inputs that are no state, and the states.
    bool fits(std::span<const input_view> inputs, std::span<any_tensor* const> states) const noexcept;

    // One step, before it returns. The states are where they may be, on the host or on the device, and are the next
    // ones after it, in memory of the graph. `deliver` gets the outputs that are no state before that: after an error,
    // also one of its own, the states are what they were. Throws what prepared_network::run and the wait for it throw.
    void run(std::span<const input_view> inputs, std::span<any_tensor* const> states, const deliver_outputs& deliver);

    // Without one of the two places of the states, where the states are.
    std::size_t memory_bytes() const noexcept;

private:
    bool is_state(std::size_t input) const noexcept;
    void record(sluice::detail::graph_recording& recording);
    void bring(execution_context& context, const any_tensor& state, storage& to) const;

    const prepared_network& of_;
    const std::vector<view_form> inputs_;
    const std::vector<step_state> states_;
    std::vector<storage_ref> blocks_;    // host memory of the inputs that are no state
    std::vector<any_tensor> from_, to_;  // of each state: what a launch reads, and what it writes
    landed_outputs landed_;
    const sluice::detail::graph_function record_ = [this](auto& recording) { record(recording); };
    std::unique_ptr<sluice::detail::compiled_graph> core_;
};

}  // namespace sluice::nn::detail
