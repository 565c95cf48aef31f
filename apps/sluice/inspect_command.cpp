// SPDX-License-Identifier: Apache-2.0
#include "inspect_command.hpp"

#include <ostream>
#include <vector>

#include "describe_network.hpp"
#include "network_file.hpp"
#include "network_picture.hpp"
#include "sluice/base/error.hpp"
#include "sluice/io/write_file.hpp"
#include "sluice/nn/network.hpp"
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

}  // namespace

void inspect(const inspect_options& options, bool as_json, std::ostream& out) {
    if (options.picture && options.picture->empty()) refuse("--picture: the name is empty");
    const nn::model network = load_model(options.model, options.network);
    std::vector<nn::network_step> steps;
    if (options.passes) steps = steps_of(network, options.device);
    std::vector<flow_chart> charts;
    if (options.picture) charts.push_back(picture_of(network));
    if (options.picture && options.passes) charts.push_back(picture_of(network, steps));
    draw(options, charts);
    describe_network(network, options.passes ? &steps : nullptr, as_json, out);
}

}  // namespace sluice::app
