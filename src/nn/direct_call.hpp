// SPDX-License-Identifier: Apache-2.0
// direct_call: a network, compiled for inputs of some shapes, with memory for one call at a time. On a CPU device the
// calling thread runs the recorded commands itself, which read the inputs and write the outputs where the caller has
// them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "graph/address_sites.hpp"
#include "nn/landed_outputs.hpp"
#include "runtime/graph_replay.hpp"
#include "runtime/runs_at_once.hpp"
#include "sluice/graph/compiled_graph.hpp"
#include "sluice/nn/host_view.hpp"
#include "sluice/runtime/device.hpp"

namespace sluice::nn::detail {

class prepared_network;

inline std::vector<std::size_t> lengths_of(const view_form& of) { return {of.shape().begin(), of.shape().end()}; }
std::vector<view_form> forms_of(std::span<const input_view> inputs);

class direct_call {
public:
    // Throws what compile and prepared_network::run throw.
    direct_call(const prepared_network& of, device& on, std::span<const input_view> inputs);
    direct_call(const direct_call&) = delete;  // its recording points to it
    direct_call& operator=(const direct_call&) = delete;

    bool fits(std::span<const input_view> inputs) const noexcept;
    // Of its values: inputs, outputs and what is in between. Costs O(1).
    std::size_t bytes() const noexcept { return bytes_; }
    // Their elements are those of the latest run.
    const landed_outputs& outputs() const noexcept { return landed_; }

    // Whether it has written the outputs to `to`, if there is any: then no copy of outputs() is needed.
    bool run(std::span<const input_view> inputs, std::span<const output_view> to);

private:
    // Where the list's commands have an input's address; nowhere, if they must read the copy.
    struct input_use {
        std::vector<sluice::detail::address_site> sites;
        const void* now;
    };
    // A command of the list, which copies an output.
    struct output_use {
        std::size_t node;
        void *landed, *now;  // where it writes if the caller does not say where, and in the latest run
    };

    void record(sluice::detail::graph_recording& recording);
    void launch();
    std::vector<output_use> copies_of_outputs() const;
    bool lead_input(std::size_t input, const void* to);
    void lead_output(output_use& use, void* to);

    const std::vector<view_form> inputs_;
    const prepared_network& of_;
    const stream_lease on_;
    std::size_t recordings_ = 0;
    std::size_t bytes_ = 0;
    landed_outputs landed_;            // of the latest call
    std::vector<storage_ref> blocks_;  // copies of the inputs
    const sluice::detail::graph_function record_ = [this](auto& recording) { record(recording); };
    sluice::detail::compiled_graph core_;
    sluice::detail::runs_at_once* at_once_ = nullptr;    // the stream's, from the first launch on
    std::shared_ptr<sluice::detail::replay_list> list_;  // of this call only
    std::vector<input_use> uses_;
    std::vector<output_use> outputs_;  // none: they are copied from landed_
};

}  // namespace sluice::nn::detail
