// SPDX-License-Identifier: Apache-2.0
#include "inspect_command.hpp"

#include <ostream>
#include <vector>

#include "describe.hpp"
#include "describe_onnx.hpp"
#include "network_file.hpp"
#include "network_picture.hpp"
#include "sluice/base/error.hpp"
#include "sluice/io/write_file.hpp"
#include "sluice/nn/onnx.hpp"
#include "sluice/runtime/runtime.hpp"
#include "sluice/runtime/scheduling_policy.hpp"
#include "sluice/runtime/sync.hpp"

namespace sluice::app {
namespace {

[[noreturn]] void refuse(const std::string& why) { throw error(errc::invalid_argument, why, {"inspect"}); }

std::vector<nn::network_step> steps_of(const nn::model& network, const std::string& device) {
    const runtime machine({.cuda = !device.starts_with("cpu")});
    round_robin pool(machine.find(device), 1);
    return sync(nn::make_network(network), pool).steps();
}

void draw(const inspect_options& options, const std::vector<flow_chart>& charts) {
    if (!options.picture) return;
    io::write_file(*options.picture, [&](std::ostream& to) { write_flow_charts(charts, to); });
}

void inspect_onnx(const inspect_options& options, bool as_json, std::ostream& out) {
    const nn::model network = nn::load_onnx(options.model);
    std::vector<nn::network_step> steps;
    if (options.passes) steps = steps_of(network, options.device);
    std::vector<flow_chart> charts;
    if (options.picture) charts.push_back(picture_of(network));
    if (options.picture && options.passes) charts.push_back(picture_of(network, steps));
    draw(options, charts);
    describe_onnx(network, options.passes ? &steps : nullptr, as_json, out);
}

}  // namespace

void inspect(const inspect_options& options, bool as_json, std::ostream& out) {
    if (options.picture && options.picture->empty()) refuse("--picture: the name is empty");
    // load_network refuses activations for ONNX files.
    if (is_onnx(options.model) && !options.network.hidden && !options.network.output)
        return inspect_onnx(options, as_json, out);
    const nn::mlp_model network = load_network(options.model, options.network);
    if (options.passes) refuse("--passes is for networks in ONNX files: a multi-layer perceptron has none");
    if (options.picture) draw(options, {picture_of(network)});
    describe_layers(network, options.model, as_json, out);
}

}  // namespace sluice::app
