// SPDX-License-Identifier: Apache-2.0
#include "inspect_command.hpp"

#include <ostream>
#include <vector>

#include "describe_network.hpp"
#include "network_file.hpp"
#include "network_picture.hpp"
#include "sluice/base/error.hpp"
#include "sluice/io/write_file.hpp"
#include "sluice/nn/pass_report.hpp"
#include "sluice/nn/precision.hpp"
#include "sluice/runtime/runtime.hpp"
#include "sluice/runtime/scheduling_policy.hpp"
#include "sluice/runtime/sync.hpp"

namespace sluice::app {
namespace {

[[noreturn]] void refuse(const std::string& why) { throw error(errc::invalid_argument, why, {"inspect"}); }

std::vector<nn::pass_report> passes_of(const nn::model& network, const inspect_options& options) {
    const runtime machine({.cuda = !options.device.starts_with("cpu")});
    round_robin pool(machine.find(options.device), 1);
    return sync(nn::list_passes(network, {.precision = nn::precision_from_string(options.precision).value()}), pool);
}

void draw(const inspect_options& options, const std::vector<flow_chart>& charts) {
    if (!options.picture) return;
    io::write_file(*options.picture, [&](std::ostream& to) { write_flow_charts(charts, to); });
}

}  // namespace

void inspect(const inspect_options& options, bool as_json, std::ostream& out) {
    if (options.picture && options.picture->empty()) refuse("--picture: the name is empty");
    const nn::model network = load_model(options.model, options.network);
    std::vector<nn::pass_report> passes;
    if (options.passes) passes = passes_of(network, options);
    std::vector<flow_chart> charts;
    if (options.picture) charts.push_back(picture_of(network));
    for (const nn::pass_report& each : passes)
        if (options.picture && each.has_changed) charts.push_back(picture_of(network, each));
    draw(options, charts);
    describe_network(network, passes, as_json, out);
}

}  // namespace sluice::app
