// SPDX-License-Identifier: Apache-2.0
// list_passes: what the passes make of a network, one after the other.
//
//     for (const nn::pass_report& each : sync(nn::list_passes(nn::load_onnx("model.onnx")), pool))
//         if (each.has_changed) std::cout << each.name << ": " << each.steps.size() << " steps\n";
//
// For display, and to see why a network is as fast as it is. `sluice inspect --passes` prints it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "sluice/nn/model.hpp"
#include "sluice/nn/network.hpp"
#include "sluice/op/operation.hpp"
#include "sluice/runtime/execution_context.hpp"

namespace sluice::nn {

// One pass, and the network after it.
struct pass_report {
    std::string name;                 // "attention"
    std::string effect;               // "Softmax between two MatMuls, with scale, masks and heads, is one command"
    std::string condition;            // on which devices and in which precisions: "on a CPU"
    bool applies = false;             // whether that holds here
    bool has_changed = false;         // whether the pass changed a step or a constant
    std::vector<network_step> steps;  // of the network after the pass
};

// The operation that list_passes returns.
class list_passes_operation : public operation_base<list_passes_operation> {
public:
    using output = std::vector<pass_report>;

    explicit list_passes_operation(model from, network_options options = {})
        : model_(std::move(from)), options_(std::move(options)) {}

    output submit(execution_context& context) &&;
    work_estimate estimate() const { return {model_.body.constants.size()}; }

private:
    model model_;
    network_options options_;
};

// Makes the network for the context's device, and drops it again. The first report is "model": the nodes of the file.
// The passes follow in their order. On a CPU, what comes before shapes depend on numbers may become a network of its
// own: then "front" and its passes come first, and "rest" and its passes next. Throws, and costs, what make_network
// does; blocks no more than it.
inline list_passes_operation list_passes(model from, network_options options = {}) {
    return list_passes_operation(std::move(from), std::move(options));
}

}  // namespace sluice::nn
