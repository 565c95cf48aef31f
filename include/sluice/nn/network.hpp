// SPDX-License-Identifier: Apache-2.0
// network: a model that is ready to run on a device. Its constants are there.
//
//     const nn::network digits = sync(nn::make_network(nn::load_onnx("digits.onnx")), pool);
//     const auto answers = sync(digits.run({nn::any_tensor(pixels, {n, 64})}), pool);   // answers[0].values<float>()
//     digits({{pixels, {n, 64}}}, {{logits, {n, 10}}});   // at once: for small networks on a CPU
//     nn::prepared fast = digits.prepare({{"x", {n, 64}}});   // for many calls with these shapes: prepared.hpp
//
// Where a value is computed: what depends only on constants, when the network is made; what depends on shapes, e.g. the
// new shape of a Reshape, on the host while the network is submitted; everything else on the device. Some operators
// need the numbers of an input before they can be submitted, for instance because their output's shape depends on them:
// the inputs of the network that lead there are host_inputs(), and are given in host memory.
//
// Immutable; copies share the constants. Thread safety: all members may be called on any thread.
//
// All functions here take constant time, but for these: operator() and infer take what the network takes; submitting an
// operation is linear in the number of its steps; prepare compiles the network and tries it out; known_operators is
// linear in the number of operators, and check_operators in that of nodes; make_network also prepares the network where
// its operation is submitted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/nn/any_tensor.hpp"
#include "sluice/nn/host_view.hpp"
#include "sluice/nn/model.hpp"
#include "sluice/nn/own_operator.hpp"
#include "sluice/nn/precision.hpp"
#include "sluice/nn/prepared.hpp"
#include "sluice/op/operation.hpp"
#include "sluice/runtime/execution_context.hpp"
#include "sluice/runtime/pending.hpp"

namespace sluice::nn {

class forward_values;
class run_network;

// How a network is made.
struct network_options {
    // Operators of the caller's own, in addition to those of ONNX.
    own_operators own = {};
    // How products and convolutions are computed. f32: as the model says.
    nn::precision precision = nn::precision::f32;
};

struct network_part;

// What a network does at once: a node, or several that the passes made one (docs/design/networks.md).
struct network_step {
    std::string name;                    // its commands have it in traces: "conv1"; the operator's, for a node without
    std::vector<std::string> operators;  // of its nodes, in order: "Conv", "BatchNormalization"
    std::vector<std::string> inputs;     // names of values, without those that are left out or that passes have made
    std::vector<std::string> outputs;    // the same
    bool is_on_host = false;             // it is computed on the host while the network is submitted
    // It is a part of the next step's kernel, where the shapes of a run permit that.
    bool may_join_next = false;
    std::vector<network_part> parts;  // of If, Loop, Scan
};

// A graph inside a step.
struct network_part {
    std::vector<std::string> inputs, outputs;  // names of values
    std::vector<network_step> steps;           // as network::steps gives them
};

class network {
public:
    // Use make_network.
    explicit network(std::shared_ptr<const detail::prepared_network> made) : made_(std::move(made)) {}

    const std::vector<value_info>& inputs() const noexcept;   // names, types and shapes, in the model's order
    const std::vector<value_info>& outputs() const noexcept;  // names, types and shapes, in the model's order
    // The texts that the network knows, for text_codes: model::texts.
    const std::vector<std::string>& texts() const noexcept;
    // Whether the input has to be in host memory.
    bool is_host_input(std::size_t input) const noexcept;
    // Which products and convolutions are computed in which precision, and what the device has for it.
    const rounding_report& rounding() const noexcept;

    // The outputs for these inputs, in the model's orders; both on the device, or in host memory where that is how they
    // are computed. Inputs in host memory are uploaded. When submitted, throws errc::shape_mismatch for a wrong number
    // of inputs, another type or another shape than the model's, by name; errc::unsupported for an input on the device
    // that is a host input, and for what an operator cannot do; file_error when a node is wrong. On a GPU, indices that
    // are computed there are not checked by forward, only by run: an element at a place that is not there is NaN (of
    // integers the number farthest from 0), and nothing is written to such a place. Takes constant time; submitting it
    // costs the host at least time linear in the number of steps.
    forward_values forward(std::vector<any_tensor> inputs) const;

    // The same with all outputs in host memory. They may be read after the wait. Indices that are out of range (of
    // Gather, ScatterND, ...) are errors (errc::out_of_range): when submitted, if they are in host memory; else of the
    // wait.
    run_network run(std::vector<any_tensor> inputs) const;

    // Answers at once: reads the inputs and writes the outputs, in the model's orders, before it returns. On a CPU the
    // calling thread computes, without a queue and without waking a thread; workers of the device help with large
    // commands. From the third call with inputs of the same types and shapes on, this allocates no memory: the second
    // one compiles the network for them. Up to 64 compiled networks are kept with their buffers, one for each
    // combination of types and shapes and for each thread that uses it at the same time; one more replaces one that was
    // not used lately. On a GPU, on a device that is traced, and for networks that draw random numbers, have host
    // inputs or operators of the caller's own, the commands go to a stream of its own, which it waits for. May be
    // called on several threads at once; they do not wait for each other. Throws what run and the wait for it throw;
    // errc::shape_mismatch for views that do not fit the network, by name: then no output is written. Where the network
    // cannot be compiled, and in its first two calls, it throws errc::invalid_argument where sync would.
    void operator()(std::span<const input_view> inputs, std::span<const output_view> outputs) const;
    void operator()(std::initializer_list<input_view> inputs, std::initializer_list<output_view> outputs) const {
        (*this)(std::span(inputs.begin(), inputs.size()), std::span(outputs.begin(), outputs.size()));
    }

    // The same with outputs in new host memory, of the shapes that they have.
    std::vector<any_tensor> operator()(std::span<const input_view> inputs) const;

    // The network for inputs of these shapes, with memory of its own; inputs whose shape the model says need not be
    // named. Compiles the network and runs it with zeros, so it blocks. May be called on any thread that may wait.
    // Throws errc::invalid_argument for a name that no input has, or twice, and for fixed numbers that decide nothing,
    // are of another type, or have no memory; errc::shape_mismatch for an input without a
    // shape, and for a shape that is not the model's, by name; errc::unsupported, with the reason, for a network that
    // cannot be compiled once for all numbers: it has host inputs that are not fixed, computes on the host what depends
    // on another input's numbers, draws random numbers, or has an input without elements. Throws what run throws.
    prepared prepare(std::span<const input_shape> shapes, std::span<const fixed_input> fixed = {}) const;
    prepared prepare(std::initializer_list<input_shape> shapes = {},
                     std::initializer_list<fixed_input> fixed = {}) const {
        return prepare(std::span(shapes.begin(), shapes.size()), std::span(fixed.begin(), fixed.size()));
    }

    // The types and shapes of the outputs for inputs of these types and shapes; nothing is computed. Host inputs need
    // their elements. Throws what forward throws when it is submitted.
    std::vector<any_tensor> infer(std::vector<any_tensor> inputs) const;

    // The steps of a run, in order, as the passes have left them; what was computed beforehand is not among them. They
    // may differ from device to device. For display. Linear in the number of nodes.
    std::vector<network_step> steps() const;

    const detail::prepared_network& inside() const noexcept { return *made_; }  // for the library's own use

private:
    std::shared_ptr<const detail::prepared_network> made_;
};

// The operation that network::forward returns.
class forward_values : public operation_base<forward_values> {
public:
    using output = std::vector<any_tensor>;

    // Called by network::forward.
    forward_values(network what, std::vector<any_tensor> inputs)
        : network_(std::move(what)), inputs_(std::move(inputs)) {}

    output submit(execution_context& context) &&;
    work_estimate estimate() const;

private:
    network network_;
    std::vector<any_tensor> inputs_;
};

// The operation that network::run returns.
class run_network : public operation_base<run_network> {
public:
    using output = pending<std::vector<any_tensor>>;

    // Called by network::run.
    run_network(network what, std::vector<any_tensor> inputs) : network_(std::move(what)), inputs_(std::move(inputs)) {}

    output submit(execution_context& context) &&;
    work_estimate estimate() const;

private:
    network network_;
    std::vector<any_tensor> inputs_;
};

// The operation that make_network returns.
class make_network_operation : public operation_base<make_network_operation> {
public:
    using output = network;

    explicit make_network_operation(model from, network_options options = {})
        : model_(std::move(from)), options_(std::move(options)) {}

    output submit(execution_context& context) &&;
    work_estimate estimate() const { return {model_.body.constants.size()}; }

private:
    model model_;
    network_options options_;
};

// The operators that Sluice has, in the order of domain, name and version. `since` and `until` are versions of the
// domain's operator set; the newest are open.
struct known_operator {
    std::string_view domain;            // empty: ai.onnx
    std::string_view name;              // "Gemm"
    std::int64_t since = 1;             // the first version of the operator set that has it so
    std::optional<std::int64_t> until;  // the last one; none: it is open
};
// All operators that Sluice has, in the order that known_operator describes.
std::vector<known_operator> known_operators();

// Throws what make_network throws for operators that are not known, and for wrong nodes, without a device.
void check_operators(const model& from, const own_operators& own = {});

// Checks that the network can run, computes what depends on constants only, and puts the rest of the constants on the
// context's device, once. Throws file_error (errc::unsupported) that lists all operators that are not known, with their
// nodes and operator sets; file_error for a node with a wrong number of inputs or outputs, or with an attribute that
// its operator does not have.
inline make_network_operation make_network(model from, network_options options = {}) {
    return make_network_operation(std::move(from), std::move(options));
}

}  // namespace sluice::nn
