// SPDX-License-Identifier: Apache-2.0
// prepared_call: a network, compiled for inputs of some shapes, with memory for one call at a time: what nn::prepared
// is, and what a network keeps of its own calls. On a CPU device the calling thread runs the recorded commands itself,
// which read the inputs and write the outputs where the caller has them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "graph/address_sites.hpp"
#include "nn/landed_outputs.hpp"
#include "runtime/graph_replay.hpp"
#include "runtime/runs_at_once.hpp"
#include "sluice/graph/compiled_graph.hpp"
#include "sluice/nn/any_tensor.hpp"
#include "sluice/nn/host_view.hpp"
#include "sluice/runtime/device.hpp"

namespace sluice::nn::detail {

class prepared_network;

inline std::vector<std::size_t> lengths_of(const view_form& of) { return {of.shape().begin(), of.shape().end()}; }
std::vector<view_form> forms_of(std::span<const input_view> inputs);

// What a call is prepared for: types, shapes, and the numbers of inputs that decide about shapes or about what is run.
struct prepared_inputs {
    explicit prepared_inputs(std::vector<view_form> of) : forms(std::move(of)), numbers(forms.size()) {}
    // With the numbers of host inputs, where they are few.
    prepared_inputs(const prepared_network& network, std::span<const input_view> inputs);

    // Whether these have the same types and shapes, and the numbers that are there.
    bool are(std::span<const input_view> inputs) const noexcept;
    // Whether no other number decides.
    bool decide_all(const prepared_network& network) const noexcept;

    std::vector<view_form> forms;
    std::vector<any_tensor> numbers;  // in host memory; none for an input whose numbers are each call's
};

// Numbers that decide are compared at each call: where an input has more bytes, it is not prepared for.
constexpr std::size_t most_bytes_that_decide = 256;
// Whether the numbers of this input decide, and are few.
bool has_few_that_decide(const prepared_network& network, std::size_t input, const view_form& form) noexcept;

// Why a recording of the network does not serve each call; empty: it does, as no number of it depends on elements of
// inputs that are not fixed, or on chance.
std::string why_not_prepared(const prepared_network& network, const prepared_inputs& inputs);

class prepared_call {
public:
    // Throws what compile and prepared_network::run throw: errc::graph_refused for what cannot be compiled. `pieces`:
    // the rows of each, of a network whose rows are independent and along the first axes: a GPU computes one piece
    // while the next one is copied. Without any the batch is one.
    prepared_call(const prepared_network& of, prepared_inputs inputs, std::vector<std::size_t> pieces = {});
    prepared_call(const prepared_call&) = delete;  // its recording points to it
    prepared_call& operator=(const prepared_call&) = delete;

    bool fits(std::span<const input_view> inputs) const noexcept { return for_.are(inputs); }
    const std::vector<view_form>& inputs() const noexcept { return for_.forms; }
    bool is_fixed(std::size_t input) const noexcept { return static_cast<bool>(for_.numbers[input]); }
    // Of its values: inputs, outputs and what is in between. Costs O(1).
    std::size_t bytes() const noexcept { return bytes_; }
    // Their elements are those of the latest run.
    const landed_outputs& outputs() const noexcept { return landed_; }

    // Whether it has written the outputs to `to`, if there is any: then no copy of outputs() is needed.
    bool run(std::span<const input_view> inputs, std::span<const output_view> to);

    // The memory that run() reads. One call is used with memory of the caller's, or in place, and not with both.
    output_view input(std::size_t index) const;
    input_view output(std::size_t index) const;  // as the latest run left it
    void run();
    // Whether later runs are this thread's own, and wait for nothing. Known from the first run on.
    bool runs_at_once() const noexcept { return at_once_ != nullptr; }
    // Runs with zeros, so that later runs find all that the first one makes. Outputs are zeros then.
    void try_out();
    void clear_outputs() noexcept;

private:
    // Where the list's commands have an input's address; nowhere, if they must read the copy.
    struct input_use {
        std::vector<sluice::detail::address_site> sites;
        const void* now;
    };
    // Where the list's commands have an output's address: those that compute it, or the copy that ends the list.
    struct output_use {
        std::vector<sluice::detail::address_site> sites;
        std::size_t bytes;
        void *landed, *now;  // where it is written if the caller does not say where, and in the latest run
    };

    void record(sluice::detail::graph_recording& recording);
    void launch();
    bool is_input(const void* at) const noexcept;
    std::vector<output_use> uses_of_outputs();
    bool may_lead(std::span<const input_view> inputs, std::span<const output_view> to) const;
    bool lead_input(std::size_t input, const void* to);
    void lead_output(output_use& use, void* to);

    const prepared_inputs for_;
    const std::vector<std::size_t> pieces_;
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

// A call that has run with zeros. Null: the network cannot be prepared, or the call would have more bytes than these,
// for the reason that `why_not` says then. Blocks; throws what prepared_call and its run throw otherwise.
std::unique_ptr<prepared_call> try_to_prepare(const prepared_network& of, prepared_inputs inputs, std::string& why_not,
                                              std::size_t most_bytes = ~std::size_t{0});

// The call, or one whose rows come in pieces: the faster one, where copies to and from a GPU take a large part of its
// time. It has run with zeros too, and its outputs are zeros. Blocks for some compilations and runs. Throws
// errc::runtime_closed and errc::device_lost.
std::unique_ptr<prepared_call> in_pieces_if_faster(const prepared_network& of, std::unique_ptr<prepared_call> whole);

}  // namespace sluice::nn::detail
